// redlock: Eight clients contend for one lock and count up what it guards; extension.
const Redis = require("ioredis");
const Redlock = require("redlock");

async function main() {
  const connection = new Redis(process.env.REDIS_URL);
  await connection.set("count", 0);
  await Promise.all([...Array(8)].map(async () => {
    const own = new Redis(process.env.REDIS_URL);
    const locks = new Redlock([own], { retryCount: -1, retryDelay: 5, retryJitter: 5 });
    for (let i = 0; i < 25; i++) {
      const lock = await locks.lock("guard", 60000);
      const count = Number(await own.get("count"));
      await own.set("count", count + 1);
      await lock.unlock();
    }
    own.disconnect();
  }));
  console.log("count", await connection.get("count"), "lock left", await connection.exists("guard"));
  const locks = new Redlock([connection], { retryCount: 0 });
  const lock = await (await locks.lock(["a", "b"], 30000)).extend(60000);
  console.log((await connection.pttl("a")) > 30000, (await locks.lock("b", 1000).catch((e) => e.name)));
  await lock.unlock();
  console.log(await lock.unlock().catch((error) => error.name), await connection.exists("a", "b"));
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
