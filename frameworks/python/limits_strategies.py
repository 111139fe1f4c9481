# limits: Fixed, moving and sliding windows, from eight threads, sync and async.
import asyncio
import os
import threading

from limits import parse
from limits import storage, strategies
from limits.aio import storage as aio_storage, strategies as aio_strategies

url = os.environ["REDIS_URL"]
store = storage.storage_from_string(url)
print(store.check())
for name in ("FixedWindowRateLimiter", "MovingWindowRateLimiter", "SlidingWindowCounterRateLimiter"):
    limiter = getattr(strategies, name)(store)
    limit = parse("20/hour")
    hits = []
    threads = [threading.Thread(target=lambda: hits.extend(limiter.hit(limit, name)
                                                           for _ in range(5))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = limiter.get_window_stats(limit, name).remaining
    print(name, hits.count(True), hits.count(False), left)
    limiter.clear(limit, name)
    print(limiter.test(limit, name))


async def main():
    limiter = aio_strategies.MovingWindowRateLimiter(aio_storage.RedisStorage("async+" + url, implementation="redispy"))
    print([await limiter.hit(parse("3/minute"), "a") for _ in range(5)])


asyncio.run(main())
