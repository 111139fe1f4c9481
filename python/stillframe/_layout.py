"""Where arrays lie in the words of a store.

========  ==============================================================
byte      what is there
========  ==============================================================
0         ``SFARRAYS``
512       rows of each array, 8 bytes each, in the order of the layout
4096      length of the layout in bytes, then the layout, as JSON
65536     length of the scalars in bytes, then the scalars, as JSON
further   the arrays, each from a multiple of 4096 on
========  ==============================================================

Numbers are little-endian. The rows of an array lie one behind the other, with room for as many as
it may ever have: so an array never moves. Room that is not used takes no memory; in a full
checkpoint it takes as many zeros, unless it lies behind all that is used.
"""

from __future__ import annotations

import json
import math
import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._stillframe import Error

MAGIC = b"SFARRAYS"
ROWS = 512
LAYOUT = 4096
SCALARS = 65536
BLOCK = 4096
#: What no machine has, so that what is smaller is an address.
BYTES_MAX = 1 << 56
#: Arrays that a layout has at most.
ARRAYS_MAX = (LAYOUT - ROWS) // 8


@dataclass(frozen=True)
class ArraySpec:
    """Dtype and shape of an array, and for one that grows the most rows that it may have.

    ``shape`` is that of the array when the store is created; the first number counts rows.
    """

    dtype: Any
    shape: tuple[int, ...]
    max_rows: int | None = None


@dataclass(frozen=True)
class Place:
    """Where an array lies."""

    name: str
    #: Its place in the layout.
    number: int
    dtype: np.dtype[Any]
    #: The shape of one row.
    row_shape: tuple[int, ...]
    #: Rows at first.
    rows: int
    max_rows: int
    #: The first byte.
    at: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return math.prod(self.row_shape) * self.dtype.itemsize

    @property
    def rows_at(self) -> int:
        """Where the number of rows is."""
        return ROWS + 8 * self.number

    def end(self, rows: int) -> int:
        """The byte behind so many rows."""
        return self.at + rows * self.row_bytes

    def describe(self) -> dict[str, Any]:
        """For the layout."""
        return {
            "name": self.name,
            "dtype": self.dtype.str,
            "row": list(self.row_shape),
            "rows": self.rows,
            "max_rows": self.max_rows,
            "at": self.at,
        }


def read_layout(text: bytes) -> list[Place]:
    """The arrays of a layout."""
    places = []
    for number, it in enumerate(json.loads(text)):
        dtype, row = np.dtype(it["dtype"]), tuple(it["row"])
        places.append(
            Place(it["name"], number, dtype, row, it["rows"], it["max_rows"], it["at"])
        )
    return places


def write_layout(places: list[Place]) -> bytes:
    """The layout of some arrays."""
    text = json.dumps([place.describe() for place in places]).encode()
    if len(places) > ARRAYS_MAX or len(text) > SCALARS - LAYOUT - 8:
        raise ValueError(f"{len(places)} arrays are too many for one store")
    return text


def _place(name: str, spec: ArraySpec) -> Place:
    if not isinstance(spec, ArraySpec):
        raise TypeError(f"array {name!r} is given as {type(spec).__name__}; give an ArraySpec")
    dtype = np.dtype(spec.dtype)
    if dtype.hasobject or dtype.kind not in "biufcmMSU" or not dtype.isnative:
        raise TypeError(f"array {name!r}: {dtype} is no plain dtype of this machine's byte order")
    try:
        shape = tuple(operator.index(n) for n in spec.shape)
        is_fixed = spec.max_rows is None and shape
        max_rows = shape[0] if is_fixed else operator.index(spec.max_rows or 0)
    except TypeError:
        asked = f"shape={spec.shape!r} and max_rows={spec.max_rows!r}"
        raise TypeError(
            f"array {name!r}: {asked}; give a tuple of whole numbers, and a whole number"
        ) from None
    if not shape or min(shape) < 0:
        raise ValueError(f"array {name!r}: shape {shape} has no rows along a first axis")
    if max_rows < shape[0]:
        raise ValueError(f"array {name!r}: {shape[0]} rows, and at most {max_rows}")
    place = Place(name, 0, dtype, shape[1:], shape[0], max_rows, 0)
    if place.row_bytes == 0:
        raise ValueError(f"array {name!r}: a row of shape {shape[1:]} holds nothing")
    return place


def place_all(specs: dict[str, ArraySpec], there: list[Place], first: int) -> list[Place]:
    """The places of arrays: those that are ``there``, checked, and new ones behind them."""
    places = list(there)
    known = {place.name: place for place in there}
    new = []
    for name, spec in specs.items():
        place = _place(name, spec)
        if name not in known:
            new.append(place)
            continue
        old = known[name]
        asked = (place.dtype, place.row_shape, place.max_rows)
        has = (old.dtype, old.row_shape, old.max_rows)
        if asked != has:
            raise Error(
                f"array {name!r} is {_show(old)} here, and was opened as {_show(place)}; "
                "open it as it is, or name another array"
            )
    new.sort(key=lambda place: place.max_rows > place.rows)  # those that grow lie behind
    end = max((place.end(place.max_rows) for place in places), default=first)
    for place in new:
        at = -(-end // BLOCK) * BLOCK
        place = replace(place, number=len(places), at=at)
        places.append(place)
        end = place.end(place.max_rows)
        if end > BYTES_MAX:
            raise ValueError(f"array {place.name!r}, {_show(place)}, fits no memory")
    return places


def _show(place: Place) -> str:
    shape = "x".join(str(n) for n in place.row_shape) or "1"
    return f"{place.dtype} in rows of {shape}, at most {place.max_rows} rows"
