"""A PostgreSQL server for one run: the product's embedded one in a temporary home, set up the same for everyone."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psutil
import psycopg
from psycopg import sql

from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.adapters.store.installation.schema import upgrade

SHOWN = (
    "server_version",
    "shared_buffers",
    "work_mem",
    "maintenance_work_mem",
    "effective_cache_size",
    "max_parallel_workers_per_gather",
    "max_parallel_maintenance_workers",
    "random_page_cost",
    "synchronous_commit",
    "fsync",
    "jit",
)
"""Settings that a reader of the report wants to know."""

_MOST_BUFFERS_MB = 2048
_PLATFORM = "benchmark_platform"
"""The template of databases with the platform's schema; no program connects to it."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; ``url`` is a superuser's."""

    url: str
    log: Path | None = None
    """The server's settings, if they can be read here."""
    made: list[str] = field(default_factory=list)
    """The databases made for this run."""

    def database(self, name: str, *, platform: bool = False) -> str:
        """The URL of a new database, made anew if it is there; with the platform's schema if asked for."""
        if platform and _PLATFORM not in self.made:
            upgrade(self._made(_PLATFORM, "template1"), "retrieval")
        return self._made(name, _PLATFORM if platform else "template1")

    def copy(self, name: str, of: str) -> str:
        """The URL of a new database with the content of another one, which has no connections."""
        return self._made(name, of)

    def _made(self, name: str, template: str) -> str:
        self.drop(name)
        self.made.append(name)
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        return self.url_of(name)

    def url_of(self, name: str) -> str:
        """The URL of another database of this server."""
        parts = urlsplit(self.url)
        query = f"?{parts.query}" if parts.query else ""
        return f"{parts.scheme}://{parts.netloc}/{quote(name)}{query}"

    def drop(self, name: str) -> None:
        """Remove a database, with its connections."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def settings(self) -> Mapping[str, str]:
        """The settings of ``SHOWN`` and pgvector's version."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            values = {name: _one(connection, f"SHOW {name}") for name in SHOWN}
            return {
                **values,
                "pgvector": _one(connection, "SELECT extversion FROM pg_extension WHERE extname='vector'"),
            }


class ServerTime:
    """The processor time of a server: of all its processes, also of those that ended; 0 if it runs elsewhere."""

    def __init__(self, url: str) -> None:
        self._main: psutil.Process | None = None
        with psycopg.connect(url) as connection, contextlib.suppress(psutil.NoSuchProcess):
            backend = psutil.Process(connection.info.backend_pid)
            self._main = psutil.Process(backend.ppid()) if backend.name().startswith("postgres") else None

    def seconds(self) -> float:
        """Since the server began."""
        if self._main is None:
            return 0.0
        own = self._main.cpu_times()
        total = own.user + own.system + own.children_user + own.children_system
        for child in self._main.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = child.cpu_times()
                total += times.user + times.system
        return float(total)


def settle(url: str) -> None:
    """Vacuum and analyze a database, so that everyone is measured in the state that a server reaches by itself."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


def table_bytes(url: str) -> int:
    """Bytes of all tables of a database with their indexes; 0: there are none."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class AS c "
            "JOIN pg_namespace AS n ON n.oid = c.relnamespace "
            "WHERE c.relkind = 'r' AND n.nspname <> ALL ('{pg_catalog,information_schema}')"
        ).fetchone()
    return int(row[0]) if row else 0


@contextlib.contextmanager
def running(url: str | None = None) -> Iterator[Server]:
    """The server of a superuser's URL, left without the run's databases; else a new one, removed afterwards.

    The new one is started twice: its memory is set in between.
    """
    if url is not None:
        server = Server(url)
        try:
            yield server
        finally:
            for name in server.made:
                server.drop(name)
        return
    home = Path(tempfile.mkdtemp(prefix="retrieval-bench-"))
    # Root's server runs as another user, who must be able to enter.
    home.chmod(0o755)
    try:
        with start_embedded(home) as embedded:
            _set_up(embedded.url)
        with start_embedded(home) as embedded:
            yield Server(embedded.url, home / "server.log")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _set_up(url: str) -> None:
    buffers = min(psutil.virtual_memory().total // 4 // 2**20, _MOST_BUFFERS_MB)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET shared_buffers = '{buffers}MB'".encode())
        connection.execute("ALTER SYSTEM SET max_connections = 300")
        # A checkpoint during a measurement would slow the system that is measured then.
        connection.execute("ALTER SYSTEM SET checkpoint_timeout = '1h'")
        connection.execute("ALTER SYSTEM SET max_wal_size = '8GB'")


def _one(connection: psycopg.Connection[Any], statement: str) -> str:
    row = connection.execute(statement.encode()).fetchone()
    return str(row[0]) if row else ""
