"""The driver's errors become the platform's own, each with what to do, and never with a password."""

from __future__ import annotations

import socket
from pathlib import Path

import psycopg
import pytest
from psycopg import errors as pg
from psycopg_pool import PoolTimeout, TooManyRequests
from sqlalchemy.exc import DBAPIError

from retrieval.adapters.store.installation.embedded.home import socket_url
from retrieval.adapters.store.installation.schema import status
from retrieval.adapters.store.translate import EMBEDDED, URL_SETTING, server_name, translated
from retrieval.domain.errors import (
    ConfigurationError,
    DatabaseBusyError,
    DatabaseError,
    DatabaseUnreachableError,
    MissingPrivilegeError,
    PoolExhaustedError,
    RetrievalError,
    SchemaRevisionError,
)

URL = "postgresql://user:topsecret@db.example:6543/docs"
AWAY = "connection to the remote node retrieval_app@db-2:5433 failed with the following error: Connection refused"
NODE = "^the node db-2:5433 of the cluster at db.example:6543, database 'docs' does not answer; start it again"
LOGIN = 'connection failed: connection to server at "db.example" failed: FATAL:  '


def closed_ports() -> list[int]:
    """Two ports that nothing listens on."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in (one, other)]


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
        (psycopg.InternalError("received 2 results from command 'COMMIT'"), DatabaseUnreachableError, "check that"),
        (pg.InternalError_("cache lookup failed"), DatabaseError, "the database refused"),
        (
            psycopg.OperationalError(LOGIN + "password authentication failed"),
            DatabaseUnreachableError,
            "refused the login",
        ),
        (pg.ReadOnlySqlTransaction("cannot execute INSERT"), DatabaseError, "SET default_transaction_read_only = off;"),
        (pg.ConnectionFailure(AWAY), DatabaseUnreachableError, NODE),
        (pg.ConnectionException("could not connect to db-2:5433 to get size"), DatabaseUnreachableError, NODE),
        (pg.InternalError_("failure on connection marked as essential: db-2:5433"), DatabaseUnreachableError, NODE),
        (pg.InternalError_("cache lookup failed"), DatabaseError, "cache lookup failed"),
        (pg.DiskFull("no space left", info={ord("H"): b"Check it."}), DatabaseError, "no space left; check it$"),
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


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('password authentication failed for user "x"', "refused the login: .*; check RETRIEVAL_DATABASE_URL$"),
        ('role "x" does not exist', "refused the login: .*; check RETRIEVAL_DATABASE_URL$"),
        ('database "x" does not exist', "refused the login: .*; check RETRIEVAL_DATABASE_URL$"),
        ('no pg_hba.conf entry for host "10.0.0.1"', "refused the login: .*; check RETRIEVAL_DATABASE_URL$"),
        ('role "x" is not permitted to log in', "refused the login: .*; check RETRIEVAL_DATABASE_URL$"),
        ('permission denied for database "x"', "refused the login: .*; check RETRIEVAL_DATABASE_URL$"),
        ("sorry, too many clients already", "has no connection left: .*; raise max_connections"),
        ('too many connections for role "x"', "has no connection left: .*; raise max_connections"),
        (
            "remaining connection slots are reserved for roles with the SUPERUSER attribute",
            "has no connection left: .*; raise max_connections, or .* lower RETRIEVAL_POOL_SIZE$",
        ),
        ("the database system is in recovery mode", "does not serve now: .*; it is starting, .* try again$"),
        ("the database system is starting up", "does not serve now: .*; it is starting, .* try again$"),
        ('database "x" is not currently accepting connections', "cannot reach PostgreSQL at .*check that it runs"),
    ],
)
def test_a_refused_connection_has_its_own_cause_and_remedy(said: str, told: str) -> None:
    """A server that is full or starting has refused no login, and its URL is right."""
    with pytest.raises(DatabaseUnreachableError, match=told) as caught, translated(URL):
        raise psycopg.OperationalError(LOGIN + said)
    assert said in str(caught.value)


def test_the_embedded_server_starts_again_with_the_next_call() -> None:
    """Its user has set no URL; who has set the URL of its socket has to start it."""
    url = socket_url(Path("/home/ann/run"))
    for setting, remedy in (
        (EMBEDDED, "; try again, which starts it; server.log in"),
        (URL_SETTING, "that RETRIEVAL_DATABASE_URL is"),
    ):
        with pytest.raises(DatabaseUnreachableError, match=remedy), translated(url, setting):
            raise pg.AdminShutdown("terminating")


def test_only_the_first_line_of_the_servers_message_is_shown() -> None:
    """Details and hints of the server stay in the cause."""
    with pytest.raises(DatabaseError) as caught, translated(URL):
        raise pg.UniqueViolation("duplicate key\nDETAIL:  Key (name)=(secret text) already exists.")
    assert "secret text" not in str(caught.value)


@pytest.mark.parametrize("said", ["too many connections for role a; b", "lost a; b"])
def test_a_semicolon_in_the_servers_message_does_not_begin_the_remedy(said: str) -> None:
    """A name in it may contain one; the doctor splits the platform's message at the first."""
    with pytest.raises(DatabaseUnreachableError) as caught, translated(URL):
        raise psycopg.OperationalError(LOGIN + said)
    found, _, mend = str(caught.value).partition("; ")
    assert found.endswith("a, b")
    assert mend.startswith(("raise max_connections", "check that it runs"))


def test_each_of_several_hosts_has_its_reason() -> None:
    """The wrong host may be any of them, and not only the last."""
    first, second = closed_ports()
    url = f"postgresql://user:topsecret@127.0.0.1:{first},localhost:{second}/docs"
    with pytest.raises(DatabaseUnreachableError) as caught, translated(url):
        psycopg.connect(url)
    text = str(caught.value)
    assert text.startswith(f"cannot reach PostgreSQL at 127.0.0.1:{first}, localhost:{second}, database 'docs': ")
    assert f"Connection refused (127.0.0.1:{first}), " in text
    assert f"Connection refused (localhost:{second})" in text
    assert "topsecret" not in text
    assert "\n" not in text


def test_other_errors_pass_untouched() -> None:
    """Errors that are not the database's are not translated."""
    with pytest.raises(KeyError), translated(URL):
        raise KeyError


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (URL, "db.example:6543, database 'docs'"),
        ("postgresql://a:1,b:2/docs", "a:1, b:2, database 'docs'"),
        ("postgresql://u@/docs?host=a,b&port=7", "a:7, b:7, database 'docs'"),
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


def test_a_message_calls_the_url_what_its_user_does() -> None:
    """A replica's is another setting than the primary's, and a source's none."""
    (port,) = closed_ports()[:1]
    for url in (f"postgresql://user@127.0.0.1:{port}/docs", "postgresql://user:topsecret@[bad/docs"):
        with pytest.raises(RetrievalError) as caught, translated(url, "the replica's URL"):
            psycopg.connect(url)
        assert "the replica's URL is" in str(caught.value)
        assert "RETRIEVAL_DATABASE_URL" not in str(caught.value)
