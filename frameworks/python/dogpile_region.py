# dogpile.cache: A region with a distributed lock: eight threads make a value once.
import os
import threading

from dogpile.cache import make_region

region = make_region().configure(
    "dogpile.cache.redis", expiration_time=60,
    arguments={"url": os.environ["REDIS_URL"], "distributed_lock": True, "redis_expiration_time": 90, "lock_timeout": 60,
               "thread_local_lock": False})
calls = []


@region.cache_on_arguments()
def slow(x):
    import time
    time.sleep(0.05)
    calls.append(x)
    return x * 2


got = []
threads = [threading.Thread(target=lambda: got.append(slow(21))) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(got, calls)
region.set_multi({"a": 1, "b": 2})
print(region.get_multi(["a", "b"]), slow.invalidate(21), slow(21), calls)
