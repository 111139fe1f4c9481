# taskiq-redis: A broker on lists with results and a task that fails.
import asyncio
import os

from taskiq.receiver import Receiver
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend

url = os.environ["REDIS_URL"]
broker = ListQueueBroker(url).with_result_backend(RedisAsyncResultBackend(url))


@broker.task
async def add(x: int, y: int) -> int:
    return x + y


@broker.task
async def fails() -> None:
    raise ValueError("no")


async def main():
    broker.is_worker_process = True
    await broker.startup()
    finish = asyncio.Event()
    listening = asyncio.create_task(Receiver(broker, max_async_tasks=4).listen(finish))
    tasks = [await add.kiq(i, i) for i in range(10)]
    print([(await task.wait_result(timeout=15)).return_value for task in tasks])
    print((await (await fails.kiq()).wait_result(timeout=15)).is_err)
    finish.set()
    listening.cancel()


import logging
logging.disable(logging.CRITICAL)
asyncio.run(main())
