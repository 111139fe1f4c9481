# Flask-Caching: Cached views and memoised functions, and their deletion.
import os

from flask import Flask
from flask_caching import Cache

app = Flask(__name__)
app.config.update(CACHE_TYPE="RedisCache", CACHE_REDIS_URL=os.environ["REDIS_URL"],
                  CACHE_DEFAULT_TIMEOUT=60)
cache = Cache(app)
calls = []


@app.route("/")
@cache.cached(timeout=50)
def index():
    calls.append("index")
    return str(len(calls))


@cache.memoize(50)
def square(x):
    calls.append(x)
    return x * x


with app.app_context():
    client = app.test_client()
    print([client.get("/").text for _ in range(3)], square(3), square(3), square(4), calls)
    cache.delete_memoized(square, 3)
    print(square(3), square(4), calls)
    cache.set_many({"a": 1, "b": 2})
    print(cache.get_many("a", "b", "c"))
    cache.clear()
    print(client.get("/").text)
