"""A lock on a file between processes, which the kernel gives back when its holder dies, however it dies.

``flock`` belongs to the open file: each FileLock opens its own, so two of them exclude each other within
one process too. A forked child would share its parent's open files and keep their locks alive; it
therefore closes its copies at once, which leaves the parent's locks as they are and the child without any.
Programs that are started do not inherit them at all.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_POLL_SECONDS = 0.02
_open_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


class FileLock:
    """One open lock file, at first not locked. Raises OSError where the file cannot be opened or locked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _open_locks.add(self)

    def share(self) -> bool:
        """Take the lock together with others that share it; False, at once, if someone holds it alone."""
        return self._try(fcntl.LOCK_SH)

    def hold(self) -> bool:
        """Take the lock alone; False, at once, if anyone else has it. A lock held before is then lost."""
        return self._try(fcntl.LOCK_EX)

    def hold_before(self, deadline: float) -> bool:
        """Take the lock alone, waiting until ``deadline`` (``time.monotonic`` seconds); False if late."""
        while not self.hold():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def release(self) -> None:
        """Give the lock back and close the file. Does nothing the second time, and in a forked child."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        # A child forked an instant ago may still have a copy open, so closing alone might not unlock.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def abandon(self) -> None:
        """Close the file without unlocking, in a forked child: the lock is its parent's."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _try(self, operation: int) -> bool:
        try:
            fcntl.flock(self._descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _abandon_all() -> None:
    for lock in list(_open_locks):
        lock.abandon()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_abandon_all)
