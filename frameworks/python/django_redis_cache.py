# django-redis: Its cache with locks, patterns, times to live, versions and compression.
import os

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x", USE_TZ=True,
    CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache",
                        "LOCATION": os.environ["REDIS_URL"],
                        "OPTIONS": {"COMPRESSOR": "django_redis.compressors.zlib.ZlibCompressor"}}})
django.setup()
from django.core.cache import cache

for i in range(50):
    cache.set(f"user:{i}", "x" * 1000, timeout=100)
print(len(list(cache.iter_keys("user:*"))), cache.ttl("user:1") > 90, cache.pttl("user:1") > 90000)
print(cache.set("user:1", "new", nx=True), cache.persist("user:1"), cache.ttl("user:1"))
print(cache.delete_pattern("user:1*"), cache.get("user:1"), len(cache.get("user:2")))
with cache.lock("guard", timeout=5):
    print(cache.lock("guard", timeout=5, blocking_timeout=0.1).acquire())
print(cache.lock("guard", timeout=5).acquire(), cache.incr_version("user:2"))
print(cache.sadd("s", 1, 2, 3), sorted(cache.smembers("s")), cache.expire("s", 10))
