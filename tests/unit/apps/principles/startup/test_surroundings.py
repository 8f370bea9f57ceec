"""A session's folder and a hook's words on standard input are read, and not waited for too long."""

from __future__ import annotations

import os
import pty
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval.apps.principles.startup.surroundings import (
    WAIT_SECONDS,
    HookInput,
    Surroundings,
    look_around,
    parse_hook_input,
    read_hook_input,
    session_name,
)
from retrieval.domain.errors import InvalidRequestError

SAID = b'{"session_id": "s-1", "cwd": "/shop", "hook_event_name": "SessionStart", "source": "startup"}'


DEADLINE = time.monotonic() + 3600


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe: to read, to write."""
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def test_the_object_is_read_though_the_pipe_stays_open(pipe: tuple[int, int]) -> None:
    """The writer may never close the pipe; the end of the object is enough."""
    os.write(pipe[1], SAID + b"\n")
    assert read_hook_input(DEADLINE, pipe[0]) == HookInput(session="s-1", folder="/shop")


def test_input_that_does_not_come_is_not_waited_for(pipe: tuple[int, int]) -> None:
    """The pipe of a parent that has nothing to say."""
    begin = time.monotonic()
    assert read_hook_input(begin + 0.5, pipe[0]) == HookInput()
    assert time.monotonic() - begin < 0.5


@pytest.mark.parametrize(
    "parts", [[SAID], [SAID[:30], SAID[30:]], [b" ", *(SAID[at : at + 9] for at in range(0, 99, 9))]]
)
def test_an_object_that_comes_late_or_in_parts_is_understood(pipe: tuple[int, int], parts: list[bytes]) -> None:
    """Some agents start the hook first, and write then."""

    def write() -> None:
        for part in parts:
            time.sleep(0.1)
            os.write(pipe[1], part)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_hook_input(DEADLINE, pipe[0]) == HookInput(session="s-1", folder="/shop")
    writer.join()


def test_an_object_of_a_hundred_kilobytes_is_understood(pipe: tuple[int, int]) -> None:
    """A pipe holds 64 of them at once."""
    text = SAID[:-1] + b', "prompt": "' + b"}" * 100_000 + b'"}'
    writer = threading.Thread(target=os.write, args=(pipe[1], text))
    writer.start()
    assert read_hook_input(DEADLINE, pipe[0]).session == "s-1"
    writer.join()


def test_an_object_without_a_session_is_an_end_too(pipe: tuple[int, int]) -> None:
    """Nothing more is waited for."""
    os.write(pipe[1], b'{"source": "startup"}')
    begin = time.monotonic()
    assert read_hook_input(DEADLINE, pipe[0]) == HookInput()
    assert time.monotonic() - begin < WAIT_SECONDS / 2


def test_the_end_of_input_is_an_end(pipe: tuple[int, int]) -> None:
    """This includes the end of a file, and of /dev/null."""
    os.close(pipe[1])
    assert read_hook_input(DEADLINE, pipe[0]) == HookInput()


def test_a_terminal_is_not_read() -> None:
    """A person types there, later."""
    controller, terminal = pty.openpty()
    try:
        os.write(controller, SAID + b"\n")
        assert read_hook_input(DEADLINE, terminal) == HookInput()
    finally:
        os.close(controller)
        os.close(terminal)


def test_a_closed_descriptor_says_nothing(pipe: tuple[int, int]) -> None:
    """Some agents start their hooks without standard input."""
    os.close(pipe[0])
    assert read_hook_input(DEADLINE, pipe[0]) == HookInput()


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"null", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"session_id": 3, "cwd": null}',
     b'{"session_id": "a\\u0000b"}', b'{"session_id": "' + b"s" * 201 + b'"}'],
)  # fmt: skip
def test_unusable_state_is_ignored(text: bytes) -> None:
    """Broken, of another shape, or no name that a session can have."""
    assert parse_hook_input(text) == HookInput()


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    """PostgreSQL could not keep it."""
    assert parse_hook_input(b'{"session_id": "a\\ud800"}') == HookInput(session="a?")


def test_a_session_is_named_on_one_line() -> None:
    """As it is told, so that it is found again."""
    assert parse_hook_input(b'{"session_id": "a\\nb"}').session == "a b"


def test_the_manifests_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a relative name and through a link; without a word."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "go.mod").write_text("")
    (tmp_path / "link").symlink_to("there")
    monkeypatch.chdir(tmp_path)
    for name in ("there", "link", tmp_path / "there"):
        assert look_around(Path(name), DEADLINE, pytest.fail).project_tags == ("go",)


@pytest.mark.parametrize("name", ["gone", "n" * 5000, "loop"])
def test_without_a_folder_nothing_is_known(tmp_path: Path, name: str) -> None:
    """One that is gone, that none can be called, that leads to itself: a hint says so."""
    (tmp_path / "loop").symlink_to("loop")
    hints: list[str] = []
    assert look_around(tmp_path / name, DEADLINE, hints.append) == Surroundings()
    assert [hint.endswith("is not a folder; continuing without it") or len(name) > 200 for hint in hints] == [True]


def test_a_removed_current_folder_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell may still be in it."""
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    hints: list[str] = []
    assert look_around(Path(), DEADLINE, hints.append) == Surroundings()
    assert len(hints) == 1


def test_a_session_is_recorded_on_one_line() -> None:
    """On one line."""
    assert session_name("a\n\tb ") == session_name("a b") == "a b"


@pytest.mark.parametrize("text", ["", " \n", "s" * 201, "a\udcff", "a\x00b"])
def test_a_session_that_cannot_be_recorded_is_reported(text: str) -> None:
    """In one line that says what would do."""
    with pytest.raises(InvalidRequestError, match="--session must be a text"):
        session_name(text)
