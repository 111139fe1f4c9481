// redis-semaphore: A mutex, a semaphore of three and a multi-semaphore, each contended by eight.
const Redis = require("ioredis");
const { Mutex, Semaphore, MultiSemaphore, RedlockMutex } = require("redis-semaphore");

async function contended(make) {
  let inside = 0, most = 0;
  await Promise.all([...Array(8)].map(async () => {
    const guard = make();
    await guard.acquire();
    most = Math.max(most, ++inside);
    await new Promise((done) => setTimeout(done, 30));
    inside--;
    await guard.release();
  }));
  return most;
}
async function main() {
  const connection = new Redis(process.env.REDIS_URL);
  const options = { lockTimeout: 60000, acquireTimeout: 60000 };
  console.log("mutex", await contended(() => new Mutex(connection, "m", options)));
  console.log("semaphore", await contended(() => new Semaphore(connection, "s", 3, options)));
  console.log("multi", await contended(() => new MultiSemaphore(connection, "n", 4, 2, options)));
  console.log("redlock", await contended(() => new RedlockMutex([connection], "r", options)));
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
