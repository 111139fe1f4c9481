// bull: Delayed, retried, prioritised and repeated jobs, and a queue paused.
const Queue = require("bull");

async function main() {
  const queue = new Queue("jobs", process.env.REDIS_URL);
  let repeats = 0;
  queue.process("double", 4, async (job) => job.data.x * 2);
  queue.process("stubborn", async (job) => {
    if (job.attemptsMade < 2) throw new Error("not yet");
    return job.attemptsMade;
  });
  queue.process("every", async () => ++repeats);
  const jobs = await queue.addBulk([...Array(10).keys()].map((x) => ({ name: "double", data: { x } })));
  console.log(await Promise.all(jobs.map((job) => job.finished())));
  const delayed = await queue.add("double", { x: 21 }, { delay: 500 });
  console.log(await delayed.getState(), await delayed.finished());
  console.log("tries", await (await queue.add("stubborn", {}, { attempts: 3, backoff: 50 })).finished());
  await queue.add("every", {}, { repeat: { every: 200 } });
  while (repeats < 2) await new Promise((done) => setTimeout(done, 50));
  await queue.removeRepeatable("every", { every: 200 });
  const held = new Queue("held", process.env.REDIS_URL);
  await held.pause();
  for (const priority of [5, 1, 3]) await held.add({ priority }, { priority });
  const order = [];
  held.process(async (job) => order.push(job.data.priority));
  const drained = new Promise((done) => held.once("global:drained", done));
  await held.resume();
  await drained;
  while (order.length < 3) await new Promise((done) => setTimeout(done, 20));
  console.log(order, (await held.getJobCounts()).completed);
  await held.empty();
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
