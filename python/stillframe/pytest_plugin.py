"""Fixtures for pytest: a server for the session, and for each test a database of its own.

``stillframe_seed`` fills database 0 once; each test gets a branch of it, in microseconds. Scripts,
functions, users and channels are the server's, and so are common to all tests.
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
    """What fills database 0 before the first test; override it to return a function of a client."""
    return lambda client: None


@pytest.fixture(scope="session")
def stillframe_server(
    tmp_path_factory: pytest.TempPathFactory,
    stillframe_settings: dict[str, Any],
    stillframe_seed: Callable[[redis.Redis], object],
) -> Iterator[Server]:
    """A server in this process, which saves nothing unless the settings say so."""
    from ._server import Server

    directory = tmp_path_factory.mktemp("stillframe")
    with Server(directory, **{"save": "", **stillframe_settings}) as server:
        with server.client() as client:
            stillframe_seed(client)
        yield server


@pytest.fixture
def stillframe_db(stillframe_server: Server) -> int:
    """The number of a database that is the seeded one, for this test alone."""
    number = next(_DATABASES)
    stillframe_server.execute("STILLFRAME", "BRANCH", 0, number, "REPLACE")
    return number


@pytest.fixture
def stillframe_client(stillframe_server: Server, stillframe_db: int) -> Iterator[redis.Redis]:
    """A ``redis.Redis`` on that database."""
    with stillframe_server.client(db=stillframe_db) as client:
        yield client
