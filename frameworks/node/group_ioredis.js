// group ioredis: Redis.Cluster counts by eight loops while the leader is killed.
const Redis = require("ioredis");

const ports = process.env.GROUP_PORTS.split(",").map(Number);
const seconds = Number(process.env.GROUP_SECONDS);
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

async function main() {
  const cluster = new Redis.Cluster(ports.map((port) => ({ host: "127.0.0.1", port })), {
    redisOptions: { commandTimeout: 2000 },
    slotsRefreshInterval: 500,
    retryDelayOnClusterDown: 100,
    retryDelayOnFailover: 100,
    clusterRetryStrategy: () => 100,
  });
  cluster.on("error", (error) => console.error("cluster:", error.message));
  await cluster.set("begun", 1);
  const start = Date.now();
  const passed = () => (Date.now() - start) / 1000;
  console.log("counting");
  const count = async (key) => {
    let [last, acks, late] = [0, 0, 0];
    while (passed() < seconds) {
      try {
        const value = await cluster.incr(key);
        if (!(value > last)) throw new Error(`wrong: ${key}: ${value} after ${last}`);
        [last, acks] = [value, acks + 1];
        if (passed() > seconds - 2) late += 1;
      } catch (error) { // what became of it is not known
        if (error.message.startsWith("wrong")) throw error;
        console.error(key, error.message);
        await wait(50);
      }
    }
    return [key, last, acks, late].join(" ");
  };
  const keys = [...Array(8).keys()].map((i) => `n:${i}`);
  console.log((await Promise.all(keys.map(count))).join("\n"));
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
