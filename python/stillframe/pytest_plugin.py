"""Fixtures for pytest: a server for the session, and for each test a database of its own.

``stillframe_seed`` fills database 0 once; each test gets a branch of it, in microseconds. A test
that flushes all databases costs the next one that the seed is sown anew. Scripts, functions, users
and channels are the server's, and so are common to all tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import redis

    from ._server import Server

#: Databases that tests get in turn, so that what one left running meets none soon.
_DATABASES = cycle(range(1, 16))


@pytest.fixture(scope="session")
def stillframe_settings() -> dict[str, Any]:
    """Directives of redis.conf for the server; override it to set some."""
    return {}


@pytest.fixture(scope="session")
def stillframe_seed() -> Callable[[redis.Redis], object]:
    """What fills database 0 before the first test, and after one that emptied it; override it to
    return a function of a client."""
    return lambda client: None


class _Sown:
    """A server with its seed in database 0."""

    def __init__(self, server: Server, seed: Callable[[redis.Redis], object]) -> None:
        self.server = server
        self._seed = seed
        self._direct = server._raw.direct(False)
        self._keys = self._sow()

    def _sow(self) -> int:
        with self.server.client() as client:
            self._seed(client)
        keys: int = self._direct.execute("DBSIZE")
        return keys

    def branch(self, number: int) -> None:
        """Makes a database a copy of the seed, as it was before any test."""
        if self._direct.execute("DBSIZE") != self._keys:
            self._direct.execute("FLUSHDB")
            self._keys = self._sow()
        self._direct.execute("STILLFRAME", "BRANCH", 0, number, "REPLACE")


@pytest.fixture(scope="session")
def _stillframe_sown(
    tmp_path_factory: pytest.TempPathFactory,
    stillframe_settings: dict[str, Any],
    stillframe_seed: Callable[[redis.Redis], object],
) -> Iterator[_Sown]:
    from ._server import Server

    directory = tmp_path_factory.mktemp("stillframe")
    with Server(directory, **{"save": "", **stillframe_settings}) as server:
        yield _Sown(server, stillframe_seed)


@pytest.fixture(scope="session")
def stillframe_server(_stillframe_sown: _Sown) -> Server:
    """A server in this process, which saves nothing unless the settings say so."""
    return _stillframe_sown.server


@pytest.fixture
def stillframe_db(_stillframe_sown: _Sown) -> int:
    """The number of a database that is the seeded one, for this test alone."""
    number = next(_DATABASES)
    _stillframe_sown.branch(number)
    return number


@pytest.fixture
def stillframe_client(stillframe_server: Server, stillframe_db: int) -> Iterator[redis.Redis]:
    """A ``redis.Redis`` on that database."""
    with stillframe_server.client(db=stillframe_db) as client:
        yield client
