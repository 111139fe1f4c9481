// Jobs of BullMQ at a steady rate: prints how long each took from `add` to its worker, as JSON.
// NODE saving.js RATE SECONDS; REDIS_URL names the server, saving.py starts it.
const { Queue, Worker } = require("bullmq");
const connection = { url: process.env.REDIS_URL, maxRetriesPerRequest: null };
const [rate, seconds] = process.argv.slice(2).map(Number);

async function main() {
  const queue = new Queue("jobs", { connection });
  const options = { removeOnComplete: true };
  const took = [];
  const worker = new Worker("jobs", async (job) => {
    took.push(performance.now() - job.data.due);
  }, { connection, concurrency: 16 });
  await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()]);
  const start = performance.now();
  const adds = [];
  // Each job has a time at which it is due, and counts from then: a server that stands still for
  // a while makes all jobs of that while late.
  for (let number = 0; number < rate * seconds; number++) {
    const due = start + number * 1000 / rate;
    const early = due - performance.now();
    if (early > 0) await new Promise((done) => setTimeout(done, early));
    adds.push(queue.add("job", { due }, options));
  }
  await Promise.all(adds);
  const ends = performance.now() + 60000;
  while (took.length < adds.length && performance.now() < ends) {
    await new Promise((done) => setTimeout(done, 20));
  }
  if (took.length < adds.length) throw new Error(`${adds.length - took.length} jobs are lost`);
  // A pipe takes 64 KiB at once: leave when it has all.
  process.stdout.write(JSON.stringify(took), () => process.exit(0));
}
main().catch((error) => { console.error(error.message); process.exit(1); });
