# rq: Jobs with a dependency, a retry, a failure, and a date.
import datetime
import logging
import os
import sys
import time

import redis
from rq import Queue, Retry, SimpleWorker
from rq.scheduler import RQScheduler

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def double(x):
    return 2 * x


def fails_once():
    connection = redis.Redis.from_url(os.environ["REDIS_URL"])
    if connection.incr("tries") == 1:
        raise ValueError("the first try")
    return "second try"


def fails():
    raise ValueError("always")


if __name__ == "__main__":
    import rq_jobs
    logging.disable(logging.CRITICAL)
    connection = redis.Redis.from_url(os.environ["REDIS_URL"])
    queue = Queue(connection=connection)
    first = queue.enqueue(rq_jobs.double, 4)
    second = queue.enqueue(rq_jobs.double, 5, depends_on=first)
    again = queue.enqueue(rq_jobs.fails_once, retry=Retry(max=2))
    failed = queue.enqueue(rq_jobs.fails)
    soon = queue.enqueue_in(datetime.timedelta(seconds=1), rq_jobs.double, 6)
    print("scheduled", len(queue.scheduled_job_registry))
    worker = SimpleWorker([queue], connection=connection)
    worker.work(burst=True, logging_level="CRITICAL")
    for job in (first, second, again, failed):
        print(job.get_status().value, job.return_value())
    time.sleep(1.2)
    scheduler = RQScheduler([queue], connection=connection)
    scheduler.acquire_locks()
    scheduler.enqueue_scheduled_jobs()
    scheduler.release_locks()
    worker.work(burst=True, logging_level="CRITICAL")
    print(soon.get_status().value, soon.return_value())
    print("failed", queue.failed_job_registry.get_job_ids() == [failed.id])
