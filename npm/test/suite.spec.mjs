// Run by vitest: one server for a file, empty before each test.
import * as vitest from 'vitest'
import Redis from 'ioredis'
import { useStillframe } from 'stillframe/testing'

const { afterAll, expect, test } = vitest
const used = useStillframe({}, vitest)
let redis
vitest.beforeAll(() => { redis = new Redis(used.server.path) })
afterAll(() => redis.disconnect())

for (const name of ['first', 'second']) {
  test(`${name} finds nothing`, async () => {
    expect(await redis.dbsize()).toBe(0)
    await redis.set(name, 'v')
  })
}
