// redis: RESP3, scripts and functions by name, transactions, a scan and pub/sub.
const { createClient, defineScript } = require("redis");

async function main() {
  const add = { SCRIPT: "return redis.call('INCRBY', KEYS[1], ARGV[1])", NUMBER_OF_KEYS: 1,
    parseCommand(parser, key, value) { parser.pushKey(key); parser.push(String(value)); },
    transformReply: (reply) => reply };
  const client = await createClient({ url: process.env.REDIS_URL, RESP: 3,
    scripts: { add: defineScript(add) } }).connect();
  console.log(await client.add("n", 5), await client.add("n", 5));
  console.log(await client.hSet("h", { a: "1", b: "2" }), Object.entries(await client.hGetAll("h")));
  console.log(await client.zAdd("z", [{ score: 1.5, value: "x" }, { score: 2, value: "y" }]),
    await client.zRangeWithScores("z", 0, -1));
  console.log(await client.functionLoad("#!lua name=lib\nredis.register_function('half', function(k, a) return a[1] / 2 end)", { REPLACE: true }));
  console.log(await client.fCall("half", { keys: [], arguments: ["42"] }));
  console.log(await client.multi().set("a", 1).incr("a").get("a").exec());
  let scanned = 0;
  for (let i = 0; i < 50; i++) await client.set(`k:${i}`, i);
  for await (const keys of client.scanIterator({ MATCH: "k:*" })) scanned += keys.length;
  console.log(scanned);
  const other = await client.duplicate().connect();
  const got = new Promise((done) => other.subscribe("news", done).then(() => client.publish("news", "hello")));
  console.log(await got);
  console.log(await client.set("once", "x", { NX: true, PX: 5000 }), await client.set("once", "y", { NX: true }));
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
