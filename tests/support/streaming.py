"""Streaming replication between embedded servers: a primary's home, and standbys that follow it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from retrieval.adapters.store.installation.embedded.home import PORT, socket_directory
from retrieval.adapters.store.installation.embedded.home_server import HomeServer
from retrieval.adapters.store.installation.embedded.server import start_embedded

REPLAYED_SECONDS = 30.0


@contextmanager
def standby_of(primary: Path, home: Path) -> Iterator[HomeServer]:
    """A running streaming replica, in a home of its own, of the server in the primary's home."""
    home.mkdir(mode=0o755)
    standby = HomeServer.at(home)
    standby.data.mkdir(mode=0o700)
    standby.binaries.account.own(standby.data)
    of_primary = ("-h", str(socket_directory(primary)), "-p", str(PORT), "-U", "postgres")
    copied = standby.binaries.run("pg_basebackup", *of_primary, "-D", str(standby.data), "-R", "-c", "fast")
    assert copied.returncode == 0, copied.stdout
    with start_embedded(home):
        yield standby


def follow(primary: HomeServer, standby: HomeServer) -> None:
    """Returns once the standby has all that was committed."""
    with psycopg.connect(primary.url) as there, psycopg.connect(standby.url, autocommit=True) as here:
        committed = there.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        until = time.monotonic() + REPLAYED_SECONDS
        while here.execute("SELECT pg_last_wal_replay_lsn() < %s::pg_lsn", committed).fetchone() == (True,):
            assert time.monotonic() < until, "the standby does not follow"
            time.sleep(0.05)
