"""The driver's errors become the platform's own, each with what to do, and never with a password."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors as pg
from psycopg_pool import PoolTimeout, TooManyRequests
from sqlalchemy.exc import DBAPIError

from retrieval.adapters.store.installation.schema import status
from retrieval.adapters.store.translate import server_name, translated
from retrieval.domain.errors import (
    ConfigurationError,
    DatabaseBusyError,
    DatabaseError,
    DatabaseUnreachableError,
    MissingPrivilegeError,
    PoolExhaustedError,
    SchemaRevisionError,
)

URL = "postgresql://user:topsecret@db.example:6543/docs"
LOGIN = 'connection failed: connection to server at "db.example" failed: FATAL:  '


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (PoolTimeout("late"), PoolExhaustedError, "RETRIEVAL_POOL_SIZE"),
        (TooManyRequests("many"), PoolExhaustedError, "RETRIEVAL_POOL_SIZE"),
        (pg.InsufficientPrivilege("denied"), MissingPrivilegeError, "docs/how-to/postgres.md"),
        (pg.UndefinedTable("no items"), SchemaRevisionError, "retrieval db status"),
        (pg.UndefinedFunction("no index_terms"), SchemaRevisionError, "retrieval db status"),
        (pg.LockNotAvailable("lock timeout"), DatabaseBusyError, "try again"),
        (pg.QueryCanceled("statement timeout"), DatabaseBusyError, "try again"),
        (pg.AdminShutdown("terminating"), DatabaseUnreachableError, "check that it runs"),
        (pg.CannotConnectNow("starting up"), DatabaseUnreachableError, "check that it runs"),
        (psycopg.OperationalError("connection refused"), DatabaseUnreachableError, "check that it runs"),
        (
            psycopg.OperationalError(LOGIN + "password authentication failed"),
            DatabaseUnreachableError,
            "refused the login",
        ),
        (psycopg.OperationalError(LOGIN + 'role "x" does not exist'), DatabaseUnreachableError, "refused the login"),
        (psycopg.OperationalError(LOGIN + "sorry, too many clients already"), DatabaseUnreachableError, "cannot reach"),
        (pg.DiskFull("no space left"), DatabaseError, "no space left"),
    ],
)
def test_each_error_has_its_translation(error: psycopg.Error, kind: type[DatabaseError], hint: str) -> None:
    """The driver's errors and SQLAlchemy's give the same one-line error."""
    for raised in (error, DBAPIError("SELECT 1", None, error)):
        with pytest.raises(kind, match=hint) as caught, translated(URL):
            raise raised
        assert type(caught.value) is kind
        assert "topsecret" not in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__ is raised


def test_only_the_first_line_of_the_servers_message_is_shown() -> None:
    """Details and hints of the server stay in the cause."""
    with pytest.raises(DatabaseError) as caught, translated(URL):
        raise pg.UniqueViolation("duplicate key\nDETAIL:  Key (name)=(secret text) already exists.")
    assert "secret text" not in str(caught.value)


def test_other_errors_pass_untouched() -> None:
    """Errors that are not the database's are not translated."""
    with pytest.raises(KeyError), translated(URL):
        raise KeyError


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (URL, "db.example:6543, database 'docs'"),
        ("postgresql:///docs", "the local socket, database 'docs'"),
        ("postgresql://u@/docs?host=/run/pg&port=5433", "/run/pg:5433, database 'docs'"),
        ("postgresql://user:topsecret@db.example", "db.example, database 'user'"),
        ("not a url", "the configured server"),
    ],
)
def test_a_server_is_named_by_what_is_not_secret(url: str, name: str) -> None:
    """Host, port and database are enough to know which one."""
    assert server_name(url) == name


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:topsecret@[bad/docs",
        "postgresql://user:topsecret%zz@db.example/docs",
        "postgresql://user:top@topsecret@db.example/docs",
        "postgresql://user:top/topsecret@db.example/docs",
    ],
)
async def test_nothing_of_a_url_that_cannot_be_read_is_shown(url: str) -> None:
    """Its password may stand anywhere; how a URL looks is told instead."""
    with pytest.raises(ConfigurationError, match="write it as postgresql://") as caught, translated(url):
        await psycopg.AsyncConnection.connect(url, connect_timeout=2)
    assert "topsecret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_an_invalid_port_is_not_shown() -> None:
    """An unwritten / in a password makes what precedes it a port."""
    with pytest.raises(ConfigurationError, match="write it as postgresql://") as caught:
        status("postgresql://user:topsecret/rest@db.example/docs", "retrieval")
    assert "topsecret" not in str(caught.value)
