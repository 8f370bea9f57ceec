"""A server of an older PostgreSQL, whose programs the environment names."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from retrieval.adapters.store.installation.embedded.binaries import Binaries
from retrieval.adapters.store.installation.embedded.home import server_account
from retrieval.adapters.store.installation.embedded.home_server import HomeServer

VARIABLE = "RETRIEVAL_TEST_OLD_POSTGRESQL"
OLD_PROGRAMS = Path(os.environ[VARIABLE]) if VARIABLE in os.environ else None
"""The folder with the programs of PostgreSQL 16 or 17 that has pgvector."""


def old_cluster(home: Path, programs: Path) -> HomeServer:
    """A server of the older version, running, as the older program would have left it."""
    home.mkdir(mode=0o755)
    home.chmod(0o755)
    former = Binaries(programs, server_account(home / "data"))
    data = Path(tempfile.mkdtemp(dir=home))
    former.account.own(data)
    options = ["--username", "postgres", "--encoding", "UTF8", "--locale", "C", "--lc-ctype", "C.UTF-8"]
    process = former.run("initdb", "-D", str(data), *options, "--auth-local", "trust", "--auth-host", "reject")
    assert process.returncode == 0, process.stdout
    data.rename(home / "data")
    cluster = HomeServer(home, former)
    cluster.serve(time.monotonic() + 60)
    return cluster
