"""Paths are checked, locks count their holders rightly, and what gets its name once complete replaces nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from retrieval.adapters.files import FileLock, checked_path, name_file, unfinished
from retrieval.domain.errors import ConflictError, InvalidRequestError
from tests.support.forked_program import forking


@pytest.mark.parametrize("path", ["", 5, None, b"bytes", ["a"], "a\0b", "\ud800", "x" * 256, "é" * 128, "dir/" * 1100])
def test_a_path_that_no_file_can_have_is_refused(path: object) -> None:
    """In one line, before a file is looked for."""
    with pytest.raises(InvalidRequestError) as raised:
        checked_path(path)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("path", [".", "-", "x" * 255, "\udcff", Path("dir/" * 1000)])
def test_a_path_that_a_file_can_have_is_kept(path: str | Path) -> None:
    """As text; a file's name need not be UTF-8."""
    assert checked_path(path) == str(path)


def test_sharers_keep_out_who_wants_it_alone(tmp_path: Path) -> None:
    """Two locks of one process exclude each other just like two processes', until the last sharer leaves."""
    first, second, third = (FileLock(tmp_path / "lock") for _ in range(3))

    assert first.share()
    assert second.share()
    assert not third.hold()
    first.release()
    assert not third.hold()
    second.release()
    assert third.hold()
    third.release()


def test_an_exclusive_lock_excludes_shared_ones(tmp_path: Path) -> None:
    """An exclusive lock is exclusive."""
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")

    assert first.hold()
    assert not second.share()
    first.release()
    second.release()


def test_waiting_ends_at_the_deadline(tmp_path: Path) -> None:
    """A process that hangs does not block the others forever."""
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    first.hold()

    assert not second.hold_before(time.monotonic() + 0.05)
    first.release()
    assert second.hold_before(time.monotonic())
    second.release()


def test_releasing_twice_leaves_a_successor_alone(tmp_path: Path) -> None:
    """The second release must not close a descriptor whose number another file has got."""
    first = FileLock(tmp_path / "lock")
    first.hold()
    first.release()
    second = FileLock(tmp_path / "lock")
    second.hold()

    first.release()

    assert not FileLock(tmp_path / "lock").share()
    second.release()


def test_a_forked_child_neither_keeps_nor_breaks_its_parents_lock(tmp_path: Path) -> None:
    """While the child lives the parent still holds the lock, and can give it back for good."""
    lock, other = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    lock.hold()
    wait_read, wait_write = os.pipe()
    released_read, released_write = os.pipe()
    child = os.fork()
    if child == 0:
        lock.release()
        os.write(released_write, b".")
        os.close(wait_write)
        os.read(wait_read, 1)
        os._exit(0)

    os.read(released_read, 1)
    assert not other.hold()
    lock.release()
    assert other.hold()

    other.release()
    os.close(wait_write)
    os.waitpid(child, 0)
    for descriptor in (wait_read, released_read, released_write):
        os.close(descriptor)


def _leave(path: str) -> None:
    """Begin to write, and end without a word, as a killed process does."""
    with unfinished(Path(path)) as place:
        (place / "half").write_text("half")
        (place / "folder").mkdir()
        os._exit(0)


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """By the next one that writes the same file."""
    path = tmp_path / "docs.jsonl"
    child = forking().Process(target=_leave, args=(str(path),))
    child.start()
    child.join()
    (left,) = tmp_path.iterdir()
    assert {found.name for found in left.iterdir()} >= {"half", "folder"}
    with unfinished(path) as place:
        assert place == left
        assert not {found.name for found in place.iterdir()} & {"half", "folder"}
    assert list(tmp_path.iterdir()) == []


def test_of_two_at_once_the_second_is_refused(tmp_path: Path) -> None:
    """The first goes on; another name is free."""
    with unfinished(tmp_path / "docs.jsonl") as place:
        (place / "half").write_text("half")
        with pytest.raises(ConflictError, match="another process is writing"), unfinished(tmp_path / "docs.jsonl"):
            pass
        with unfinished(tmp_path / "others.jsonl"):
            pass
        assert (place / "half").read_text() == "half"
    assert list(tmp_path.iterdir()) == []


def test_a_file_replaces_none(tmp_path: Path) -> None:
    """Not even one that has just got the name."""
    file, path = tmp_path / "new", tmp_path / "docs.jsonl"
    file.write_text("complete")
    name_file(file, path)
    assert (path.read_text(), file.exists()) == ("complete", False)
    file.write_text("another")
    with pytest.raises(FileExistsError):
        name_file(file, path)
    assert path.read_text() == "complete"
