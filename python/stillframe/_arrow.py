"""Arrays of numpy as arrays of Arrow, on the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

try:
    import pyarrow
except ImportError as error:
    raise ImportError("this needs pyarrow: pip install 'stillframe[arrow]'") from error


def _type_of(dtype: np.dtype[Any], name: str) -> pyarrow.DataType:
    """The type of Arrow that lies in memory as this dtype does."""
    if dtype.kind == "S":
        return pyarrow.binary(dtype.itemsize)
    try:
        found = pyarrow.from_numpy_dtype(dtype)
        if dtype.kind in "iufmM" and found.bit_width == 8 * dtype.itemsize:
            return found
    except pyarrow.ArrowNotImplementedError:
        pass
    raise TypeError(f"array {name!r} is of {dtype}, which Arrow has not in this form; read it")


def as_arrow(array: npt.NDArray[Any], name: str) -> pyarrow.Array:
    """The rows of a contiguous array that nobody writes."""
    kind = _type_of(array.dtype, name)
    buffer = pyarrow.py_buffer(array.reshape(-1).view(np.uint8))
    found = pyarrow.Array.from_buffers(kind, array.size, [None, buffer])
    for length in reversed(array.shape[1:]):
        found = pyarrow.FixedSizeListArray.from_arrays(found, length)
    return found


def as_table(array: pyarrow.Array, name: str) -> pyarrow.Table:
    """A table of one column."""
    return pyarrow.table({name: array})
