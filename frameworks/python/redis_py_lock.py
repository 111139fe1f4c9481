# redis: Eight threads contend for redis-py's Lock; extend, reacquire, a stolen lock; pipelines.
import os
import threading

import redis
from redis.exceptions import LockNotOwnedError, WatchError

connection = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


def client():
    for _ in range(25):
        with connection.lock("guard", timeout=60, sleep=0.002):
            connection.set("count", int(connection.get("count") or 0) + 1)


clients = [threading.Thread(target=client) for _ in range(8)]
for each in clients:
    each.start()
for each in clients:
    each.join()
print("count", connection.get("count"))
lock = connection.lock("own", timeout=60)
print(lock.acquire(), lock.extend(10), lock.reacquire(), 61000 > connection.pttl("own") > 0)
connection.set("own", "thief")
try:
    lock.release()
except LockNotOwnedError as error:
    print(type(error).__name__)
with connection.pipeline() as pipe:
    pipe.watch("count")
    connection.incr("count")
    pipe.multi()
    pipe.set("count", 0)
    try:
        pipe.execute()
    except WatchError as error:
        print(type(error).__name__)
move = connection.register_script(
    "local v = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[2], v) return {v, ARGV[1], 3}")
print(move(keys=["count", "copy"], args=["x"]), connection.get("copy"))
