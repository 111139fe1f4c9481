"""Arrays that can be saved while they change."""

from __future__ import annotations

import json
import operator
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from . import _layout, _stillframe, _trace
from ._layout import ArraySpec, Place
from ._stillframe import Error, Unannounced

if TYPE_CHECKING:
    import pyarrow

Rows = int | slice | None
#: Address space that a store takes whose arrays are not known before it is open.
_RESERVE = 1 << 33


class _Bytes(Protocol):
    def read(self, start: int, len: int) -> Any: ...


def _number(source: _Bytes, at: int) -> int:
    return int.from_bytes(memoryview(source.read(at, 8)), "little")


def _text(source: _Bytes, at: int, room: int) -> bytes:
    length = _number(source, at)
    if length > room - 8:
        raise Error(f"{length} bytes of text at byte {at} are damaged: there is room for {room}")
    return bytes(memoryview(source.read(at + 8, length)))


def _frame(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


def _rows(rows: Rows, count: int) -> slice:
    """A run of rows."""
    if rows is None:
        return slice(0, count)
    if isinstance(rows, slice):
        start, stop, step = rows.indices(count)
        if step != 1:
            raise IndexError(f"rows {rows} are no run; write them by scatter, or one by one")
        return slice(start, max(start, stop))
    try:
        number = range(count)[rows]
    except TypeError:
        raise TypeError("rows are a number, a slice or None; use scatter for others") from None
    return slice(number, number + 1)


def _cast(value: Any, dtype: np.dtype[Any], name: str) -> npt.NDArray[Any]:
    """The value as an array of this dtype; what would lose its kind is refused."""
    if not hasattr(value, "dtype"):
        found = np.asarray(value)
        if found.dtype.kind in "iu" and dtype.kind in "iu":
            return np.asarray(value, dtype)  # numpy looks whether the numbers fit
        value = found
    if not np.can_cast(value.dtype, dtype, "same_kind"):
        raise TypeError(f"array {name!r} is of {dtype}; convert the {value.dtype} values first")
    return np.asarray(value, dtype)


def _whole(name: str, value: int, least: int) -> int:
    """The value of a setting that counts something."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: give a whole number") from None
    if not least <= number < 1 << 63:
        raise ValueError(f"{name}={value!r}: give a whole number, {least} at least")
    return number


def _number_of(name: str, value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}={value!r}: give a number") from None


class Array:
    """An array of a store: numpy to read, and the methods here to write.

    ``array[...]`` and ``array.numpy()`` are read-only numpy arrays on the words themselves, which
    change as the store is written; ``array[...] = values`` writes. An array that numpy gave stays
    valid when the store is closed.
    """

    def __init__(self, store: Store, place: Place) -> None:
        self._store = store
        self._place = place
        self._whole: npt.NDArray[Any] | None = None

    @property
    def name(self) -> str:
        """Its name in the store."""
        return self._place.name

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its dtype, which is fixed."""
        return self._place.dtype

    @property
    def max_rows(self) -> int:
        """Rows that it may grow to."""
        return self._place.max_rows

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape of now."""
        return (len(self), *self._place.row_shape)

    def __len__(self) -> int:
        return self._store._count(self._place)

    def numpy(self) -> npt.NDArray[Any]:
        """All rows, to read."""
        shape = self.shape
        if self._whole is None or self._whole.shape != shape:
            size = shape[0] * self._place.row_bytes
            memory = self._store._raw.memory(self._place.at, size)
            self._whole = np.ndarray(shape, self.dtype, buffer=memoryview(memory))
        return self._whole

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is None:
            return np.asarray(self.numpy(), dtype)
        return np.array(self.numpy(), dtype, copy=copy)

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.numpy())

    def __repr__(self) -> str:
        return f"<stillframe.Array {self.name!r} {self.dtype} {self.shape}>"

    def mutate(self, rows: Rows = None) -> AbstractContextManager[npt.NDArray[Any]]:
        """A writable numpy array of a run of rows, until the end of the block.

        The rows are announced first, so that a checkpoint or view under way has what they held. No
        point can be declared within the block. Nothing is copied, except what a checkpoint under
        way needs, and in an act what the rows held.
        """
        return self._mutate(rows)

    @contextmanager
    def _mutate(self, rows: Rows) -> Iterator[npt.NDArray[Any]]:
        run = _rows(rows, len(self))
        shape = (run.stop - run.start, *self._place.row_shape)
        start = self._place.end(run.start)
        with self._store._one_act():
            with self._open(start, shape, None) as array:
                is_row = rows is not None and not isinstance(rows, slice)
                given = array.reshape(self._place.row_shape) if is_row else array
                try:
                    yield given
                finally:
                    given.flags.writeable = False

    @contextmanager
    def _open(
        self, start: int, shape: tuple[int, ...], runs: npt.NDArray[np.int64] | None
    ) -> Iterator[npt.NDArray[Any]]:
        """Announces runs of bytes, or all, and makes them writable."""
        size = shape[0] * self._place.row_bytes
        raw = self._store._raw
        array = np.ndarray(shape, self.dtype, buffer=memoryview(raw.mutate(start, size, runs)))
        self._store._open_runs += 1
        try:
            yield array
        finally:
            self._store._open_runs -= 1
            array.flags.writeable = False
            raw.mutated(start, size, runs)

    def __setitem__(self, index: Any, value: Any) -> None:
        value = _cast(value, self.dtype, self.name)
        runs = self._runs(index[0] if isinstance(index, tuple) and index else index)
        # The array stands at the place of the whole, so that the index needs no change.
        with self._store._one_act(), self._open(self._place.at, self.shape, runs) as array:
            array[index] = value

    def _runs(self, first: Any) -> npt.NDArray[np.int64]:
        """What an index may write whose first part this is: the start and length of each run."""
        count, size = len(self), self._place.row_bytes
        if not isinstance(first, (np.ndarray, list)):
            is_row = isinstance(first, (int, np.integer)) and not isinstance(first, bool)
            is_run = isinstance(first, slice) and first.step in (None, 1)
            run = _rows(int(first) if is_row else first if is_run else None, count)
            return np.array([self._place.end(run.start), (run.stop - run.start) * size], np.int64)
        first = np.asarray(first)
        if first.dtype == np.bool_:
            rows = np.unique(first.nonzero()[0])
        else:
            rows = np.unique(np.where(first < 0, first + count, first).ravel())
        if rows.size and not (0 <= rows[0] and rows[-1] < count):
            raise IndexError(f"array {self.name!r} has {count} rows; nothing was written")
        starts = self._place.at + rows.astype(np.int64) * size
        return np.stack([starts, np.full_like(starts, size)], axis=1).ravel()

    def scatter(self, index: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Replaces the rows that ``index`` names by ``values``, in one call of Rust.

        One row for each index; where an index comes twice, its last row stays. Nothing is written
        if an index is out of bounds.
        """
        found = np.asarray(index)
        if found.dtype.kind not in "iu" and found.size:
            raise TypeError(f"an index is a whole number, not {found.dtype}")
        if found.dtype == np.uint64 and (found >= len(self)).any():  # it may fit no int64
            raise IndexError(f"row {found.max()} of {len(self)}; nothing was written")
        rows = np.ascontiguousarray(found, np.int64).ravel()
        new = _cast(values, self.dtype, self.name)
        new = np.ascontiguousarray(np.broadcast_to(new, (rows.size, *self._place.row_shape)))
        place = self._place
        if not rows.size:
            return
        with self._store._alone:
            self._store._raw.scatter(
                place.at, place.row_bytes, len(self), rows, new.reshape(-1).view(np.uint8)
            )

    def resize(self, rows: int) -> None:
        """Grows to so many rows, the new ones zero, up to ``max_rows``."""
        with self._store._alone:
            self._resize(rows)

    def _resize(self, rows: int) -> None:
        count, place = len(self), self._place
        if rows < count:
            raise ValueError(f"array {self.name!r} has {count} rows, and does not shrink")
        if rows > place.max_rows:
            raise ValueError(
                f"array {self.name!r} may have {place.max_rows} rows, and was to grow to {rows}; "
                "nothing has changed"
            )
        raw = self._store._raw
        raw.grow(max(raw.words(), -(-place.end(rows) // 8)))
        raw.write(place.rows_at, rows.to_bytes(8, "little"))

    def append(self, values: npt.ArrayLike) -> None:
        """Adds rows behind the last one."""
        new = _cast(values, self.dtype, self.name)
        if new.shape[1:] != self._place.row_shape:
            raise ValueError(
                f"array {self.name!r} has rows of shape {self._place.row_shape}, and "
                f"{new.shape[1:]} was to be appended"
            )
        with self._store._one_act():
            count = len(self)
            self._resize(count + len(new))
            with self._open(self._place.end(count), new.shape, None) as array:
                array[...] = new


class Scalars(MutableMapping[str, Any]):
    """A small dict of what JSON can hold, saved with the arrays: a step, a rate, a name."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _get(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._store._read_scalars() or b"{}")
        return found

    def _set(self, values: dict[str, Any]) -> None:
        text = json.dumps(values).encode()
        room = self._store._scalars_bytes
        if len(text) > room - 8:
            raise ValueError(
                f"the scalars take {len(text)} bytes as JSON and there is room for {room - 8}; "
                "nothing has changed"
            )
        self._store._raw.write(_layout.SCALARS, _frame(text))

    def __getitem__(self, key: str) -> Any:
        return self._get()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        with self._store._alone:
            self._set({**self._get(), key: value})

    def __delitem__(self, key: str) -> None:
        with self._store._alone:
            values = self._get()
            del values[key]
            self._set(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._get())

    def __len__(self) -> int:
        return len(self._get())

    def update(self, *others: Any, **more: Any) -> None:
        """Changes several at once."""
        with self._store._alone:
            self._set({**self._get(), **dict(*others, **more)})

    def __repr__(self) -> str:
        return f"<stillframe.Scalars {self._get()!r}>"


class View(Mapping[str, npt.NDArray[Any]]):
    """The arrays as they were at an instant, for any thread, until it is closed.

    What is read first is copied once, since the store goes on changing the words; all who read it
    later, as numpy or by :meth:`arrow`, share that copy and copy nothing. An array stays valid
    when the view is closed; the last one frees what was read of the view.
    """

    def __init__(self, raw: _stillframe.View | _stillframe.Branch, store: Store) -> None:
        self._raw: Any = raw
        self._places = dict(store._places)
        self._scalars_bytes = store._scalars_bytes

    def read(self, name: str, rows: Rows = None) -> npt.NDArray[Any]:
        """A run of rows, as they were."""
        place = self._places[name]
        run = _rows(rows, _number(self._raw, place.rows_at))
        shape = (run.stop - run.start, *place.row_shape)
        memory = self._raw.read(place.end(run.start), shape[0] * place.row_bytes)
        array: npt.NDArray[Any] = np.ndarray(shape, place.dtype, buffer=memoryview(memory))
        return array if rows is None or isinstance(rows, slice) else array[0]

    def arrow(self, name: str, rows: Rows = None) -> pyarrow.Array:
        """A run of rows for pyarrow, and by ``__arrow_c_array__`` for all that speak Arrow: a list
        of fixed size for each axis behind the first. Nothing is copied that numpy has read here.
        """
        from ._arrow import as_arrow

        count = _number(self._raw, self._places[name].rows_at)
        return as_arrow(self.read(name, _rows(rows, count)), name)

    def to_arrow(self, *names: str) -> dict[str, pyarrow.Table]:
        """Arrays as tables of pyarrow, all of them unless some are named: one column, which has the
        name of its array, on the memory that :meth:`arrow` gives.
        """
        from ._arrow import as_table

        return {name: as_table(self.arrow(name), name) for name in names or self}

    def sql(self, question: str, parameters: Any = None) -> pyarrow.Table:
        """What DuckDB answers about the arrays: each that the question mentions is a table with one
        column, both of the array's name. ``from price positional join quantity`` joins the rows of
        one number.
        """
        from ._sql import answer

        words = [rf"(?<!\w){re.escape(name)}(?!\w)" for name in self]
        found = (re.search(word, question, re.IGNORECASE) for word in words)
        mentioned = [name for name, it in zip(self, found, strict=True) if it]
        return answer(self.to_arrow(*mentioned) if mentioned else {}, question, parameters)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def scalars(self) -> dict[str, Any]:
        """The scalars, as they were."""
        found: dict[str, Any] = json.loads(
            _text(self._raw, _layout.SCALARS, self._scalars_bytes) or b"{}"
        )
        return found

    def close(self) -> None:
        """Gives the memory free that the view keeps."""
        self._raw = _Closed()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Closed:
    """In the place of a view that was closed."""

    def __getattr__(self, _: str) -> Any:
        raise Error("the view was closed; take another one")


class Branch(View):
    """A view that can be written: it takes memory for what is written, and the store sees none.

    Each read of it is a copy of its own.
    """

    def write(self, name: str, rows: Rows, values: npt.ArrayLike) -> None:
        """Replaces a run of rows here."""
        place = self._places[name]
        run = _rows(rows, _number(self._raw, place.rows_at))
        shape = (run.stop - run.start, *place.row_shape)
        new = np.broadcast_to(_cast(values, place.dtype, name), shape)
        if new.size:
            packed = np.ascontiguousarray(new).reshape(-1).view(np.uint8)
            self._raw.write(place.end(run.start), packed)


class _Alone:
    """A lock of one thread at a time. A child that was forked while a thread held it is told so,
    and does not wait for a thread that it has not."""

    def __init__(self, raw: _stillframe.Store) -> None:
        self._raw, self._lock = raw, threading.RLock()

    def __enter__(self) -> None:
        self._raw.check_process()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Store:
    """Named numpy arrays and a few scalars that survive their process; see :meth:`open`.

    A thread that writes waits for another that does, to the end of its block or act. Any thread
    reads what it likes, and views for a state that stands still.
    """

    def __init__(self, path: str, settings: dict[str, Any], specs: dict[str, ArraySpec]) -> None:
        self._path = path
        self._scalars_bytes = settings.pop("scalars_bytes")
        self._debug: bool = settings["debug"] is not None
        self._logged = settings["log"] is not None
        self._open_runs = 0
        first = _layout.SCALARS + self._scalars_bytes
        there: list[Place] = []
        reserve = _end(_layout.place_all(specs, [], first)) if specs else _RESERVE * 8
        for _ in range(2):
            sizes = {"words": first // 8, "words_max": -(-max(reserve, first) // 8)}
            self._raw = _stillframe.Store.open(path, {**settings, **sizes})
            try:
                there = self._read_layout(first)
                places = _layout.place_all(specs, there, first)
                if not places:
                    raise Error(f"{path} holds no arrays; name those that it is to hold")
                if _end(places) <= max(reserve, first):
                    break
            except BaseException:
                self._raw.close(True)
                raise
            reserve = _end(places)
            self._raw.close(True)
        self._alone = _Alone(self._raw)
        self._places = {place.name: place for place in places}
        self._arrays = {name: Array(self, place) for name, place in self._places.items()}
        self._line = ""
        try:
            self._add(places, len(there))
        except BaseException:
            self._raw.close(True)
            raise

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        arrays: Mapping[str, ArraySpec] | None = None,
        *,
        every: float | None = None,
        log: str | None = None,
        increments: bool = True,
        pack: bool = False,
        bandwidth: int | None = None,
        keep: int = 2,
        checkpoint_on_close: bool = True,
        scalars_bytes: int = 65536,
        views: int = 64,
        budget: int | None = None,
        accept_loss: bool = False,
        debug: bool = False,
    ) -> Store:
        """Opens the store in a directory, which is created if need be, with its newest state.

        ``arrays`` names those that the store is to have; new ones begin as zeros. Without it the
        store has what is there.

        ``every``: seconds from one checkpoint to the next; each begins at a :meth:`point`.
        ``log``: ``"always"``, ``"everysec"`` or ``"no"``: each change, or :meth:`act`, is an act of
        its own in a log, so that what :meth:`wait_durable` confirmed outlives a crash.
        ``increments``: a checkpoint writes only blocks of 4 KiB that were written.
        ``pack``: by LZ4. ``bandwidth``: bytes a second. ``keep``: checkpoints that are kept.
        ``scalars_bytes``: room for the scalars, fixed when the store is created.
        ``views``: how many at a time. ``budget``: bytes that checkpoints and views may take beside
        the state; a quarter of it, 64 MiB at least, by default.
        ``accept_loss``: goes on without what damaged files have lost; :meth:`recovery` names it.
        ``debug``: finds what was written beside the methods here, for a copy of the state and pages
        that only announced writes may change.
        """
        name = os.fspath(path)
        if arrays is None and not os.path.isdir(name):
            raise FileNotFoundError(f"{name} is no directory; name the arrays to begin a store")
        if _whole("scalars_bytes", scalars_bytes, 4096) % 4096:
            raise ValueError(f"scalars_bytes={scalars_bytes}: give a multiple of 4096")
        if every is not None and not 0 <= _number_of("every", every) < 1e9:
            raise ValueError(f"every={every!r}: give a number of seconds, 0 or more, or None")
        if log not in (None, "always", "everysec", "no"):
            raise ValueError(f'log={log!r}: give "always", "everysec", "no" or None')
        settings = {
            "every": every,
            "log": log,
            "increments": bool(increments),
            "pack": bool(pack),
            "bandwidth": None if bandwidth is None else _whole("bandwidth", bandwidth, 1),
            "keep": _whole("keep", keep, 2),
            "checkpoint_on_close": bool(checkpoint_on_close),
            "scalars_bytes": scalars_bytes,
            "views": _whole("views", views, 0),
            "budget": None if budget is None else _whole("budget", budget, 1),
            "accept_loss": bool(accept_loss),
            "debug": _trace.start() if debug else None,
        }
        return cls(name, settings, dict(arrays or {}))

    def _read_layout(self, first: int) -> list[Place]:
        """The arrays that are there."""
        magic = bytes(memoryview(self._raw.memory(0, 8)))
        if magic == bytes(8):
            return []
        if magic != _layout.MAGIC:
            raise Error(f"{self._path} holds words that are no arrays of this library")
        source = _Live(self._raw)
        return _layout.read_layout(_text(source, _layout.LAYOUT, _layout.SCALARS - _layout.LAYOUT))

    def _add(self, places: list[Place], known: int) -> None:
        """Writes the layout of new arrays."""
        new = places[known:]
        if not new:
            return
        text = _layout.write_layout(places)
        raw = self._raw
        words = max([raw.words()] + [-(-place.end(place.rows) // 8) for place in new])
        with self.act():
            raw.grow(words)
            raw.write(0, _layout.MAGIC)
            raw.write(_layout.LAYOUT, _frame(text))
            for place in new:
                raw.write(place.rows_at, place.rows.to_bytes(8, "little"))

    def _count(self, place: Place) -> int:
        return _number(_Live(self._raw), place.rows_at)

    def _read_scalars(self) -> bytes:
        return _text(_Live(self._raw), _layout.SCALARS, self._scalars_bytes)

    def __getitem__(self, name: str) -> Array:
        try:
            return self._arrays[name]
        except KeyError:
            raise KeyError(f"{self._path} has no array {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    @property
    def path(self) -> str:
        """The directory."""
        return self._path

    @property
    def scalars(self) -> Scalars:
        """The scalars."""
        return Scalars(self)

    def mutate(self, name: str, rows: Rows = None) -> AbstractContextManager[npt.NDArray[Any]]:
        """See :meth:`Array.mutate`."""
        return self[name].mutate(rows)

    def scatter(self, name: str, index: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """See :meth:`Array.scatter`."""
        self[name].scatter(index, values)

    @contextmanager
    def act(self) -> Iterator[None]:
        """Changes that are one: kept whole at the end of the block, with a point there, or undone
        if it raises. With a log they are one record."""
        with self._alone:
            self._raw.begin_act()
            try:
                yield
            except BaseException:
                self._raw.end_act(False)
                raise
            self._check()
            self._raw.end_act(True)

    @contextmanager
    def _one_act(self) -> Iterator[None]:
        """With a log a single change is an act."""
        with self._alone:
            is_one = self._logged and not self._raw.in_act()
            with self.act() if is_one else nullcontext():
                yield

    def point(self) -> int | None:
        """Says that the arrays are valid now, by the rules of the program: the end of a step. A
        checkpoint that is due begins here, in microseconds, and its number is returned."""
        with self._alone:
            self._check()
            return self._raw.point()

    def checkpoint(self, wait: bool = True) -> int | None:
        """Takes a checkpoint of now, as at a :meth:`point`, and returns its number when it is
        durable; without ``wait`` it begins at the next point. While one thread waits here others
        go on, and Ctrl-C ends the wait, not the checkpoint."""
        if not wait:
            self._raw.request_checkpoint()
            return None
        number = None
        while number is None:
            with self._alone:
                self._check()
                is_mine, end = self._raw.begin_checkpoint()
            number = end.wait(is_mine)
        return number

    def wait_durable(self) -> None:
        """Returns when all that is in the log is certain to survive. Ctrl-C ends the wait alone."""
        self._raw.wait_durable()

    def follow(self, name: str, array: npt.NDArray[Any]) -> bool:
        """Takes an array of this name from memory that others write: numpy, torch (``.numpy()``), C.

        It has the dtype and shape of the array here, is contiguous, and is held by the store. No
        write to it need be announced: :meth:`snapshot` finds what changed. Returns whether the
        kernel tells which pages were written (Linux 6.7 on); if not, all is compared each time.
        """
        mine = self[name]
        if array.dtype != mine.dtype or array.shape != mine.shape:
            raise TypeError(
                f"array {name!r} is of {mine.dtype} {mine.shape}, and cannot follow one of "
                f"{array.dtype} {array.shape}"
            )
        if not array.flags.c_contiguous:
            raise ValueError("memory in several pieces cannot be followed")
        return self._raw.follow(mine._place.at, array.reshape(-1).view(np.uint8))

    def snapshot(self) -> int:
        """Copies what changed in the arrays that are followed, and declares a :meth:`point`; returns
        how many bytes were copied.

        This holds the GIL for the time of the copy, so that no code of Python runs meanwhile. What
        writes without the GIL must be waited for first: numpy itself does in large copies.
        """
        with self._alone:
            copied = self._raw.snapshot()
            self.point()
            return copied

    def view(self) -> View:
        """The state of now, as at a :meth:`point`, for any thread; it takes microseconds."""
        self._check()
        return View(self._raw.view(), self)

    def branch(self) -> Branch:
        """A view that can be written."""
        self._check()
        return Branch(self._raw.branch(), self)

    def reader(self) -> Reader:
        """For other threads: views of the next :meth:`point`."""
        return Reader(self._raw.reader(), self)

    def recovery(self) -> dict[str, Any]:
        """What was found when the store was opened."""
        return self._raw.recovery()

    def stats(self) -> dict[str, Any]:
        """Counts, times and sizes."""
        return self._raw.stats()

    def close(self, give_up: bool = False) -> None:
        """Waits for the checkpoint under way, takes a last one, and gives the directory free. What
        failed is raised, and the store is as it was: close it again, or ``give_up``. Ctrl-C ends
        the wait alone: the next call waits on, and nothing else is allowed meanwhile."""
        with self._alone:
            if not give_up and self._raw.is_open():
                if self._open_runs or self._raw.in_act():
                    raise Error("a change is not complete: close the store behind its block or act")
                self._check()
            self._raw.close(give_up)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What an exception left half-done is no state to save.
        self.close(give_up=kind is not None)

    def __repr__(self) -> str:
        return f"<stillframe.Store {self._path!r} {list(self._arrays)}>"

    def _check(self) -> None:
        """With ``debug``: what was written, and is not known here?"""
        if not self._debug:
            return
        before, self._line = self._line, _caller()
        found = self._raw.unannounced()
        if found is None:
            return
        first, last, slot = found
        by = "" if slot is None else f"by {_trace.last_line(slot)}, "
        raise Unannounced(
            f"{self._where(first)} to {self._where(last)} were written beside mutate(), scatter() "
            f"and item assignment, {by}between {before or 'the start'} and {self._line}"
        )

    def _where(self, byte: int) -> str:
        for place in self._places.values():
            if place.at <= byte < place.end(place.max_rows):
                return f"array {place.name!r} row {(byte - place.at) // place.row_bytes}"
        return f"byte {byte}"


class Reader:
    """Asks a store for views from any thread but its own."""

    def __init__(self, raw: _stillframe.Reader, store: Store) -> None:
        self._raw = raw
        self._store = store

    def view(self, timeout: float | None = None) -> View:
        """The state at the next point, which this waits for; ``TimeoutError`` if none comes."""
        if timeout is not None and not 0 <= _number_of("timeout", timeout) < 1e9:
            raise ValueError(f"timeout={timeout!r}: give a number of seconds, 0 or more, or None")
        return View(self._raw.view(timeout), self._store)


class _Live:
    """Bytes of a store, read as those of a view are."""

    def __init__(self, raw: _stillframe.Store) -> None:
        self.read = raw.memory


def _end(places: list[Place]) -> int:
    return max((place.end(place.max_rows) for place in places), default=0)


def _caller() -> str:
    """The line outside this package that called."""
    frame = sys._getframe(1)
    here = os.path.dirname(__file__)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(here) or "contextlib" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
