# arq: A worker with results, retries, a deferred job and a unique job.
import asyncio
import logging
import os

from arq import Retry, create_pool
from arq.connections import RedisSettings
from arq.worker import Worker

logging.disable(logging.CRITICAL)
settings = RedisSettings.from_dsn(os.environ["REDIS_URL"])


async def add(ctx, x, y):
    return x + y


async def stubborn(ctx):
    if ctx["job_try"] < 3:
        raise Retry(defer=0.05)
    return ctx["job_try"]


async def main():
    pool = await create_pool(settings)
    jobs = [await pool.enqueue_job("add", i, i) for i in range(10)]
    jobs.append(await pool.enqueue_job("stubborn"))
    jobs.append(await pool.enqueue_job("add", 1, 2, _defer_by=1))
    jobs.append(await pool.enqueue_job("add", 5, 5, _job_id="only"))
    print("twice", await pool.enqueue_job("add", 5, 5, _job_id="only"))
    worker = Worker([add, stubborn], redis_pool=pool, burst=True, handle_signals=False,
                    poll_delay=0.05)
    await worker.main()
    print([await job.result(timeout=5) for job in jobs])
    print(worker.jobs_complete, worker.jobs_retried, worker.jobs_failed)


asyncio.run(main())
