# python-redis-lock: Waiting clients are woken by a list; renewal and reset.
import os
import threading

import redis
import redis_lock

connection = redis.Redis.from_url(os.environ["REDIS_URL"])


def client():
    for _ in range(10):
        with redis_lock.Lock(connection, "guard", expire=60):
            connection.set("count", int(connection.get("count") or 0) + 1)


clients = [threading.Thread(target=client) for _ in range(8)]
for each in clients:
    each.start()
for each in clients:
    each.join()
print("count", int(connection.get("count")))
lock = redis_lock.Lock(connection, "renewed", expire=2, auto_renewal=True)
lock.acquire()
import time
left = connection.pttl("lock:renewed")
while connection.pttl("lock:renewed") <= left:
    left = connection.pttl("lock:renewed")
    time.sleep(0.05)
print("held", connection.exists("lock:renewed"), redis_lock.Lock(connection, "renewed").acquire(
    blocking=False))
lock.release()
try:
    lock.release()
except redis_lock.NotAcquired as error:
    print(type(error).__name__)
lock = redis_lock.Lock(connection, "stuck", expire=60)
lock.acquire()
redis_lock.reset_all(connection)
print("reset", connection.exists("lock:stuck"))
