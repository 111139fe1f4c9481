"""SQL over tables of Arrow, by the DuckDB that the user has.

DuckDB reads the tables where they lie. A SQL engine in the wheel would be several times as large as
all else in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

try:
    import duckdb
except ImportError as error:
    raise ImportError("sql() needs DuckDB: pip install 'stillframe[sql]'") from error

if TYPE_CHECKING:
    import pyarrow


def answer(tables: Mapping[str, pyarrow.Table], question: str, parameters: Any) -> pyarrow.Table:
    """The answer to a question about these tables."""
    with duckdb.connect() as connection:
        # Names of the caller's variables are no tables.
        connection.execute("set python_enable_replacements = false")
        for name, table in tables.items():
            connection.register(name, table)
        found = connection.sql(question, params=parameters)
        if found is None:
            raise ValueError(f"this asks nothing: {question}")
        return found.to_arrow_table()
