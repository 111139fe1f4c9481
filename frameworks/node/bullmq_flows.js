// bullmq: A flow of three levels, a queue paused and resumed, and stalled jobs.
const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");
const connection = { url: process.env.REDIS_URL, maxRetriesPerRequest: null };

// A worker takes a job and dies: once the lock is gone, another one does the job, or fails it.
async function stall() {
  const queue = new Queue("stall", { connection });
  const events = new QueueEvents("stall", { connection });
  await events.waitUntilReady();
  const stalled = [];
  events.on("stalled", ({ jobId }) => stalled.push(jobId));
  const take = async (name) => {
    const added = await queue.add(name, {});
    const dead = new Worker("stall", null, { connection, lockDuration: 300 });
    const taken = await dead.getNextJob("dead");
    console.log(name, taken.id === added.id, await taken.getState());
    await dead.close(true);
    return added;
  };
  for (const [name, maxStalledCount] of [["again", 1], ["never", 0]]) {
    const job = await take(name);
    const worker = new Worker("stall", async (job) => `${job.name} ${job.stalledCounter}`, {
      connection, stalledInterval: 400, maxStalledCount,
    });
    worker.on("error", () => {});
    const outcome = job.waitUntilFinished(events, 20000);
    console.log(name, await outcome.catch((error) => error.message));
    console.log(await job.getState(), stalled.includes(job.id));
    await worker.close();
  }
  await Promise.all([queue.close(), events.close()]);
}

async function main() {
  await stall();
  const flows = new FlowProducer({ connection });
  const queue = new Queue("build", { connection });
  const events = new QueueEvents("build", { connection });
  await events.waitUntilReady();
  const handle = async (job) => {
    const children = Object.values(await job.getChildrenValues());
    return children.reduce((sum, value) => sum + value, job.data.own);
  };
  const leaf = (own) => ({ name: "leaf", queueName: "parts", data: { own } });
  const flow = await flows.add({
    name: "root", queueName: "build", data: { own: 1000 }, children: [
      { name: "middle", queueName: "parts", data: { own: 100 }, children: [leaf(1), leaf(2), leaf(3)] },
      leaf(4),
    ],
  });
  console.log(await flow.job.getState());
  const workers = ["build", "parts"].map((name) => new Worker(name, handle, { connection }));
  console.log("sum", await flow.job.waitUntilFinished(events, 20000));
  console.log(Object.keys(await flow.job.getChildrenValues()).length);
  await queue.pause();
  const paused = await queue.add("leaf", { own: 5 });
  console.log(await queue.isPaused(), (await queue.getJobCounts("paused", "waiting")));
  await queue.resume();
  console.log(await paused.waitUntilFinished(events, 20000));
  await Promise.all(workers.map((worker) => worker.close()));
  await Promise.all([flows.close(), queue.close(), events.close()]);
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
