# celery: A worker process runs a chain, a chord, a retried task and one with a countdown.
import os
import subprocess
import sys

from celery import Celery, chain, chord, group

app = Celery("celery_chords", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
app.conf.broker_connection_retry_on_startup = True


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


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "celery_chords", "worker", "-P", "threads", "-c", "4",
         "-l", "error", "--without-mingle"],
        env={**os.environ, "PYTHONPATH": here}, stdout=subprocess.DEVNULL)
    try:
        print("chain", chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=40))
        print("group", group(add.s(i, i) for i in range(20))().get(timeout=20))
        print("chord", chord((add.s(i, 1) for i in range(20)), total.s())().get(timeout=20))
        print("retries", third_time.delay().get(timeout=20))
        print("countdown", add.apply_async((5, 5), countdown=1).get(timeout=20))
        revoked = add.apply_async((1, 1), countdown=60)
        revoked.revoke()
        print("alive", len(app.control.ping(timeout=2)))
    finally:
        worker.terminate()
        worker.wait()
