# walrus: A consumer group over two streams, with claims, and a time series.
import datetime
import os

from walrus import Database

db = Database.from_url(os.environ["REDIS_URL"])
one, two = db.Stream("one"), db.Stream("two")
for i in range(5):
    one.add({"n": i}, id=f"1-{i + 1}")
two.add({"n": 9}, id="2-1")
print(len(one), one["1-2":"1-4"], one.get("1-1"))
group = db.consumer_group("g", ["one", "two"])
group.create()
group.set_id("0-0")
first = group.consumer("first")
print(first.read(count=2))
second = group.consumer("second")
print(second.read())
print(second.one.claim("1-1"), first.one.ack("1-2"))
print([(p["message_id"], p["consumer"]) for p in group.one.pending()])
print(one.trim(2, approximate=False), len(one), one.consumers_info("g")[0]["name"])
series = db.time_series("events", ["metrics"])
series.create()
series.metrics.add({"cpu": 1}, datetime.datetime(2024, 1, 1))
series.metrics.add({"cpu": 2}, datetime.datetime(2024, 1, 2))
print([(m.timestamp.day, m.data) for m in series.metrics[datetime.datetime(2024, 1, 2):]])
