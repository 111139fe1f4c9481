# coredis: Typed replies, a script and a function, asynchronous.
import os

import anyio
import coredis

url = os.environ["REDIS_URL"]


async def main():
    client = coredis.Redis.from_url(url, decode_responses=True)
    async with client:
        await client.hset("h", {"a": "1", "b": "2"})
        print(await client.hgetall("h"), await client.zadd("z", {"x": 1.5, "y": 2}))
        print(await client.zrange("z", 0, -1, withscores=True))
        script = client.register_script("return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}")
        print(await script(["n"], ["v"]), await script(["n"], ["v"]))
        await client.function_load(
            "#!lua name=lib\nredis.register_function('twice', function(k, a) return 2 * a[1] end)",
            replace=True)
        print(await client.fcall("twice", [], [21]))


anyio.run(main)
