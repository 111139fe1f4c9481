# fastapi-cache2: Cached endpoints of a FastAPI app, and their clearing.
import os

from fastapi import FastAPI
from fastapi.testclient import TestClient
from fastapi_cache import FastAPICache
from fastapi_cache.backends.redis import RedisBackend
from fastapi_cache.decorator import cache
from redis import asyncio as aioredis

calls = []
app = FastAPI()


@app.on_event("startup")
async def startup():
    FastAPICache.init(RedisBackend(aioredis.from_url(os.environ["REDIS_URL"])), prefix="cache")


@app.get("/square/{x}")
@cache(namespace="square", expire=60)
async def square(x: int):
    calls.append(x)
    return {"square": x * x}


@app.post("/clear")
async def clear():
    return await FastAPICache.clear(namespace="square")


with TestClient(app) as client:
    replies = [client.get(f"/square/{x}") for x in (3, 3, 4)]
    print([reply.json()["square"] for reply in replies], calls)
    print([reply.headers.get("x-fastapi-cache") for reply in replies])
    print(client.post("/clear").json(), client.get("/square/3").json(), calls)
