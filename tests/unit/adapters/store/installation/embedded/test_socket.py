"""The embedded server's socket is where every process of the user finds it, and other users cannot reach it."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from retrieval.adapters.store.installation.embedded import home_server
from retrieval.adapters.store.installation.embedded.binaries import Binaries
from retrieval.adapters.store.installation.embedded.home import (
    PORT,
    Account,
    make_socket_directory,
    may_answer,
    socket_directory,
    socket_url,
)
from retrieval.adapters.store.installation.embedded.home_server import HomeServer
from retrieval.domain.errors import EmbeddedServerError

ME = Account("me", os.geteuid(), os.getegid(), switch=False)


def test_the_socket_of_a_plain_home_lies_in_it() -> None:
    """The socket is inside the home."""
    assert Path("/home/ada/.local/share/retrieval/run") == socket_directory(Path("/home/ada/.local/share/retrieval"))


@pytest.mark.parametrize(
    "home", ["/" + "x" * 90, "/Users/ada/Library/Application Support/retrieval", "/a,b", '/a"$(b)', "/ä"]
)
def test_a_home_too_long_or_too_odd_for_a_socket_gets_a_short_directory(home: str) -> None:
    """The kernel, the client library and the shell limit a socket's path; the home itself may be anything."""
    directory = socket_directory(Path(home), temporary=Path("/t"))

    assert directory.parent == Path("/t")
    assert len(str(directory / ".s.PGSQL.5432")) < 50


def test_the_short_directory_depends_on_the_home_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes with different environments find the same socket, and different homes have different ones."""
    first = socket_directory(Path("/" + "x" * 90))
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/elsewhere")

    assert first == socket_directory(Path("/" + "x" * 90))
    assert first != socket_directory(Path("/" + "y" * 90))


def test_the_longest_path_inside_the_home_still_fits_a_socket() -> None:
    """At no length of the home does the address exceed what the strictest kernel takes."""
    for length in range(70, 100):
        directory = socket_directory(Path("/" + "x" * length))
        assert len(os.fsencode(directory / ".s.PGSQL.5432")) <= 103


def test_the_directory_is_made_for_its_user_alone(tmp_path: Path) -> None:
    """Connections are trusted, so other users may not reach the socket; creating it twice changes nothing."""
    directory = tmp_path / "run"

    make_socket_directory(directory, ME)
    make_socket_directory(directory, ME)

    assert directory.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    """Someone may have put it there; it is neither used nor changed."""
    directory = tmp_path / "run"
    directory.mkdir()
    directory.chmod(0o755)

    with pytest.raises(EmbeddedServerError, match="only the user me can enter"):
        make_socket_directory(directory, ME)
    assert directory.stat().st_mode & 0o777 == 0o755


def test_a_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """A link could lead anywhere."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "real")

    with pytest.raises(EmbeddedServerError, match="remove it"):
        make_socket_directory(tmp_path / "run", ME)


def test_the_url_says_everything_that_a_client_needs() -> None:
    """Host, port, user and database are all named, so variables like PGHOSTADDR cannot lead elsewhere."""
    parts = conninfo_to_dict(socket_url(Path("/srv/a+b/run")))

    here = {"host": "/srv/a+b/run", "hostaddr": "", "port": "5432"}
    assert parts == {"user": "postgres", "dbname": "retrieval", **here}


@pytest.fixture
def hanging_home() -> Iterator[Path]:
    """A home on whose socket something listens and never says a word."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        home = Path(folder).resolve()
        directory = socket_directory(home)
        directory.mkdir()
        listener.bind(str(directory / f".s.PGSQL.{PORT}"))
        listener.listen()
        yield home


def test_a_server_that_hangs_does_not_answer(hanging_home: Path) -> None:
    """An accepted connection without an answer is given up after the timeout."""
    assert not may_answer(socket_directory(hanging_home), 0.01)


def test_without_a_listener_the_driver_connects(tmp_path: Path) -> None:
    """The driver reports a missing server faster and better than this check."""
    assert may_answer(tmp_path, 60)


def test_a_server_that_hangs_is_not_reached_through_the_driver(
    hanging_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver would hold up every thread of the process while it waits."""
    monkeypatch.setattr(home_server, "_ANSWER_SECONDS", 0.01)
    monkeypatch.setattr(home_server, "PGconn", None)
    hanging = HomeServer(hanging_home, Binaries(Path("/bin"), ME))
    with pytest.raises(EmbeddedServerError, match="not ready in time"):
        hanging.serve(time.monotonic())
