# celery: A worker on a thread of the program runs a chain, a chord and a retried task.
import os

from celery import Celery, chain, chord, group
from celery.contrib.testing.worker import start_worker

app = Celery("celery_thread", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])


@app.task
def add(x, y):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def third_time(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries


with start_worker(app, pool="threads", concurrency=4, loglevel="ERROR",
                  perform_ping_check=False, shutdown_timeout=60):
    print("chain", chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=60))
    print("group", group(add.s(i, i) for i in range(20))().get(timeout=60))
    print("chord", chord((add.s(i, 1) for i in range(20)), total.s())().get(timeout=60))
    print("retries", third_time.delay().get(timeout=60))
    print("countdown", add.apply_async((5, 5), countdown=1).get(timeout=60))
