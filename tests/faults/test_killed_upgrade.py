"""An upgrade of the embedded server that is killed, again and again, at random points.

Each try may be cut off wherever it is; the next one goes on, and in the end everything is there once, in the new data.
``RETRIEVAL_TEST_SEED`` repeats a run's choices.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from retrieval import Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.installation import backup
from retrieval.adapters.store.installation.backup import upgrade_server
from retrieval.adapters.store.installation.embedded.binaries import Binaries, find_package
from retrieval.adapters.store.installation.embedded.cluster import Cluster
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.adapters.store.installation.schema import upgrade
from retrieval.domain.diagnosis import Severity
from tests.faults.test_faults import SEED
from tests.support.database import SCHEMA
from tests.support.forked_program import forking

NOW = datetime(2026, 11, 26, tzinfo=UTC)
KILLS = 4
LONGEST_SECONDS = 4.0
"""The latest that a try is killed; a whole one takes some seconds."""


def upgrade_as_from_17(home: str) -> None:
    """Upgrade with the installed programs in the place of the former ones, which are not at hand."""
    own, changes = Binaries.major, pytest.MonkeyPatch()
    changes.setattr(backup, "major_version_of", lambda _: 17)
    changes.setattr(Binaries, "major", lambda found: 17 if found.account.name else own(found))
    upgrade_server(Path(home), find_package() / "pginstall" / "bin", NOW)


def is_upgraded(home: Path) -> bool:
    """Whether the new data are in the place of the former ones."""
    return (home / "data-17").exists() and (home / "data").exists()


@pytest.fixture
def home() -> Iterator[Path]:
    """A home whose server is stopped and gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="retrieval-upgrade-"))
    place.chmod(0o755)
    yield place / "home"
    for each in (place / "home", place / "home" / "restoring"):
        if (each / "data").exists():
            Cluster.at(each).stop(timeout_seconds=30)
    shutil.rmtree(place, ignore_errors=True)


async def test_an_upgrade_that_is_killed_loses_nothing(home: Path) -> None:
    """After kills at random points, the next attempt completes the upgrade; the deep examination finds no error."""
    sys.stderr.write(f"RETRIEVAL_TEST_SEED={SEED}\n")
    chance = random.Random(SEED)
    settings = Settings(database_schema=SCHEMA, embedder="none")
    with start_embedded(home) as server:
        upgrade(server.url, SCHEMA)
        async with connect(server.url, settings=settings, embedder=HashingEmbedder(64)) as platform:
            docs = await platform.collection("docs")
            await docs.add([{"_id": f"d-{number}", "text": f"thing {number}"} for number in range(300)])
    for _ in range(KILLS):
        child = forking().Process(target=upgrade_as_from_17, args=(str(home),))
        child.start()
        child.join(chance.uniform(0, LONGEST_SECONDS))
        child.kill()
        child.join()
        if is_upgraded(home):
            break
    if not is_upgraded(home):
        child = forking().Process(target=upgrade_as_from_17, args=(str(home),))
        child.start()
        child.join()
        assert child.exitcode == 0
    with start_embedded(home) as server:
        async with connect(server.url, settings=settings, embedder=HashingEmbedder(64)) as platform:
            docs = await platform.collection("docs")
            assert (await docs.info()).items == 300
            assert len(await docs.get([f"d-{number}" for number in range(300)])) == 300
            diagnosis = await platform.doctor("docs", deep=True)
            assert [finding.found for finding in diagnosis.findings if finding.severity is Severity.ERROR] == []
    assert (home / "data-17" / "PG_VERSION").exists()
