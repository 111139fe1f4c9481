// ioredis: Autopipelining, scripts by defineCommand, transactions, a scan and pub/sub.
const Redis = require("ioredis");

async function main() {
  const redis = new Redis(process.env.REDIS_URL, { enableAutoPipelining: true });
  console.log((await Promise.all([...Array(100).keys()].map((i) => redis.set(`k:${i}`, i)))).length,
    (await Promise.all([...Array(100).keys()].map((i) => redis.get(`k:${i}`)))).join("").length);
  redis.defineCommand("swap", { numberOfKeys: 2, lua: `
    local a, b = redis.call("GET", KEYS[1]), redis.call("GET", KEYS[2])
    redis.call("MSET", KEYS[1], b, KEYS[2], a)
    return {a, b, ARGV[1]}` });
  console.log(await redis.swap("k:1", "k:2", "x"), await redis.mget("k:1", "k:2"));
  console.log(await redis.pipeline().swap("k:1", "k:2", "y").get("k:1").exec());
  console.log(await redis.multi().incr("n").lpush("l", 1, 2).lpush("n", 1).exec().then((r) => r.map(([e, v]) => e ? e.message : v)));
  let scanned = 0;
  for await (const keys of redis.scanStream({ match: "k:*", count: 10 })) scanned += new Set(keys).size;
  console.log(scanned >= 100);
  const other = redis.duplicate({ enableAutoPipelining: false });
  await other.psubscribe("news.*");
  const got = new Promise((done) => other.once("pmessage", (...args) => done(args)));
  await redis.publish("news.a", "hello");
  console.log(await got);
  console.log(await redis.blpop("l", 1), await redis.hset("h", { a: 1, b: 2 }), await redis.hgetall("h"));
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
