"""Arrays of a store: what is written, read, refused and recovered."""

from __future__ import annotations

import gc
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stillframe
from stillframe import ArraySpec, Store

from elsewhere import refused_elsewhere

SPECS = {
    "weights": ArraySpec("float32", (6, 5)),
    "bytes": ArraySpec("uint8", (10, 3)),
    "replay": ArraySpec("int64", (0, 2), max_rows=1000),
    "flat": ArraySpec("float64", (100,)),
}


def test_what_is_written_is_read_and_recovered(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    plain = {name: np.zeros(spec.shape, spec.dtype) for name, spec in SPECS.items()}
    with Store.open(tmp_path, SPECS) as store:
        assert set(store) == set(plain)
        for name in ("weights", "bytes", "flat"):
            new = rng.integers(0, 200, plain[name].shape).astype(plain[name].dtype)
            store[name][...] = new
            plain[name][...] = new
        for index in (1, -1, slice(2, 4), slice(None, None, 2), [0, 3], np.array([5, -6])):
            store["weights"][index] = 7.5
            plain["weights"][index] = 7.5
        store["weights"][2:4, 1] = [1, 2]
        plain["weights"][2:4, 1] = [1, 2]
        mask = plain["bytes"] > 100
        store["bytes"][mask] = 9
        plain["bytes"][mask] = 9
        store["bytes"][mask[:, 0], 1] = 4
        plain["bytes"][mask[:, 0], 1] = 4
        with store.mutate("flat", slice(10, 20)) as a:
            a += 0.5
        plain["flat"][10:20] += 0.5
        with store.mutate("weights", 3) as row:
            assert row.shape == (5,)
            row[:] = range(5)
        plain["weights"][3] = range(5)
        index = rng.integers(-100, 100, 1000)
        values = rng.random(1000)
        store.scatter("flat", index, values)
        plain["flat"][index] = values
        rows = rng.integers(0, 10, 50)
        store.scatter("bytes", rows, (octets := rng.integers(0, 256, (50, 3), np.uint8)))
        plain["bytes"][rows] = octets
        store["replay"].append([[1, 2], [3, 4]])
        store["replay"].append(np.array([[5, 6]]))
        plain["replay"] = np.array([[1, 2], [3, 4], [5, 6]])
        store.scalars.update(step=3, rate=0.25, name="höher")
        for name, expected in plain.items():
            assert np.array_equal(store[name], expected), name
            assert np.array_equal(store[name][...], expected)
            assert store[name].shape == expected.shape
    with Store.open(tmp_path) as store:
        assert store.recovery()["checkpoint"] == 1
        for name, expected in plain.items():
            assert np.array_equal(store[name], expected), name
        assert dict(store.scalars) == {"step": 3, "rate": 0.25, "name": "höher"}
        store["replay"].resize(1000)
    with Store.open(tmp_path, {**SPECS, "more": ArraySpec("int8", (4,))}) as store:
        assert len(store["replay"]) == 1000 and store["more"].shape == (4,)


def test_arrays_of_numpy_are_read_only_and_outlive_the_store(tmp_path: Path) -> None:
    store = Store.open(tmp_path, SPECS)
    view = store["flat"].numpy()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError):
        view.flags.writeable = True
    with store.mutate("flat") as a:
        a[:] = 3
    assert not a.flags.writeable and (view == 3).all()
    part = view[10:20]
    store.close()
    del store, view
    gc.collect()
    assert (part == 3).all()


def test_wrong_values_are_refused_and_change_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path, SPECS) as store:
        store["bytes"][...] = 5
        before = {name: store[name][...].copy() for name in store}
        with pytest.raises(TypeError, match="uint8"):
            store["bytes"][0] = 1.5
        with pytest.raises(OverflowError):
            store["bytes"][0] = 256
        with pytest.raises(TypeError, match="int64"):
            store["replay"].append([[1.5, 2.0]])
        with pytest.raises(ValueError, match="rows of shape"):
            store["replay"].append([[1, 2, 3]])
        with pytest.raises(ValueError, match="may have 1000 rows"):
            store["replay"].resize(1001)
        with pytest.raises(ValueError, match="does not shrink"):
            store["flat"].resize(99)
        with pytest.raises(IndexError, match="nothing was written"):
            store.scatter("flat", [1, 2, 100], [1.0, 2.0, 3.0])
        with pytest.raises(IndexError, match="nothing was written"):
            store.scatter("flat", np.array([1, 2**64 - 1], np.uint64), [1.0, 2.0])
        with pytest.raises(ValueError):
            store.scatter("flat", [1, 2], [1.0, 2.0, 3.0])
        with pytest.raises(ValueError):
            store["weights"][1:3] = np.zeros((3, 3), np.float32)
        with pytest.raises(IndexError):
            store["flat"][100] = 1.0
        with pytest.raises(IndexError):
            store["flat"][[3, 100]] = 1.0
        with pytest.raises(ValueError, match="room for"):
            store.scalars["long"] = "x" * 70_000
        with pytest.raises(TypeError):
            store.scalars["no"] = object()
        with pytest.raises(KeyError, match="no array 'other'"):
            store["other"]
        for name, expected in before.items():
            assert np.array_equal(store[name], expected), name
        assert dict(store.scalars) == {}
    for spec in (ArraySpec(object, (2,)), ArraySpec([("a", "i4")], (2,)), ArraySpec(">i4", (2,))):
        with pytest.raises(TypeError):
            Store.open(tmp_path / "other", {"a": spec})
    with pytest.raises(stillframe.Error, match="opened as float64"):
        Store.open(tmp_path, {"weights": ArraySpec("float64", (6, 5))})


def test_directories_that_are_no_stores_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Store.open(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    with Store.open(tmp_path / "a", SPECS):
        with pytest.raises(stillframe.InUse, match=f"process {os.getpid()}"):
            Store.open(tmp_path / "a")
        assert f"process {os.getpid()}" in refused_elsewhere("Store.open", tmp_path / "a")
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "dump.rdb").write_bytes(b"REDIS0011")
    with pytest.raises(stillframe.Foreign):
        Store.open(tmp_path / "server", SPECS)
    with pytest.raises(stillframe.Error, match="holds no arrays"):
        (tmp_path / "empty").mkdir()
        Store.open(tmp_path / "empty")


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"keep": -1}, "keep=-1: give a whole number, 2 at least"),
        ({"keep": 1}, "keep=1: give a whole number, 2 at least"),
        ({"keep": 2.5}, "keep=2.5: give a whole number"),
        ({"keep": 1 << 64}, "give a whole number"),
        ({"every": -1}, "every=-1: give a number of seconds, 0 or more, or None"),
        ({"every": float("nan")}, "every=nan: give a number of seconds"),
        ({"every": "soon"}, "every='soon': give a number"),
        ({"log": "sometimes"}, "log='sometimes': give \"always\""),
        ({"bandwidth": 0}, "bandwidth=0: give a whole number, 1 at least"),
        ({"budget": "1gb"}, "budget='1gb': give a whole number"),
        ({"views": -1}, "views=-1: give a whole number, 0 at least"),
        ({"scalars_bytes": 5000}, "scalars_bytes=5000: give a multiple of 4096"),
        ({"arrays": {"a": np.zeros(3)}}, "array 'a' is given as ndarray; give an ArraySpec"),
        ({"arrays": {"a": ArraySpec("f8", 3)}}, "array 'a': shape=3"),
        ({"arrays": {"a": ArraySpec("f8", (2.5,))}}, "give a tuple of whole numbers"),
        ({"arrays": {"a": ArraySpec("f8", (3,), max_rows="x")}}, "max_rows='x'"),
        ({"arrays": {"a": ArraySpec("f8", (3,), max_rows=0)}}, "3 rows, and at most 0"),
        ({"arrays": {"a": ArraySpec("f8", ())}}, "shape () has no rows"),
        ({"arrays": {"a": ArraySpec("f8", (1 << 62,))}}, "fits no memory"),
        ({"arrays": {"a": ArraySpec("u1", (1, 1 << 32, (1 << 32) + 1))}}, "fits no memory"),
    ],
)
def test_odd_settings_are_refused_by_name(
    tmp_path: Path, setting: dict[str, Any], text: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        Store.open(tmp_path / "new", **{"arrays": SPECS, **setting})
    assert not (tmp_path / "new").exists()


def test_errors_name_what_python_has(tmp_path: Path) -> None:
    with Store.open(tmp_path / "few", SPECS, views=1, budget=4096) as store:
        view = store.view()
        with pytest.raises(stillframe.Error, match="open the store with more `views`"):
            store.view()
        with pytest.raises(stillframe.Error, match="open it with `log`"):
            store.wait_durable()
        for wrong in (-1, float("nan")):
            with pytest.raises(ValueError, match=f"timeout={wrong}: give a number of seconds"):
                store.reader().view(timeout=wrong)
        store["replay"].resize(1000)
        for number in range(100):
            store["replay"][...] = number
            store["flat"][...] = number
        with pytest.raises(stillframe.ViewLost, match="needs more memory than `budget`"):
            view["flat"]
    specs = {"a": ArraySpec("int64", (1000,))}
    with Store.open(tmp_path / "logged", specs, log="always", checkpoint_on_close=False) as store:
        store["a"][...] = 1
    with pytest.raises(stillframe.Error, match="holds a log of changes.*open it with `log`"):
        Store.open(tmp_path / "logged")


def test_what_damage_has_lost_is_accepted_by_name(tmp_path: Path) -> None:
    specs = {"a": ArraySpec("int64", (100_000,))}
    with Store.open(tmp_path, specs, checkpoint_on_close=False) as store:
        for number in range(1, 4):
            store["a"][:10] = number
            store.checkpoint()
    newest = max(tmp_path.glob("checkpoint*"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    with pytest.raises(stillframe.Error, match="`accept_loss=True`"):
        Store.open(tmp_path)
    with Store.open(tmp_path, accept_loss=True) as store:
        assert store["a"][0] < 3 and store.recovery()["skipped"]


@pytest.mark.parametrize("log", [None, "always"])
def test_an_act_is_whole_or_undone(tmp_path: Path, log: str | None) -> None:
    store = Store.open(tmp_path, SPECS, log=log, checkpoint_on_close=False)
    store["flat"][...] = 1.0
    with pytest.raises(RuntimeError), store.act():
        store["flat"][3:6] = 2.0
        store.scatter("flat", [4, 9, 4], [5.0, 6.0, 7.0])
        store["replay"].append([[1, 2]])
        store.scalars["step"] = 1
        with store.mutate("bytes") as a:
            a[:] = 1
            raise RuntimeError
    assert (store["flat"].numpy() == 1.0).all() and len(store["replay"]) == 0
    assert not store["bytes"].numpy().any() and dict(store.scalars) == {}
    with store.act():
        store["replay"].append([[1, 2]])
        store.scalars["step"] = 1
        with pytest.raises(stillframe.Error, match="within an act"):
            store.point()
    assert (len(store["replay"]), store.scalars["step"]) == (1, 1)
    with pytest.raises(stillframe.Error, match="being mutated"), store.mutate("bytes"):
        store.view()
    store.close()
    if log:
        with Store.open(tmp_path, log=log) as store:
            assert store.recovery()["acts"] == 3
            assert (len(store["replay"]), store.scalars["step"]) == (1, 1)
            assert (store["flat"].numpy() == 1.0).all()


def test_views_and_branches_stand_still(tmp_path: Path) -> None:
    with Store.open(tmp_path, SPECS) as store:
        store["flat"][...] = 1.0
        store.scalars["step"] = 1
        view, branch = store.view(), store.branch()
        store["flat"][...] = 2.0
        store.scalars["step"] = 2
        branch.write("flat", slice(0, 5), 9.0)
        branch.write("bytes", 2, [1, 2, 3])
        found = []
        threads = [
            threading.Thread(target=lambda: found.append(view["flat"])) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4 and all((it == 1.0).all() for it in found)
        assert view.scalars == {"step": 1} and view.read("flat", 3) == 1.0
        assert branch["flat"].tolist() == [9.0] * 5 + [1.0] * 95
        assert branch["bytes"][2].tolist() == [1, 2, 3] and not store["bytes"].numpy().any()
        view.close()
        with pytest.raises(stillframe.Error, match="closed"):
            view["flat"]


def test_a_view_copies_what_is_read_once_for_all_readers(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    specs = {"a": ArraySpec("int64", (50_000, 3)), "b": ArraySpec("uint8", (7001,))}
    with Store.open(tmp_path, specs) as store:
        before = {name: rng.integers(0, 99, spec.shape) for name, spec in specs.items()}
        for name, values in before.items():
            store[name][...] = values.astype(specs[name].dtype)
        view = store.view()
        parts = [slice(int(a), int(b)) for a, b in np.sort(rng.integers(0, 50_000, (40, 2)))]
        found: list[tuple[slice, np.ndarray[Any, Any]]] = []

        def look(mine: list[slice]) -> None:
            for part in mine:
                found.append((part, view.read("a", part)))
                store.scatter("a", rng.integers(0, 50_000, 100), 7)

        threads = [threading.Thread(target=look, args=(parts[n::4],)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store["a"][...] = -1
        store["b"][...] = 255
        whole = view["a"]
        assert np.array_equal(whole, before["a"]) and np.array_equal(view["b"], before["b"])
        for part, array in found:
            assert np.array_equal(array, before["a"][part])
            assert np.shares_memory(array, whole) or not array.size
        assert whole.__array_interface__["data"] == view["a"].__array_interface__["data"]
        with pytest.raises(ValueError):
            whole.flags.writeable = True
        view.close()
    del view, store
    gc.collect()
    assert np.array_equal(whole, before["a"])


def test_a_view_is_read_by_arrow_without_a_copy(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    kinds = ["int8", "uint32", "int64", "float16", "float64", "M8[ms]", "m8[us]", "S1"]
    specs = {kind: ArraySpec(kind, (6, 2)) for kind in kinds}
    others = {kind: ArraySpec(kind, (2,)) for kind in ("bool", "M8[D]", "U3", "complex64")}
    grown = {"grown": ArraySpec("int64", (0, 2, 3), max_rows=9)}
    with Store.open(tmp_path, {**specs, **others, **grown}) as store:
        numbers = np.arange(12).reshape(6, 2)
        for kind in kinds:
            store[kind][...] = numbers.astype(kind)
        store["grown"].append(numbers.reshape(2, 2, 3))
        view = store.view()
        store["int64"][...] = 0
        assert view.arrow("grown").to_pylist() == numbers.reshape(2, 2, 3).tolist()
        for kind in kinds:
            array, values = view.arrow(kind), view.arrow(kind).flatten()
            array.validate(full=True)
            assert values.to_pylist() == pyarrow.array(view[kind].ravel()).to_pylist(), kind
            address, _ = view[kind].__array_interface__["data"]
            assert values.buffers()[1].address == address, kind
        flat = view.arrow("int64").flatten().to_numpy(zero_copy_only=True)
        assert np.shares_memory(flat, view["int64"]) and flat.tolist() == list(range(12))
        assert view.arrow("int64", slice(2, 4)).to_pylist() == [[4, 5], [6, 7]]
        assert view.arrow("int64", -1).to_pylist() == [[10, 11]]
        for kind in others:
            with pytest.raises(TypeError, match=f"array '{re.escape(kind)}' is of"):
                view.arrow(kind)
        kept = view.arrow("int64")
        view.close()
    gc.collect()
    assert kept.to_pylist() == numbers.tolist()


def test_a_view_is_asked_in_sql_while_the_store_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    specs = {
        "price": ArraySpec("float64", (3000,)),
        "quantity": ArraySpec("int64", (0,), max_rows=5000),
        "w": ArraySpec("float32", (2, 3)),
        "a b": ArraySpec("M8[ms]", (2,)),
        "c": ArraySpec("complex64", (2,)),
    }
    random = np.random.default_rng(7)
    with Store.open(tmp_path, specs) as store:
        store["quantity"].append(np.zeros(3000, np.int64))
        for _ in range(5):
            store["price"][...] = prices = random.integers(0, 1000, 3000) / 8
            store["quantity"][...] = quantities = random.integers(-9, 9, 3000)
            store["w"][...] = 2
            with store.view() as view:
                stop = threading.Event()

                def write() -> None:
                    while not stop.is_set():
                        store["price"][...] = -1
                        store["quantity"][...] = -1
                        store["w"][...] = -1

                writer = threading.Thread(target=write)
                writer.start()
                try:
                    found = view.sql(
                        "select quantity, sum(price) total, count(*) n from PRICE positional join"
                        " quantity where price > $1 group by quantity order by quantity",
                        [3.5],
                    ).to_pylist()
                    assert view.sql("select w from w").to_pylist() == [{"w": [2.0] * 3}] * 2
                finally:
                    stop.set()
                    writer.join()
                there = prices > 3.5
                assert found == [
                    {
                        "quantity": number,
                        "total": prices[there & (quantities == number)].sum(),
                        "n": (there & (quantities == number)).sum(),
                    }
                    for number in np.unique(quantities[there])
                ]
                assert view.sql('select count(*) n from "a b"').to_pylist() == [{"n": 2}]
                with pytest.raises(TypeError, match="array 'c' is of complex64"):
                    view.sql("select * from c")
                price = view.to_arrow("price")["price"]["price"].chunk(0)
                flat = price.to_numpy(zero_copy_only=True)
                assert np.shares_memory(flat, view["price"]) and (flat == prices).all()


def test_sql_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.delitem(sys.modules, "stillframe._sql", raising=False)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with Store.open(tmp_path, {"a": ArraySpec("int64", (3,))}) as store:
        with pytest.raises(ImportError, match=r"pip install 'stillframe\[sql\]'"):
            store.view().sql("select * from a")


def test_readers_get_the_next_point(tmp_path: Path) -> None:
    with Store.open(tmp_path, {"a": ArraySpec("int64", (1000,))}) as store:
        reader = store.reader()
        with pytest.raises(TimeoutError):
            reader.view(timeout=0.01)
        done, torn, views = threading.Event(), [], 0

        def look() -> None:
            nonlocal views
            while not done.is_set():
                try:
                    view = reader.view(timeout=5)
                except TimeoutError:
                    continue
                with view:
                    a = view["a"]
                    views += 1
                    if not (a == a[0]).all():
                        torn.append(a)

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 2
        step = 0
        while time.monotonic() < end or views < 10:
            step += 1
            with store.mutate("a", slice(0, 500)) as a:
                a += 1
            store.scatter("a", np.arange(500, 1000), np.full(500, step))
            store.point()
        done.set()
        for thread in threads:
            while thread.is_alive():
                store.point()
                thread.join(0.01)
        assert not torn and views >= 10


def test_checkpoints_come_by_time_and_as_increments(tmp_path: Path) -> None:
    with Store.open(tmp_path, {"a": ArraySpec("int64", (100_000,))}, every=0.02) as store:
        begun = []
        end = time.monotonic() + 30
        while len(begun) < 5 and time.monotonic() < end:
            with store.mutate("a", slice(0, 10)) as a:
                a += 1
            number = store.point()
            if number is not None:
                begun.append(number)
        number = store.checkpoint()
        assert len(begun) == 5 and number is not None and number > begun[-1]
        assert store.stats()["increments"] > 0


def test_others_go_on_while_one_waits_for_a_checkpoint(tmp_path: Path) -> None:
    specs = {"a": ArraySpec("int64", (1_000_000,))}
    with Store.open(tmp_path, specs, bandwidth=1_000_000, increments=False) as store:
        store["a"][...] = 1
        numbers: list[int | None] = []

        def wait() -> None:
            try:
                numbers.append(store.checkpoint())
            except stillframe.Error:  # the second may find it closed
                numbers.append(None)

        waits = [threading.Thread(target=wait) for _ in range(2)]
        for thread in waits:
            thread.start()
        while store.stats()["running"] is None:
            pass
        for step in range(100):  # the checkpoint takes 8 s
            store["a"][step] = 2
            store.point()
        assert store.view()["a"][:100].sum() == 200
        assert store.stats()["running"] == 1 and not numbers
        store.close()  # at full speed
        for thread in waits:
            thread.join()
        assert 1 in numbers and len(numbers) == 2


def test_ctrl_c_ends_the_wait_for_a_checkpoint(tmp_path: Path) -> None:
    program = f"""
import os, signal, stillframe, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what runs in the background
specs = {{"a": stillframe.ArraySpec("int64", (1_000_000,))}}
store = stillframe.Store.open({str(tmp_path)!r}, specs, bandwidth=100_000, increments=False)
def interrupt():
    while store.stats()["running"] is None:
        pass
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    store.checkpoint()
except KeyboardInterrupt:
    assert store.stats()["running"] == 1
    store.close()  # at full speed
else:
    raise SystemExit("it went on")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    with Store.open(tmp_path) as store:
        assert store.recovery()["checkpoint"]


@pytest.mark.parametrize("offset", [0, 3])
def test_memory_of_others_is_followed(tmp_path: Path, offset: int) -> None:
    rng = np.random.default_rng(3)
    whole = np.zeros(3_000_000 + offset, np.uint8)
    theirs = whole[offset:]
    small = np.arange(5.0)
    specs = {"theirs": ArraySpec("uint8", (3_000_000,)), "small": ArraySpec("float64", (5,))}
    with Store.open(tmp_path, specs) as store:
        theirs[::1000] = 1
        is_told = store.follow("theirs", theirs)
        store.follow("small", small)
        assert np.array_equal(store["theirs"], theirs) and np.array_equal(store["small"], small)
        assert store.snapshot() == 0
        view = store.view()
        before = theirs.copy()
        for round in range(50):
            places = rng.integers(0, theirs.size, int(rng.integers(1, 50)))
            theirs[places] += 1
            small[round % 5] += 1
            copied = store.snapshot()
            assert copied <= (places.size + 1) * 2 * 4096
            assert np.array_equal(store["theirs"], theirs), round
            assert np.array_equal(store["small"], small)
        assert np.array_equal(view["theirs"], before)
        pipe = os.pipe()
        os.write(pipe[1], b"12345")
        assert os.readv(pipe[0], [memoryview(theirs)[1_000_000:1_000_005]]) == 5  # by the kernel
        store.snapshot()
        assert np.array_equal(store["theirs"], theirs)
        with pytest.raises(ValueError, match="already"):
            store.follow("theirs", theirs)
        with pytest.raises(TypeError):
            store.follow("small", small.astype("float32"))
        print("told by the kernel:", is_told)
    with Store.open(tmp_path) as store:
        assert np.array_equal(store["theirs"], theirs)


def test_debugging_finds_what_nobody_announced(tmp_path: Path) -> None:
    with Store.open(tmp_path, SPECS, debug=True) as store:
        with store.mutate("flat", slice(10, 20)) as a:
            leaked = a[2:4]
        store["bytes"][3] = 4
        store["flat"][[1, 2]] = 5.0
        store.scatter("flat", [7], [1.0])
        store["replay"].append([[1, 2]])
        store.point()
        with pytest.raises(RuntimeError), store.act():
            store["flat"][3:6] = 2.0
            raise RuntimeError
        store.point()
        leaked[1] = 8.0
        with pytest.raises(stillframe.Unannounced, match="array 'flat' row 13.*test_store.py"):
            store.point()
        store.point()


def test_debugging_names_the_line_that_wrote(tmp_path: Path) -> None:
    specs = {"a": ArraySpec("int64", (4096, 4)), "b": ArraySpec("int64", (0, 512), max_rows=64)}
    with Store.open(tmp_path / "one", specs, debug=True) as store:
        other = Store.open(tmp_path / "other", specs, debug=True)
        with store.mutate("a", slice(0, 2048)) as a, other.mutate("a") as b:
            leaked, theirs = a[1024:1025], b[:]
        store["b"].append(np.ones((9, 512), np.int64))
        store.scatter("a", np.arange(4096), np.ones((4096, 4), np.int64))
        with store.mutate("a", slice(2048, 4096)) as a:
            a += 1
            leaked[0, 0] = 7  # of another page than those announced
            line = _line() - 1
            a += 1
        with pytest.raises(stillframe.Unannounced, match=rf"'a' row 1024.*by {__file__}:{line}, "):
            store.point()
        store.point()
        leaked[0, 0] = 7  # what it is already
        with pytest.raises(stillframe.Unannounced, match=rf"by {__file__}:{_line() - 1}, "):
            store.view()
        thread = threading.Thread(target=lambda: leaked.fill(9))
        thread.start()
        thread.join()
        with pytest.raises(stillframe.Unannounced, match=rf"by {__file__}:{_line() - 3}, "):
            store.checkpoint()
        other.point()
        theirs[...] = 3
        with pytest.raises(stillframe.Unannounced, match=rf"by {__file__}:{_line() - 1}, "):
            other.point()
        other.close()
        theirs[...] = 4  # of nobody's, now
        store.point()
    leaked[0, 0] = 8


def _line() -> int:
    """The line that calls."""
    return sys._getframe(1).f_lineno


@pytest.mark.parametrize("enable", ["", "before", "after"])
@pytest.mark.parametrize(
    "fault", ["ctypes.string_at(8)", "os.kill(os.getpid(), 11)", "ctypes.memset(free, 1, 1)"]
)
def test_debugging_leaves_other_faults_as_they_are(
    tmp_path: Path, enable: str, fault: str
) -> None:
    program = f"""
import ctypes, faulthandler, mmap, os, stillframe
if {enable!r} == "before": faulthandler.enable()
specs = {{"a": stillframe.ArraySpec("f8", (9,))}}
store = stillframe.Store.open({str(tmp_path / "store")!r}, specs, debug=True)
if {enable!r} == "after": faulthandler.enable()
with store.mutate("a") as a: leaked = a[:]
leaked[0] = 1  # goes on
try: store.point()
except stillframe.Unannounced as error: print(error, flush=True)
free = ctypes.addressof(ctypes.c_char.from_buffer(mmap.mmap(-1, 4096)))
ctypes.CDLL(None).mprotect(ctypes.c_void_p(free), 4096, 1)
{fault}
print("went on")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGSEGV, done
    assert "row 0 were written" in done.stdout and "went on" not in done.stdout
    assert "by <string>:8, " in done.stdout
    assert ("Segmentation fault" in done.stderr) == bool(enable)


def test_a_forked_child_is_told(tmp_path: Path) -> None:
    with Store.open(tmp_path, SPECS) as store:
        store["flat"][...] = 1.0
        view = store.view()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                store["flat"][0] = 2.0
            except stillframe.WrongProcess:
                try:
                    view["flat"]
                except stillframe.WrongProcess:
                    code = 0
            del view, store
            gc.collect()
            os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        store["flat"][...] = 3.0
        assert (view["flat"] == 1.0).all()
        assert store.checkpoint() == 1


def test_a_full_disk_costs_the_checkpoint_alone(tmp_path: Path) -> None:
    with Store.open(tmp_path, {"a": ArraySpec("int64", (100_000,))}) as store:
        store["a"][...] = 1
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            with pytest.raises(stillframe.DiskFull):
                store.checkpoint()
            with pytest.raises(stillframe.DiskFull):
                store.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        store["a"][0] = 2
        assert store.checkpoint() is not None
    with Store.open(tmp_path) as store:
        assert store["a"][0] == 2 and store["a"][1] == 1


def test_a_full_disk_ends_the_log_and_undoes_what_it_does_not_take(tmp_path: Path) -> None:
    specs = {"a": ArraySpec("int64", (10_000,))}
    store = Store.open(tmp_path, specs, log="always", checkpoint_on_close=False)
    store["a"][0] = 1
    store.wait_durable()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        with pytest.raises(stillframe.DiskFull):
            for _ in range(10):
                store["a"][...] = store["a"][...] + 1
                store.wait_durable()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    before = store["a"][...].copy()
    with pytest.raises(stillframe.Error):
        store["a"][...] = before + 1
    assert np.array_equal(store["a"], before)
    store.close(give_up=True)
    with Store.open(tmp_path, log="always", checkpoint_on_close=False) as store:
        assert store["a"][0] == store["a"][1] + 1 and store["a"][0] <= before[0]


def test_without_memory_nothing_changes(tmp_path: Path) -> None:
    program = f"""
import resource, stillframe
import numpy as np
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    stillframe.Store.open({str(tmp_path / "big")!r}, {{"a": stillframe.ArraySpec("f8", (1 << 29,))}})
except MemoryError as error:
    assert "memory" in str(error), error
else:
    raise SystemExit("4 GiB fit into 2")
with stillframe.Store.open({str(tmp_path / "small")!r}, {{"a": stillframe.ArraySpec("f8", (9,))}}) as s:
    s["a"][...] = 1
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_runs_out_of_memory_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    program = f"""
import re, resource, stillframe
from stillframe import ArraySpec
specs = {{"a": ArraySpec("f8", (0,), max_rows=1 << 27), "b": ArraySpec("f8", (1 << 23,))}}
unlimited = resource.getrlimit(resource.RLIMIT_DATA)
def limit():
    used = re.search(r"VmData:\\s+(\\d+)", open("/proc/self/status").read())[1]
    resource.setrlimit(resource.RLIMIT_DATA, ((int(used) << 10) + (16 << 20), unlimited[1]))
def refused(work):
    limit()
    try:
        work()
    except MemoryError as error:
        assert "memory" in str(error), error
    else:
        raise SystemExit("there was memory")
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, unlimited)
with stillframe.Store.open({str(tmp_path)!r}, specs, budget=1 << 30) as store:
    store["b"][...] = 1
    view = store.view()
    refused(lambda: store["a"].resize(1 << 26))
    refused(lambda: view["b"])
    assert len(store["a"]) == 0 and (store["b"][...] == 1).all()
    store["b"][...] = 2
    assert (view["b"] == 1).all()
    store["a"].resize(1 << 26)
    assert len(store["a"]) == 1 << 26
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("log", [None, "always"])
def test_a_kill_loses_nothing_that_was_durable_and_tears_nothing(
    tmp_path: Path, log: str | None
) -> None:
    rounds = int(os.environ.get("STILLFRAME_KILLS", "8"))
    rng = np.random.default_rng(int(os.environ.get("STILLFRAME_SEED", "1")))
    writer = Path(__file__).with_name("crash_writer.py")
    confirmed = 0
    for round in range(rounds):
        child = subprocess.Popen(
            [sys.executable, str(writer), str(tmp_path / "data"), log or ""],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        for _ in range(int(rng.integers(1, 30))):
            confirmed = max(confirmed, int(child.stdout.readline()))
        time.sleep(float(rng.random()) / 50)
        child.kill()
        lines = child.stdout.read().split("\n")
        child.wait()
        confirmed = max([confirmed] + [int(line) for line in lines[:-1]])
        with Store.open(tmp_path / "data", log=log, checkpoint_on_close=False) as store:
            step = store.scalars["step"]
            assert step >= confirmed, f"round {round}: {confirmed} was durable"
            # The invariant of the writer: all agree on the step.
            assert (store["a"].numpy() == step).all(), f"round {round}"
            assert (store["b"].numpy() == step % 251).all(), f"round {round}"
            assert store["log"].numpy().ravel().tolist() == list(range(1, step + 1))


def test_threads_that_write_wait_for_each_other(tmp_path: Path) -> None:
    with Store.open(tmp_path, {"a": ArraySpec("int64", (0, 2), max_rows=100_000)}) as store:

        def append(thread: int) -> None:
            for number in range(500):
                store["a"].append([[thread, number]])
                store.scalars[str(thread)] = number

        threads = [threading.Thread(target=append, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows = np.array(store["a"][...])
        assert len(rows) == 2000
        for thread in range(4):
            assert list(rows[rows[:, 0] == thread][:, 1]) == list(range(500))
        assert dict(store.scalars) == {str(thread): 499 for thread in range(4)}


@pytest.mark.parametrize("log", [None, "always"])
def test_a_store_is_not_closed_within_a_change(tmp_path: Path, log: str | None) -> None:
    store = Store.open(tmp_path, {"a": ArraySpec("int64", (4,))}, log=log)
    with store.mutate("a") as rows:
        rows[0] = 1
        with pytest.raises(stillframe.Error, match="not complete"):
            store.close()
        rows[1] = 2
    store.close()
    with Store.open(tmp_path, log=log) as again:
        assert list(again["a"][...]) == [1, 2, 0, 0]
