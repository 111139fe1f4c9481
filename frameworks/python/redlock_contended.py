# redlock-py: Eight clients contend for one lock and count up what it guards.
import os
import threading
import time

import redis
from redlock import Redlock

url = os.environ["REDIS_URL"]
port = int(os.environ["REDIS_PORT"])
connection = redis.Redis.from_url(url)
connection.set("count", 0)


def client():
    locks = Redlock([{"host": "127.0.0.1", "port": port}], retry_count=1)
    done = 0
    while done < 20:
        lock = locks.lock("guard", 60000)
        if lock:
            count = int(connection.get("count"))
            connection.set("count", count + 1)
            locks.unlock(lock)
            done += 1
        else:
            time.sleep(0.002)


clients = [threading.Thread(target=client) for _ in range(8)]
for each in clients:
    each.start()
for each in clients:
    each.join()
print("count", int(connection.get("count")), "lock left", connection.exists("guard"))
