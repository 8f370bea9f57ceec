"""The tests' PostgreSQL server with pgvector, and databases on it.

The first of these that there is: the server of ``RETRIEVAL_TEST_DATABASE_URL`` (a superuser's URL), a container where
an engine answers, the embedded server. The last two are made for one run, shared by its processes, and stopped by the
last of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import psycopg
import sqlalchemy as sa
from psycopg import sql

from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.files import FileLock
from retrieval.adapters.store.installation.embedded.server import start_embedded
from tests.support.cluster import LOCK_WAITS, cluster_url, database_on_nodes

if TYPE_CHECKING:
    from testcontainers.community.postgres import PostgresContainer

VARIABLE = "RETRIEVAL_TEST_DATABASE_URL"
IMAGE = "pgvector/pgvector:0.8.6-pg18"
SCHEMA = "retrieval"

_ENGINE_SECONDS = 0.5
_CONTAINER_SECONDS = 300.0
# Losses in a crash of the machine do not matter here.
_FAST = ("fsync", "synchronous_commit", "full_page_writes")


class Source(StrEnum):
    """The source of the server."""

    CONFIGURED = f"the server of {VARIABLE}"
    CONTAINER = f"a container of {IMAGE}"
    EMBEDDED = f"the embedded PostgreSQL (another: set {VARIABLE})"


def source(environment: Mapping[str, str] = os.environ) -> Source:
    """The first source that can be had, found out without waiting."""
    if environment.get(VARIABLE):
        return Source.CONFIGURED
    address = environment.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    return Source.CONTAINER if engine_answers(address) else Source.EMBEDDED


def engine_answers(address: str) -> bool:
    """Whether a container engine answers at once at ``unix://...`` or ``tcp://host:port``."""
    parts = urlsplit(address)
    try:
        with _engine_socket(parts.scheme, parts.path, parts.hostname, parts.port) as connection:
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def _engine_socket(scheme: str, path: str, host: str | None, port: int | None) -> socket.socket:
    if scheme != "unix":
        return socket.create_connection((host or "localhost", port or 2375), timeout=_ENGINE_SECONDS)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_ENGINE_SECONDS)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def running_server(binaries: Source, run: Path) -> Iterator[str]:
    """A superuser's URL of a server that runs meanwhile; ``run`` is the directory that a run's processes share."""
    match binaries:
        case Source.CONFIGURED:
            yield os.environ[VARIABLE]
        case Source.CONTAINER:
            with _shared_container(run) as url:
                yield url
        case Source.EMBEDDED:
            with start_embedded(run / "server") as server:
                make_fast(server.url)
                yield server.url


def make_fast(url: str) -> None:
    """Give up what keeps data through a crash of the machine."""
    with psycopg.connect(url, autocommit=True) as connection:
        for name in _FAST:
            connection.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(name)))
        connection.execute("SELECT pg_reload_conf()")


@contextlib.contextmanager
def _shared_container(run: Path) -> Iterator[str]:
    """The run's container: the first process starts it, and the last one stops it."""
    note, lease = run / "container.url", FileLock(run / "container.lease")
    container = None
    with _alone(run / "container.guard"):
        if not note.exists():
            container = _started_container()
            note.write_text(container.get_connection_url(driver=None))
        lease.share()
    try:
        yield note.read_text()
    finally:
        if container is not None:
            with _alone(run / "container.guard"):
                lease.hold_before(time.monotonic() + _CONTAINER_SECONDS)
                note.unlink()
                container.stop()
        lease.release()


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.hold_before(time.monotonic() + _CONTAINER_SECONDS)
        yield
    finally:
        lock.release()


def _started_container() -> PostgresContainer:
    from testcontainers.community.postgres import PostgresContainer

    settings = " ".join(f"-c {name}=off" for name in _FAST)
    container = PostgresContainer(IMAGE, driver=None)
    container.with_kwargs(shm_size="1g").with_command(f"postgres {settings}").start()
    return container


def database_url(server: str, database: str, user: str | None = None) -> str:
    """The URL of another database of the server, for another user if one is named."""
    parts = urlsplit(server)
    place = parts.netloc if user is None else f"{quote(user)}@{parts.netloc.rpartition('@')[2]}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{place}/{quote(database)}{query}"


@contextlib.contextmanager
def temporary_database(server: str, name: str, template: str = "template0") -> Iterator[str]:
    """The URL of a new database, which is dropped afterwards, with its connections."""
    # Without syncs, copying files takes a fifth of the time of logging all of it.
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield database_url(server, name)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def database_with_schema(server: str, name: str, template: str) -> contextlib.AbstractContextManager[str]:
    """The URL of a new database with the schema: a copy of the template, or distributed over a cluster."""
    if cluster_url() is None:
        return temporary_database(server, name, template)
    return database_on_nodes(server, name, SCHEMA)


async def act_as(connection: psycopg.AsyncConnection[Any], tenant_id: int | None, role: str = f"{SCHEMA}_app") -> None:
    """Use the role and the tenant for the rest of the transaction, as the platform does.

    Each node of a cluster gets its own ``SET LOCAL``, and a login as the role.
    """
    for statement in (
        f"SELECT set_config('role', '{role}', true)",
        "SET LOCAL citus.propagate_set_commands = 'local'",
        f'SET LOCAL search_path = "{SCHEMA}", public, pg_temp',
        f"SET LOCAL retrieval.tenant = '{'' if tenant_id is None else tenant_id}'",
    ):
        await connection.execute(statement.encode())


@contextlib.contextmanager
def login(database: str, options: str = "") -> Iterator[tuple[str, str]]:
    """A login of its own: its name, and its URL for the database."""
    name = f"login_{uuid.uuid4().hex[:12]}"
    with opened(database) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret' " + options).format(sql.Identifier(name)))
        try:
            yield name, with_password(database, name)
        finally:
            for (role,) in connection.execute(
                "SELECT m.roleid::regrole::text FROM pg_auth_members m WHERE m.member = %s::regrole", (name,)
            ).fetchall():
                connection.execute(f"REVOKE {role} FROM {name} CASCADE")
            # By its name: a Citus cluster crashes at CURRENT_USER.
            connection.execute(f'REASSIGN OWNED BY {name} TO "{connection.info.user}"')
            connection.execute(f"DROP OWNED BY {name} CASCADE")
            connection.execute(f"DROP ROLE {name}")


def with_password(url: str, user: str, password: str = "secret") -> str:  # noqa: S107
    """The URL for that login."""
    name = sa.make_url(url).database or ""
    return database_url(url, name, user=user).replace(f"//{user}@", f"//{user}:{password}@")


@contextlib.contextmanager
def opened(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection that commits each statement."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


async def use(url: str, settings: Settings, *, documents: int = 1) -> None:
    """Store and find an item both ways."""
    async with connect(url, settings=settings, embedder=HashingEmbedder()) as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": "1", "text": "the cat sat", "n": 1}])
        hits = await collection.search("cats", where={"n": 1})
        assert [part.leg for part in hits[0].explanation.contributions] == ["dense", "lexical"]
        assert [hit.item_id for hit in await collection.search("cats")] == ["1"]
        assert (await collection.info()).items == documents


async def until_somebody_waits(platform: Platform, number: int = 1) -> None:
    """Wait until that many transactions of the platform's database wait for a lock."""
    async with asyncio.timeout(20), platform.database.maintenance() as connection:
        while (await (await connection.execute(LOCK_WAITS.encode())).fetchone() or (0,))[0] < number:
            pass
