# faststream: Handlers of a channel, a list and a stream with a group.
import asyncio
import logging
import os

import redis.asyncio as redis
from faststream.redis import RedisBroker, StreamSub

logging.disable(logging.CRITICAL)
broker = RedisBroker(os.environ["REDIS_URL"])
got = asyncio.Queue()


@broker.subscriber("channel")
async def on_channel(text: str):
    await got.put(("channel", text))


@broker.subscriber(list="list")
@broker.publisher(list="second")
async def on_list(number: int) -> int:
    return number * 2


@broker.subscriber(list="second")
async def on_second(number: int):
    await got.put(("list", number))


@broker.subscriber(stream=StreamSub("stream", group="g", consumer="c"))
async def on_stream(number: int):
    await got.put(("stream", number))


async def main():
    async with broker:
        await broker.start()
        connection = redis.from_url(os.environ["REDIS_URL"])
        while not (dict(await connection.pubsub_numsub("channel")).get(b"channel")
                   and await connection.exists("stream")):
            await asyncio.sleep(0.02)
        await connection.aclose()
        await broker.publish("hello", "channel")
        await broker.publish(21, list="list")
        await broker.publish(7, stream="stream")
        print(sorted([await asyncio.wait_for(got.get(), 10) for _ in range(3)]))


asyncio.run(main())
