// Run by jest, and by vitest with globals: the helper takes the hooks that they define.
/* global beforeAll, afterAll, expect, test */
const Redis = require('ioredis')
const { useStillframe } = require('stillframe/testing')

const used = useStillframe()
let redis
beforeAll(() => { redis = new Redis(used.server.path) })
afterAll(() => redis.disconnect())

for (const name of ['first', 'second']) {
  test(`${name} finds nothing`, async () => {
    expect(await redis.dbsize()).toBe(0)
    await redis.set(name, 'v')
  })
}
