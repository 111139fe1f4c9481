'use strict'

const assert = require('node:assert')
const { spawn } = require('node:child_process')
const { once } = require('node:events')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const readline = require('node:readline')
const { test } = require('node:test')

const Redis = require('ioredis')
const { createClient } = require('redis')
const { Queue, Worker, QueueEvents } = require('bullmq')
const { Stillframe } = require('stillframe')

const folder = () => fs.mkdtempSync(path.join(os.tmpdir(), 'npm-test-'))

/** What a program of its own prints first, and the program. */
async function program (text) {
  const child = spawn(process.execPath, ['-e', text], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(readline.createInterface({ input: child.stdout }), 'line')
  return [child, line]
}

async function gone (pid) {
  for (;;) {
    try { process.kill(pid, 0) } catch { return }
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('data outlives the server, and ioredis finds it by its socket', async () => {
  const dir = folder()
  for (const count of [1, 2]) {
    const server = await Stillframe.start({ dir, settings: { appendonly: true, maxmemory: '1gb', save: ['3600 1', '60 100'] } })
    assert.equal(server.port, null)
    const redis = new Redis(server.path)
    assert.equal(await redis.incr('starts'), count)
    assert.deepEqual(await redis.config('GET', 'save'), ['save', '3600 1 60 100'])
    redis.disconnect()
    await server.stop()
    assert.deepEqual(await server.ended, { code: 0, signal: null, wasAsked: true })
    assert.ok(!fs.existsSync(server.path))
  }
})

for (const page of process.env.STILLFRAME_PAGES.split(':')) {
  test(`the example of ${path.basename(page)} runs, and its data outlives it`, async () => {
    const examples = fs.readFileSync(page, 'utf8').matchAll(/^```js\n(.*?)^```/gms)
    const texts = [...examples].map(([, text]) => text)
    assert.ok(texts.length > 0)
    for (const text of texts) {
      const dir = folder()
      const [child, line] = await program(
        `process.chdir(${JSON.stringify(dir)});\n(async () => {\n${text}\nconsole.log('done')\n})()`)
      assert.equal(line, 'done')
      if (child.exitCode === null) await once(child, 'exit')
      assert.equal(child.exitCode, 0)
      const server = await Stillframe.start({ dir: path.join(dir, 'data'), settings: { appendonly: true } })
      const redis = new Redis(server.path)
      assert.equal(await redis.get('k'), 'v')
      redis.disconnect()
      await server.stop()
    }
  })
}

test('node-redis finds it by its port, and two servers share nothing', async () => {
  const servers = await Promise.all([0, 0].map((port) => Stillframe.start({ port })))
  const clients = servers.map(({ url }) => createClient({ url }))
  for (const client of clients) await client.connect()
  await clients[0].set('k', 'v')
  assert.equal(await clients[0].get('k'), 'v')
  assert.equal(await clients[1].get('k'), null)
  for (const client of clients) await client.close()
  await Promise.all(servers.map((server) => server.stop()))
  assert.ok(servers.every(({ dir }) => !fs.existsSync(dir)))
})

test('BullMQ works jobs', async () => {
  const server = await Stillframe.start({ port: 0, settings: { 'maxmemory-policy': 'noeviction' } })
  const connection = { port: server.port, host: '127.0.0.1', maxRetriesPerRequest: null }
  const queue = new Queue('sums', { connection })
  const events = new QueueEvents('sums', { connection })
  await events.waitUntilReady()
  const worker = new Worker('sums', async ({ data }) => data.a + data.b, { connection, concurrency: 4 })
  const jobs = await Promise.all([...Array(50).keys()].map((a) => queue.add('sum', { a, b: 1 })))
  const sums = await Promise.all(jobs.map((job) => job.waitUntilFinished(events)))
  assert.deepEqual(sums, [...Array(50).keys()].map((a) => a + 1))
  await Promise.all([worker.close(), events.close(), queue.close()])
  await server.stop()
})

test('a parent that is killed takes its server with it', async () => {
  const dir = folder()
  const text = `require('stillframe').Stillframe.start({ dir: ${JSON.stringify(dir)}, settings: { save: '3600 1' } })
    .then(async (server) => {
      const redis = new (require('ioredis'))(server.path)
      await redis.set('k', 'v')
      console.log(server.pid)
    })`
  const [child, pid] = await program(text)
  child.kill('SIGKILL')
  await once(child, 'exit')
  await gone(Number(pid))
  const server = await Stillframe.start({ dir })
  const redis = new Redis(server.path)
  assert.equal(await redis.get('k'), 'v')
  redis.disconnect()
  await server.stop()
})

test('a program that forgets its server ends', async () => {
  const before = fs.readdirSync(process.env.TMPDIR ?? os.tmpdir()).filter((it) => it.startsWith('stillframe-'))
  const [child, pid] = await program("require('stillframe').Stillframe.start().then((server) => console.log(server.pid))")
  const [code] = child.exitCode === null ? await once(child, 'exit') : [child.exitCode]
  assert.equal(code, 0)
  await gone(Number(pid))
  assert.deepEqual(fs.readdirSync(process.env.TMPDIR ?? os.tmpdir()).filter((it) => it.startsWith('stillframe-')), before)
})

test('errors tell what is wrong', async () => {
  const dir = folder()
  await assert.rejects(Stillframe.start({ settings: { maxmemry: '1gb' } }), /maxmemry/)
  await assert.rejects(Stillframe.start({ settings: { 'x y': 1 } }), /'x y' is no setting/)
  await assert.rejects(Stillframe.start({ settings: { save: {} } }), /save: a string/)
  await assert.rejects(Stillframe.start({ port: '0' }), /port: a whole number/)
  await assert.rejects(Stillframe.start({ ports: 1 }), /knows no 'ports'/)
  await assert.rejects(Stillframe.start(null), /wants an object/)
  for (const settings of [{ loglevel: 'warning' }, { logfile: '/tmp/x' }, { unixsocket: '/tmp/x' }, { 'end-with-stdin': false }, { daemonize: true }]) {
    await assert.rejects(Stillframe.start({ settings }), new RegExp(Object.keys(settings)[0]))
  }
  const server = await Stillframe.start({ dir })
  await assert.rejects(Stillframe.start({ dir }), /another/)
  await assert.rejects(Stillframe.start({ dir: '/proc/none' }), /proc/)
  const stays = setInterval(() => {}, 1000) // a server alone keeps no program running
  process.kill(server.pid, 'SIGKILL')
  assert.deepEqual(await server.ended, { code: null, signal: 'SIGKILL', wasAsked: false })
  clearInterval(stays)
  await assert.rejects(server.stop(), /SIGKILL/)
  fs.writeFileSync(path.join(dir, 'dump.rdb'), 'REDIS0010 nonsense')
  await assert.rejects(Stillframe.start({ dir }), /dump.rdb/)
})
