"""Locks on files count their holders rightly, whatever becomes of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from retrieval.adapters.store.installation.embedded.place import FileLock


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
