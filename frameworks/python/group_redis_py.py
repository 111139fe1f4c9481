# group redis: RedisCluster counts with eight threads while the leader is killed.
import os
import sys
import threading
import time

from redis.cluster import ClusterNode, RedisCluster

ports = [int(port) for port in os.environ["GROUP_PORTS"].split(",")]
seconds = float(os.environ["GROUP_SECONDS"])
client = RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", port) for port in ports],
                      socket_timeout=2)
start = time.monotonic()
results = {}


def count(key):
    last = acks = late = 0
    while time.monotonic() - start < seconds:
        try:
            value = client.incr(key)
        except Exception as error:  # what became of it is not known
            print(f"{key}: {type(error).__name__}: {error}", file=sys.stderr)
            time.sleep(0.05)
            continue
        assert value > last, (key, value, last)
        last, acks = value, acks + 1
        late += time.monotonic() - start > seconds - 2
    results[key] = (last, acks, late)


print("counting", flush=True)
threads = [threading.Thread(target=count, args=(f"n:{i}",)) for i in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for key, (last, acks, late) in sorted(results.items()):
    print(key, last, acks, late)
