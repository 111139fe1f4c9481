# Django: Its own Redis cache, with sessions in it.
import os

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x", USE_TZ=True, SESSION_ENGINE="django.contrib.sessions.backends.cache",
    CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache",
                        "LOCATION": os.environ["REDIS_URL"]}})
django.setup()
from django.contrib.sessions.backends.cache import SessionStore
from django.core.cache import cache

cache.set_many({"a": 1, "b": [1, {"c": 2}], "n": 5}, timeout=60)
print(sorted(cache.get_many(["a", "b", "none"]).items()), cache.incr("n", 3), cache.get("none", "-"))
print(cache.add("a", 2), cache.add("d", 2, version=2), cache.touch("a", 100), cache.has_key("d"))
print(cache.get_or_set("made", lambda: "here", 10), cache.delete("a"), cache.delete("a"))
session = SessionStore()
session["user"] = {"id": 7, "cart": list(range(100))}
session.set_expiry(60)
session.save()
again = SessionStore(session_key=session.session_key)
print(again["user"]["id"], len(again["user"]["cart"]), again.exists(session.session_key))
again.cycle_key()
print(SessionStore(session_key=session.session_key).get("user"), again["user"]["id"])
again.flush()
cache.clear()
print(cache.get("b"))
