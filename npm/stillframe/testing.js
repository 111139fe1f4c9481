'use strict'

const { Stillframe } = require('./index.js')

/**
 * Starts one server before the tests of a file and stops it behind them; each test finds it empty.
 * For test runners with global beforeAll, afterAll and beforeEach: jest, vitest with globals.
 */
function useStillframe (options = {}, hooks = globalThis) {
  const { beforeAll, afterAll, beforeEach } = hooks
  if (!beforeAll || !afterAll || !beforeEach) {
    throw new Error("useStillframe needs beforeAll, afterAll and beforeEach: pass those of your test runner, as in useStillframe({}, require('vitest'))")
  }
  const used = { server: undefined }
  beforeAll(async () => { used.server = await Stillframe.start(options) })
  beforeEach(() => flush(used.server))
  afterAll(() => used.server?.stop())
  return used
}

/** FLUSHALL and FUNCTION FLUSH over a connection of its own. */
function flush (server) {
  const net = require('node:net')
  return new Promise((resolve, reject) => {
    const to = server.port === null ? { path: server.path } : { port: server.port, host: '127.0.0.1' }
    const socket = net.connect(to, () => socket.end('FLUSHALL\r\nFUNCTION FLUSH\r\n'))
    let reply = ''
    socket.on('data', (bytes) => { reply += bytes })
    socket.on('error', reject)
    socket.on('end', () => reply === '+OK\r\n+OK\r\n' ? resolve() : reject(new Error(reply.trim() || 'the server has ended')))
  })
}

module.exports = { useStillframe }
