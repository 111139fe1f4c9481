"""In the place of burner-redis: each client is one of redis.asyncio on a server of its own."""

from stillframe.fake import FakeAsyncRedis


class BurnerRedis(FakeAsyncRedis):
    """``BurnerRedis()`` with nothing in it."""
