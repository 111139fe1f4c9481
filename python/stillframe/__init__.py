"""Stillframe in a Python process.

:class:`Server` is a Redis-protocol server without a port, :class:`Store` keeps numpy arrays that
are saved while they change. The page ``docs/embed/python.md`` has
both from installation to recovery.
"""

from __future__ import annotations

import sys
import sysconfig
from typing import TYPE_CHECKING, Any

if sys.platform != "linux":
    raise ImportError(f"stillframe for Python is tested on Linux alone, and this is {sys.platform}")
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError("stillframe is not tested on free-threaded Python; use the build with a GIL")

from ._stillframe import (
    VERSION,
    CommandError,
    DiskFull,
    Error,
    Foreign,
    InUse,
    Unannounced,
    ViewLost,
    WrongProcess,
    check_interpreter,
)

from ._server import Pipeline, Server

check_interpreter()

if TYPE_CHECKING:
    from ._layout import ArraySpec
    from ._store import Array, Branch, Reader, Scalars, Store, View

__version__ = VERSION
_OF_STORE = ("Array", "Branch", "Reader", "Scalars", "Store", "View")

__all__ = [
    "Array",
    "ArraySpec",
    "Branch",
    "CommandError",
    "DiskFull",
    "Error",
    "Foreign",
    "InUse",
    "Pipeline",
    "Reader",
    "Scalars",
    "Server",
    "Store",
    "Unannounced",
    "View",
    "ViewLost",
    "WrongProcess",
    "__version__",
]


def __getattr__(name: str) -> Any:
    # Numpy is needed for arrays alone, and so is imported with them.
    if name in _OF_STORE:
        from . import _store

        return getattr(_store, name)
    if name == "ArraySpec":
        from ._layout import ArraySpec

        return ArraySpec
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
