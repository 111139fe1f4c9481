// rate-limiter-flexible: Consume, block, penalty, reward, a burst and a queue of requests.
const Redis = require("ioredis");
const { RateLimiterRedis, RateLimiterQueue, BurstyRateLimiter } = require("rate-limiter-flexible");

async function main() {
  const storeClient = new Redis(process.env.REDIS_URL);
  const limiter = new RateLimiterRedis({ storeClient, points: 5, duration: 60, keyPrefix: "a" });
  const hits = await Promise.allSettled([...Array(8)].map(() => limiter.consume("me")));
  console.log(hits.map((hit) => hit.status === "fulfilled").join(), hits[7].reason.consumedPoints);
  console.log((await limiter.penalty("you", 2)).consumedPoints, (await limiter.reward("you")).consumedPoints);
  await limiter.block("them", 60);
  console.log(await limiter.consume("them").catch((no) => no.remainingPoints), await limiter.delete("them"));
  const one = new RateLimiterRedis({ storeClient, points: 1, duration: 60, keyPrefix: "b", blockDuration: 100 });
  await one.consume("x");
  console.log(await one.consume("x").catch((no) => no.msBeforeNext > 60000));
  const bursty = new BurstyRateLimiter(one, new RateLimiterRedis({ storeClient, points: 2, duration: 60, keyPrefix: "c" }));
  console.log((await Promise.allSettled([1, 2, 3].map(() => bursty.consume("y")))).map((r) => r.status));
  const queue = new RateLimiterQueue(new RateLimiterRedis({ storeClient, points: 2, duration: 1, keyPrefix: "d" }));
  console.log((await Promise.all([1, 2, 3].map(() => queue.removeTokens(1)))).length);
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
