"""A database that goes away for a while, as when its server is down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from tests.support.database import opened


@dataclass(frozen=True)
class Away:
    """``with away():`` ends every connection to the database, unless it ``keeps`` them, and refuses new ones."""

    server_url: str
    database: str

    @contextlib.contextmanager
    def __call__(self, *, keeps: bool = False) -> Iterator[None]:
        """Take it away; it is back at the end."""
        with opened(self.server_url) as admin:
            self._allow(admin, "false")
            try:
                admin.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s AND NOT %s",
                    (self.database, keeps),
                )
                yield
            finally:
                self._allow(admin, "true")

    def connections(self) -> int:
        """The number of clients' connections to it; the nodes of a cluster have others to each other."""
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend' "
            "AND NOT starts_with(application_name, 'citus_internal')"
        )
        with opened(self.server_url) as admin:
            row = admin.execute(query, (self.database,)).fetchone()
            return int(row[0]) if row else 0

    def _allow(self, admin: psycopg.Connection[Any], allowed: str) -> None:
        admin.execute(
            sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(sql.Identifier(self.database), sql.SQL(allowed))
        )
