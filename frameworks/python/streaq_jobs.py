# streaq: A worker on streams with results, retries, and a delayed task.
import logging
import os
from datetime import timedelta

import anyio
from streaq import StreaqRetry, Worker

logging.disable(logging.CRITICAL)
worker = Worker(redis_url=os.environ["REDIS_URL"], concurrency=4)
tries = []


@worker.task()
async def add(x: int, y: int) -> int:
    return x + y


@worker.task()
async def stubborn() -> int:
    tries.append(1)
    if len(tries) < 3:
        raise StreaqRetry("not yet", delay=timedelta(milliseconds=50))
    return len(tries)


async def main():
    async with anyio.create_task_group() as group:
        await group.start(worker.run_async)
        tasks = [await add.enqueue(i, i) for i in range(5)]
        tasks.append(await stubborn.enqueue())
        tasks.append(await add.enqueue(1, 2).start(delay=timedelta(seconds=1)))
        print([(await task.result(20)).result for task in tasks])
        group.cancel_scope.cancel()


anyio.run(main)
