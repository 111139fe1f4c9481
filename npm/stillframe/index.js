'use strict'

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const readline = require('node:readline')

// Lines of the log that an error of the start shows.
const SHOWN_LINES = 10
// Settings that the package makes itself, with what to say instead.
const OWN = {
  bind: '`port` is on 127.0.0.1',
  daemonize: 'the server ends with this process',
  dir: 'say `dir`',
  'end-with-stdin': 'the server ends with this process',
  'log-format': '`onLog` gets the lines',
  logfile: '`onLog` gets the lines',
  port: 'say `port`',
  unixsocket: '`path` is the socket'
}
const OPTIONS = ['dir', 'port', 'settings', 'onLog']

/** The path of the server's program. */
function binary () {
  if (process.env.STILLFRAME_BINARY) return process.env.STILLFRAME_BINARY
  const name = `@stillframe/${process.platform}-${process.arch}`
  try {
    return require.resolve(`${name}/bin/stillframe`)
  } catch {
    throw new Error(
      `there is no stillframe for ${process.platform} on ${process.arch} here (${name} is not installed): ` +
      'install with optional dependencies, or set STILLFRAME_BINARY to a binary that you built')
  }
}

/** A setting as words of a command line. */
function words (name, value) {
  if (!/^[a-z0-9-]+$/i.test(name)) throw new TypeError(`'${name}' is no setting`)
  if (Array.isArray(value)) return value.flatMap((one) => words(name, one))
  if (typeof value === 'boolean') value = value ? 'yes' : 'no'
  if (typeof value !== 'string' && typeof value !== 'number') {
    throw new TypeError(`${name}: a string, a number or a boolean is wanted`)
  }
  return [`--${name}=${value}`]
}

/** Folders that go with their servers, and with this process. */
const temporary = new Set()
process.on('exit', () => temporary.forEach(removeFolder))

function removeFolder (folder) {
  fs.rmSync(folder, { recursive: true, force: true })
  temporary.delete(folder)
}

/** Refuses what `start` does not know. */
function check (options) {
  if (options === null || typeof options !== 'object') throw new TypeError('start wants an object')
  const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name))
  if (unknown !== undefined) throw new TypeError(`start knows no '${unknown}': ${OPTIONS.join(', ')}`)
  const { port, settings = {} } = options
  if (port !== undefined && !(Number.isInteger(port) && port >= 0 && port < 65536)) {
    throw new TypeError(`port: a whole number is wanted, not ${typeof port} '${port}'`)
  }
  for (const name of Object.keys(settings)) {
    const instead = OWN[name.toLowerCase()]
    if (instead !== undefined) throw new TypeError(`'${name}' is the package's own: ${instead}`)
  }
  if (/^warning$/i.test(settings.loglevel)) {
    throw new TypeError("loglevel 'warning' hides that the server is ready: leave lines out in `onLog`")
  }
}

class Stillframe {
  #child
  #ended
  #isStopping = false

  constructor (child, fields, ended) {
    this.#child = child
    this.#ended = ended
    /** The data directory. */
    this.dir = fields.dir
    /** The unix socket, or null. */
    this.path = fields.path
    /** The port on 127.0.0.1, or null. */
    this.port = fields.port
    /** The process. */
    this.pid = child.pid
  }

  /** The address as a URL; clients take a unix socket by its path. */
  get url () {
    return this.port === null ? `unix://${this.path}` : `redis://127.0.0.1:${this.port}`
  }

  /** Starts a server; resolves once it has loaded its data and serves. */
  static async start (options = {}) {
    check(options)
    let { dir, port, settings = {}, onLog } = options
    const program = binary()
    const made = []
    const folder = (kind) => {
      made.push(fs.mkdtempSync(path.join(os.tmpdir(), `stillframe-${kind}-`)))
      temporary.add(made.at(-1))
      return made.at(-1)
    }
    const remove = () => made.splice(0).forEach(removeFolder)
    try {
      const keeps = dir !== undefined
      dir = path.resolve(keeps ? dir : folder('data'))
      // A path of a socket has at most 107 bytes, so it is not in the data directory.
      const socket = port === 0 ? null : path.join(folder('socket'), 'socket')
      const args = ['serve', '--dir', dir, `--port=${port ?? 0}`, '--end-with-stdin=yes']
      if (socket !== null) args.push('--unixsocket', socket)
      if (!keeps && !('save' in settings)) args.push('--save=')
      for (const [name, value] of Object.entries(settings)) args.push(...words(name, value))
      const child = spawn(program, args, { stdio: ['pipe', 'ignore', 'pipe'] })
      child.stdin.on('error', () => {}) // its end is told by 'exit'
      const found = await ready(child, { wantsPort: port !== undefined, socket, onLog })
      const ended = once(child, 'exit').finally(remove)
      // The server alone keeps no program running.
      child.unref()
      child.stdin.unref?.()
      child.stderr.unref?.()
      return new Stillframe(child, { dir, path: socket, port: found }, ended)
    } catch (error) {
      remove()
      throw error
    }
  }

  /** Stops it as SIGTERM does: saves if there is a schedule. Rejects if it has failed. */
  async stop () {
    this.#isStopping = true
    this.#child.ref()
    this.#child.stdin.end()
    const [code, signal] = await this.#ended
    if (code !== 0) throw new Error(`stillframe ended by ${signal ?? `code ${code}`}`)
  }

  /** Kills it as a crash would: for tests. */
  async kill () {
    this.#isStopping = true
    this.#child.ref()
    this.#child.kill('SIGKILL')
    await this.#ended
  }

  /** Settles when the server has ended. */
  get ended () {
    return this.#ended.then(([code, signal]) => ({ code, signal, wasAsked: this.#isStopping }))
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')] () {
    await this.stop()
  }
}

/** Waits until the server listens; returns its port, if it has one. */
function ready (child, { wantsPort, socket, onLog }) {
  return new Promise((resolve, reject) => {
    const last = []
    let port = null
    let waits = true
    const failed = (reason) => {
      waits = false
      reject(new Error([`stillframe does not start: ${reason}`, ...last].join('\n')))
    }
    child.once('error', (error) => failed(error.message))
    child.once('close', (code, signal) => waits && failed(`it ended by ${signal ?? `code ${code}`}`))
    readline.createInterface({ input: child.stderr }).on('line', (line) => {
      onLog?.(line)
      if (!waits) return
      last.push(line)
      if (last.length > SHOWN_LINES) last.shift()
      const where = /Ready to accept connections on (.*)$/.exec(line)?.[1]
      if (where === undefined) return
      const number = /^127\.0\.0\.1:(\d+)$/.exec(where)?.[1]
      if (number !== undefined) port = Number(number)
      if (wantsPort ? port !== null && (socket === null || where === socket) : where === socket) {
        waits = false
        resolve(port)
      }
    })
  })
}

module.exports = { Stillframe, default: Stillframe, binary }
