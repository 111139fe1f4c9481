# aiocache: Its Redis cache, cas, a RedLock against a stampede, and the cached decorator.
import asyncio
import os

from aiocache import Cache, cached
from aiocache.lock import OptimisticLock, RedLock
from aiocache.lock import OptimisticLockError
from aiocache.serializers import JsonSerializer

calls = []
port = int(os.environ["REDIS_PORT"])
cache = Cache(Cache.REDIS, endpoint="127.0.0.1", port=port, namespace="n",
              serializer=JsonSerializer())


@cached(ttl=10, cache=Cache.REDIS, endpoint="127.0.0.1", port=port, key="slow")
async def slow():
    calls.append(1)
    return {"made": len(calls)}


async def guarded():
    async with RedLock(cache, "guard", lease=60):
        value = await cache.get("guarded")
        if value is None:
            await asyncio.sleep(0.05)
            calls.append("guarded")
            await cache.set("guarded", 1)


async def main():
    await cache.set("a", {"x": [1, 2]}, ttl=10)
    await cache.multi_set([("b", 1), ("c", 2)])
    print(await cache.get("a"), await cache.multi_get(["b", "c", "d"]), await cache.exists("b"))
    await cache.raw("set", "n:count", 5)
    print(await cache.delete("b"), await cache.delete("b"), await cache.expire("c", 5))
    print(await slow(), await slow(), calls)
    await asyncio.gather(*[guarded() for _ in range(8)])
    print(calls)
    try:
        async with OptimisticLock(cache, "a") as lock:
            await cache.set("a", "changed by another")
            await lock.cas("mine")
    except OptimisticLockError as error:
        print(type(error).__name__)
    await cache.clear(namespace="n")
    print(await cache.get("a"))


asyncio.run(main())
