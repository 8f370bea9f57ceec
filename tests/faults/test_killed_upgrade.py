"""An upgrade of the embedded server that is killed, again and again, at random points.

Each try may be cut off wherever it is; the next one goes on, and in the end everything is there once, in the new data.
``RETRIEVAL_TEST_SEED`` repeats a run's choices. ``RETRIEVAL_TEST_OLD_POSTGRESQL`` names programs of an older version.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from retrieval import Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.installation import backup
from retrieval.adapters.store.installation.backup import upgrade_server
from retrieval.adapters.store.installation.embedded.binaries import Binaries, find_package
from retrieval.adapters.store.installation.embedded.home_server import HomeServer, former_data_of
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.adapters.store.installation.schema import upgrade
from retrieval.domain.diagnosis import Severity
from tests.faults.test_faults import SECONDS, SEED
from tests.support.database import SCHEMA, opened
from tests.support.forked_program import forking
from tests.support.older_server import OLD_PROGRAMS, old_cluster

NOW = datetime(2026, 11, 26, tzinfo=UTC)
HASH_OF_ANN = "SELECT rolpassword FROM pg_authid WHERE rolname = 'ann'"
KILLS = 4 if SECONDS else 2
LONGEST_SECONDS = 4.0
"""The latest that a try is killed; a whole one takes some seconds."""


def upgrade_from_older(home: str) -> None:
    """Upgrade with the older programs, or with the installed ones in their place if there are none."""
    if OLD_PROGRAMS:
        upgrade_server(Path(home), OLD_PROGRAMS, NOW)
        return
    own, changes = Binaries.major, pytest.MonkeyPatch()
    changes.setattr(backup, "major_version_of", lambda _: 17)
    changes.setattr(Binaries, "major", lambda found: 17 if found.account.name else own(found))
    upgrade_server(Path(home), find_package() / "pginstall" / "bin", NOW)


@contextmanager
def older_server(home: Path) -> Iterator[str]:
    """The URL of a server on new data of the older version."""
    if OLD_PROGRAMS:
        cluster = old_cluster(home, OLD_PROGRAMS)
        try:
            yield cluster.url
        finally:
            cluster.stop(timeout_seconds=30)
        return
    with start_embedded(home) as server:
        yield server.url


def former_data(home: Path) -> Path | None:
    """The former data, if the new ones are in their place."""
    return former[0] if (former := former_data_of(home)) and (home / "data").exists() else None


def folders_in(home: Path) -> list[str]:
    """The names of the folders in a home."""
    return [path.name for path in home.iterdir() if path.is_dir()]


@pytest.fixture
def home() -> Iterator[Path]:
    """A home whose server is stopped and gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="retrieval-upgrade-"))
    place.chmod(0o755)
    yield place / "home"
    for each in (place / "home", place / "home" / "restoring"):
        if (each / "data").exists():
            HomeServer.at(each).stop(timeout_seconds=30)
    shutil.rmtree(place, ignore_errors=True)


async def test_an_upgrade_that_is_killed_loses_nothing(home: Path) -> None:
    """After kills at random points, the next attempt completes the upgrade; the deep examination finds no error."""
    sys.stderr.write(f"RETRIEVAL_TEST_SEED={SEED}\n")
    chance = random.Random(SEED)
    settings = Settings(database_schema=SCHEMA, embedder="none")
    with older_server(home) as url:
        upgrade(url, SCHEMA)
        with opened(url) as connection:
            connection.execute("CREATE ROLE ann LOGIN PASSWORD 'secret'")
            connection.execute(f"GRANT {SCHEMA}_analyst TO ann")
            password = connection.execute(HASH_OF_ANN).fetchone()
        async with connect(url, settings=settings, embedder=HashingEmbedder(64)) as platform:
            docs = await platform.collection("docs")
            await docs.add([{"_id": f"d-{number}", "text": f"thing {number} was added"} for number in range(300)])
    for _ in range(KILLS):
        child = forking().Process(target=upgrade_from_older, args=(str(home),))
        child.start()
        child.join(chance.uniform(0, LONGEST_SECONDS))
        child.kill()
        child.join()
        if former_data(home):
            break
    if not former_data(home):
        child = forking().Process(target=upgrade_from_older, args=(str(home),))
        child.start()
        child.join()
        assert child.exitcode == 0
    with start_embedded(home) as server:
        async with connect(server.url, settings=settings, embedder=HashingEmbedder(64)) as platform:
            docs = await platform.collection("docs")
            assert (await docs.info()).items == 300
            assert len(await docs.get([f"d-{number}" for number in range(300)])) == 300
            # PostgreSQL 16 and 18 stem this word differently.
            assert len(await docs.search("added", legs=["lexical"], limit=300)) == 300
            diagnosis = await platform.doctor("docs", deep=True)
            assert [finding.found for finding in diagnosis.findings if finding.severity is Severity.ERROR] == []
        with opened(server.url) as connection:
            assert connection.execute(HASH_OF_ANN).fetchone() == password
    former = former_data(home)
    assert former is not None
    assert (former / "PG_VERSION").exists()
    # An attempt that was killed at its very end leaves its backup, and the folder of the server that it filled.
    assert set(folders_in(home)) - {"run", "restoring", ".upgrade.unfinished"} == {"data", former.name}
