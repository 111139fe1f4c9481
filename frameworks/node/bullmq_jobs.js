// bullmq: Delayed, repeated, prioritised, retried and deduplicated jobs, with QueueEvents.
const { Queue, Worker, QueueEvents } = require("bullmq");
const connection = { url: process.env.REDIS_URL, maxRetriesPerRequest: null };

async function main() {
  const queue = new Queue("jobs", { connection });
  const events = new QueueEvents("jobs", { connection });
  await events.waitUntilReady();
  let repeats = 0;
  const worker = new Worker("jobs", async (job) => {
    if (job.name === "stubborn" && job.attemptsMade < 2) throw new Error("not yet");
    if (job.name === "fails") throw new Error("no");
    if (job.name === "every") return ++repeats;
    await job.updateProgress(50);
    return job.data.x * 2;
  }, { connection, concurrency: 4 });
  const progress = new Promise((done) => events.once("progress", ({ data }) => done(data)));
  const jobs = await queue.addBulk([...Array(20).keys()].map((x) => ({ name: "double", data: { x } })));
  console.log(await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 20000))));
  console.log("progress", await progress);
  const delayed = await queue.add("double", { x: 21 }, { delay: 700 });
  console.log(await delayed.getState(), await delayed.waitUntilFinished(events, 20000));
  const stubborn = await queue.add("stubborn", { x: 4 }, { attempts: 3, backoff: { type: "fixed", delay: 50 } });
  console.log("third", await stubborn.waitUntilFinished(events, 20000));
  const fails = await queue.add("fails", {});
  console.log(await fails.waitUntilFinished(events, 20000).catch((error) => error.message));
  await queue.upsertJobScheduler("every", { every: 200 }, { name: "every" });
  while (repeats < 3) await new Promise((done) => setTimeout(done, 50));
  console.log(await queue.removeJobScheduler("every"));
  await worker.close();
  const same = [await queue.add("double", { x: 1 }, { jobId: "only" }), await queue.add("double", { x: 2 }, { jobId: "only" })];
  await queue.add("double", { x: 1 }, { priority: 9 });
  await queue.add("double", { x: 2 }, { priority: 1 });
  console.log(same.map((job) => job.id), (await queue.getJob("only")).data,
    (await queue.getPrioritized()).map((job) => job.data.x));
  console.log((await queue.getFailed()).length, (await queue.getJobCounts("failed", "waiting", "prioritized")));
  await queue.obliterate({ force: true });
  console.log(await queue.getJobCounts("completed", "failed", "waiting"));
  await Promise.all([queue.close(), events.close()]);
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
