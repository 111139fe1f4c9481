# channels_redis: Both channel layers: groups, capacity, and messages between layers.
import asyncio
import os

from channels.exceptions import ChannelFull
from channels_redis.core import RedisChannelLayer
from channels_redis.pubsub import RedisPubSubChannelLayer

url = os.environ["REDIS_URL"]


async def main():
    one, two = [RedisChannelLayer(hosts=[url], capacity=5) for _ in range(2)]
    await one.send("work", {"type": "job", "n": 1})
    print(await two.receive("work"))
    names = [await layer.new_channel() for layer in (one, two)]
    for layer, name in zip((one, two), names):
        await layer.group_add("room", name)
    await one.group_send("room", {"type": "chat", "text": "hello"})
    print([(await layer.receive(name))["text"] for layer, name in zip((one, two), names)])
    await two.group_discard("room", names[1])
    await one.group_send("room", {"type": "chat", "text": "to one"})
    print((await one.receive(names[0]))["text"])
    try:
        for n in range(10):
            await one.send("full", {"type": "job", "n": n})
    except ChannelFull:
        print("full at", n)
    first, second = [RedisPubSubChannelLayer(hosts=[url]) for _ in range(2)]
    channel = await second.new_channel()
    await second.group_add("room2", channel)
    await first.group_send("room2", {"type": "chat", "text": "by pub/sub"})
    print(await second.receive(channel))
    await one.flush()
    await two.flush()
    await first.flush()
    await second.flush()


asyncio.run(asyncio.wait_for(main(), 30))
