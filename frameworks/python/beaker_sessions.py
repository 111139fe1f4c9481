# Beaker: Sessions and a cache region of Redis.
import os

from beaker.cache import CacheManager
from beaker.session import Session

url = os.environ["REDIS_URL"]
session = Session({}, type="ext:redis", url=url, use_cookies=False, timeout=60)
session["user"] = "anna"
session.save()
again = Session({}, id=session.id, type="ext:redis", url=url, use_cookies=False, timeout=60)
print(again["user"])
again.delete()
calls = []
cache = CacheManager(type="ext:redis", url=url, lock_dir="locks").get_cache("n", expire=60)
print(cache.get(key="k", createfunc=lambda: calls.append(1) or "made"),
      cache.get(key="k", createfunc=lambda: calls.append(1) or "made"), calls)
