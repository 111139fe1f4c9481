# python-socketio: A message of one server's manager reaches another's.
import asyncio
import os

import redis.asyncio as redis
import socketio

url = os.environ["REDIS_URL"]


async def main():
    got = asyncio.Queue()

    class Listener(socketio.AsyncRedisManager):
        async def _handle_emit(self, message):
            await got.put((message["event"], message["data"], message["room"]))

    listener = Listener(url)
    server = socketio.AsyncServer(client_manager=listener, async_mode="asgi")
    listener.initialize()
    connection = redis.from_url(url)
    while not dict(await connection.pubsub_numsub("socketio")).get(b"socketio"):
        await asyncio.sleep(0.02)
    await connection.aclose()
    outside = socketio.RedisManager(url, write_only=True)
    outside.emit("news", {"text": "hello"}, room="all")
    print(await asyncio.wait_for(got.get(), 10))


asyncio.run(main())
