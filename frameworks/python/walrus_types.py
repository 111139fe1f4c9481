# walrus: Its containers, models, autocompletion, a lock, a rate limit and a graph.
import os

from walrus import Database, IntegerField, Model, TextField

db = Database.from_url(os.environ["REDIS_URL"])
h = db.Hash("h")
h.update(a="1", b="2")
z = db.ZSet("z")
z.add({"x": 1, "y": 2, "w": 3})
print(h.as_dict(decode=True), list(z)[:2], z.rank("y"), sorted(db.Set("s").members()))


class User(Model):
    __database__ = db
    name = TextField(primary_key=True)
    age = IntegerField(index=True)


for name, age in (("huey", 3), ("mickey", 6), ("zaizee", 2)):
    User.create(name=name, age=age)
print(sorted(user.name for user in User.query(User.age > 2)))
ac = db.autocomplete()
for title in ("testing one", "testing two", "a test", "other"):
    ac.store(title)
print(sorted(ac.search("test")))
lock = db.lock("guard", ttl=5000)
print(lock.acquire(), db.lock("guard").acquire(block=False), lock.release())
rate = db.rate_limit("five", limit=3, per=60)
print([rate.limit("me") for _ in range(5)])
graph = db.graph("g")
graph.store("charlie", "likes", "huey")
graph.store("huey", "likes", "fish")
print([e["o"] for e in graph.query(s="charlie", p="likes")])
