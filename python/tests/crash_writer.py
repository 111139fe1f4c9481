"""Writes a store and says which step is durable, until it is killed."""

import sys

import numpy as np

from stillframe import ArraySpec, Store

path, log = sys.argv[1], sys.argv[2] or None
store = Store.open(
    path,
    {
        "a": ArraySpec("int64", (20_000,)),
        "b": ArraySpec("uint8", (5_001,)),
        "log": ArraySpec("int32", (0, 1), max_rows=1_000_000),
    },
    log=log,
    every=0.01,
)
step = store.scalars.get("step", 0)
rows = np.random.default_rng(step).permutation(20_000)
while True:
    step += 1
    with store.act():
        with store.mutate("a", slice(0, 7_000)) as a:
            a += 1
        rest = rows[rows >= 7_000]
        store.scatter("a", rest, np.full(rest.size, step))
        store["b"][...] = step % 251
        store["log"].append([[step]])
        store.scalars["step"] = step
    if log:
        store.wait_durable()
        print(step, flush=True)
    elif step % 20 == 0:
        store.checkpoint()
        print(step, flush=True)
