// Adds one job to a queue of BullMQ; REDIS_URL names the server. adding.py listens on the way.
const { Queue } = require("bullmq");

async function main() {
  const queue = new Queue("jobs", { connection: { url: process.env.REDIS_URL } });
  await queue.add("job", { payload: "x".repeat(100) }, { removeOnComplete: true });
  await queue.add("job", { payload: "x".repeat(100) }, { removeOnComplete: true });
  process.exit(0);
}
main().catch((error) => { console.error(error.message); process.exit(1); });
