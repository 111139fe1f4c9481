// bee-queue: Results, retries, progress, a delayed job and the queue's health.
const Queue = require("bee-queue");

async function main() {
  const queue = new Queue("jobs", { redis: process.env.REDIS_URL, activateDelayedJobs: true });
  let tries = 0;
  queue.process(4, async (job) => {
    if (job.data.stubborn && ++tries < 3) throw new Error("not yet");
    job.reportProgress(50);
    return job.data.x * 2;
  });
  const result = (job) => new Promise((done, fail) => { job.on("succeeded", done); job.on("failed", fail); });
  const jobs = await Promise.all([...Array(10).keys()].map(async (x) => {
    const job = queue.createJob({ x });
    const got = result(job);
    await job.save();
    return got;
  }));
  console.log(jobs);
  const stubborn = queue.createJob({ x: 7, stubborn: true }).retries(3);
  const third = result(stubborn);
  await stubborn.save();
  console.log(await third, tries);
  const later = queue.createJob({ x: 8 }).delayUntil(Date.now() + 500);
  const got = result(later);
  await later.save();
  console.log(await got);
  const { succeeded, failed, waiting } = await queue.checkHealth();
  console.log(succeeded, failed, waiting);
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
