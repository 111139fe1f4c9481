# dramatiq: A worker with results, a group, a pipeline, retries, a delay and a rate limit.
import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as Limits
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

url = os.environ["REDIS_URL"]
broker = RedisBroker(url=url)
broker.add_middleware(Results(backend=RedisBackend(url=url)))
dramatiq.set_broker(broker)
tries = []


@dramatiq.actor(store_results=True)
def add(x, y):
    return x + y


@dramatiq.actor(store_results=True, max_retries=3, min_backoff=10, max_backoff=20)
def stubborn():
    tries.append(1)
    if len(tries) < 3:
        raise RuntimeError("not yet")
    return len(tries)


worker = dramatiq.Worker(broker, worker_threads=4)
import logging
logging.disable(logging.CRITICAL)
worker.start()
try:
    print(add.send(1, 2).get_result(block=True, timeout=15000))
    print(list(dramatiq.group([add.message(i, i) for i in range(10)]).run()
               .get_results(block=True, timeout=15000)))
    print((add.message(1, 2) | add.message(3) | add.message(4)).run()
          .get_result(block=True, timeout=15000))
    print("tries", stubborn.send().get_result(block=True, timeout=30000))
    print("delayed", add.send_with_options(args=(3, 4), delay=500)
          .get_result(block=True, timeout=15000))
    limiter = ConcurrentRateLimiter(Limits(url=url), "one", limit=1)
    with limiter.acquire(raise_on_failure=False) as one:
        with limiter.acquire(raise_on_failure=False) as two:
            print("limit", one, two)
finally:
    worker.stop()
