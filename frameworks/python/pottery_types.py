# pottery: Redlock, RedisDict, RedisSet, RedisDeque, NextID, a Bloom filter and HyperLogLog.
import os

from redis import Redis
from pottery import (BloomFilter, HyperLogLog, NextID, RedisCounter, RedisDeque, RedisDict,
                     RedisList, RedisSet, Redlock)

redis = Redis.from_url(os.environ["REDIS_URL"])
tel = RedisDict({"jack": 4098, "sape": 4139}, redis=redis, key="tel")
tel["guido"] = 4127
del tel["sape"]
print(sorted(tel.items()))
basket = RedisSet({"apple", "orange"}, redis=redis, key="basket")
print(sorted(basket | {"pear"}), "apple" in basket)
squares = RedisList([1, 4, 9, 16], redis=redis, key="squares")
squares[1:3] = [5]
print(list(squares), squares.pop())
queue = RedisDeque("abc", redis=redis, key="letters", maxlen=3)
queue.append("d")
queue.rotate(1)
print(list(queue))
print(sorted(RedisCounter("gallahad", redis=redis, key="counter").items()))
lock = Redlock(key="printer", masters={redis}, auto_release_time=5)
other = Redlock(key="printer", masters={redis}, auto_release_time=5)
print(lock.acquire(), other.acquire(blocking=False), lock.locked() > 0)
lock.extend()
lock.release()
print(other.acquire(blocking=False))
print([next(NextID(key="ids", masters={redis})) for _ in range(3)])
dilberts = BloomFilter(num_elements=100, false_positives=0.01, redis=redis, key="dilberts")
dilberts.add("rajiv")
print("rajiv" in dilberts, "raj" in dilberts)
hll = HyperLogLog(redis=redis, key="hll")
hll.update(map(str, range(1000)))
print(abs(len(hll) - 1000) < 50, len(hll))
