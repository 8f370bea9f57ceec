"""An empty database, and names for schemas in it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from psycopg import sql

from tests.support.database import opened

NewDatabase = Callable[..., str]


@pytest.fixture
def database(new_database: NewDatabase) -> str:
    """An empty database."""
    return new_database(empty=True)


@pytest.fixture(autouse=True)
def mark(server_url: str) -> Iterator[str]:
    """A word in the names of this test's schemas, whose roles are dropped at the end."""
    word = uuid.uuid4().hex[:12]
    yield word
    # The first fixture is torn down last: by now the databases are dropped.
    with opened(server_url) as connection:
        names = connection.execute(
            "SELECT rolname::text FROM pg_roles WHERE strpos(rolname, %s) > 0", (word,)
        ).fetchall()
        for (name,) in names:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture
def schema(mark: str) -> str:
    """A schema's name that no other test has."""
    return f"schema_{mark}"
