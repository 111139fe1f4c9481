// @keyv/redis: A cache with namespaces, times to live and an iterator.
const { default: Keyv } = require("keyv");
const { default: KeyvRedis } = require("@keyv/redis");

async function main() {
  const make = (namespace) => new Keyv(new KeyvRedis(process.env.REDIS_URL), { namespace });
  const one = make("one"), two = make("two");
  await one.set("a", { x: [1, 2] });
  await two.set("a", "of two");
  await one.set("short", 1, 1000);
  console.log(await one.get("a"), await two.get("a"), await one.get("short"));
  await new Promise((done) => setTimeout(done, 1100));
  console.log(await one.get("short"), await one.has("a"), await one.delete("a"), await one.delete("a"));
  await one.set("b", 1);
  await one.clear();
  console.log(await one.get("b"), await two.get("a"));
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
