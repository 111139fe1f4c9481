# saq: A queue with results, retries, a scheduled job, an abort and the counts of jobs.
import asyncio
import logging
import os
import time

from saq import Queue, Worker

logging.disable(logging.CRITICAL)


async def add(ctx, *, x, y):
    return x + y


async def stubborn(ctx):
    if ctx["job"].attempts < 3:
        raise RuntimeError("not yet")
    return ctx["job"].attempts


async def main():
    queue = Queue.from_url(os.environ["REDIS_URL"])
    worker = Worker(queue, functions=[add, stubborn], concurrency=4,
                    timers={"schedule": 1, "worker_info": 10, "sweep": 60, "abort": 1})
    running = asyncio.create_task(worker.start())
    while not await queue.redis.exists(queue.namespace("sweep")):  # it aborts what it finds
        await asyncio.sleep(0.02)
    print(await queue.map("add", [{"x": i, "y": i} for i in range(10)], timeout=10))
    print(await queue.apply("stubborn", retries=3))
    later = await queue.enqueue("add", x=1, y=2, scheduled=int(time.time()) + 1)
    await later.refresh(until_complete=15)
    print(later.status.value, later.result)
    held = await queue.enqueue("add", x=1, y=1, scheduled=int(time.time()) + 60)
    await queue.abort(held, "no longer wanted")
    await held.refresh()
    print(held.status.value.startswith("abort"), await queue.count("queued"))
    await worker.stop()
    running.cancel()
    await queue.disconnect()


asyncio.run(main())
