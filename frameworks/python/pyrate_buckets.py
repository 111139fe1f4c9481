# pyrate-limiter: A bucket in a sorted set, filled by a script.
import os

from pyrate_limiter import Duration, Rate, RateItem, RedisBucket
from redis import Redis

redis = Redis.from_url(os.environ["REDIS_URL"])
bucket = RedisBucket.init([Rate(3, Duration.HOUR), Rate(5, Duration.DAY)], redis, "bucket")
now = bucket.now() if hasattr(bucket, "now") else 1_700_000_000_000
print([bucket.put(RateItem("me", now + i)) for i in range(5)], bucket.count())
print(str(bucket.failing_rate).split()[0], bucket.peek(0) is not None)
bucket.flush()
print(bucket.count())
