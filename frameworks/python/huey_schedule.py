# huey: A consumer with a delayed, a retried, a locked, a prioritised and a chained task.
import logging
import os

from huey import PriorityRedisHuey

logging.disable(logging.CRITICAL)
# The error of a try that is tried again is no result: who reads in between would get it.
huey = PriorityRedisHuey("app", url=os.environ["REDIS_URL"], store_intermediate_errors=False)
tries = []


@huey.task()
def add(x, y):
    return x + y


@huey.task(retries=2)
def stubborn():
    tries.append(1)
    if len(tries) < 3:
        raise RuntimeError("not yet")
    return "third"


@huey.task()
@huey.lock_task("one")
def locked():
    return "locked"


results = [add(1, 2, priority=1), add(3, 4, priority=9)]
print("pending", [task.args for task in huey.pending()])
consumer = huey.create_consumer(workers=2, periodic=False, scheduler_interval=1)
consumer.start()
try:
    print([result.get(blocking=True, timeout=15) for result in results])
    print(stubborn().get(blocking=True, timeout=15))
    print(locked().get(blocking=True, timeout=15))
    print("delayed", add.schedule((5, 6), delay=1).get(blocking=True, timeout=15))
    chain = huey.enqueue(add.s(1, 1).then(add, 5).then(add, 6))
    print("chain", [result.get(blocking=True, timeout=15) for result in chain])
finally:
    consumer.stop(graceful=True)
