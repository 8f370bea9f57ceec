"""Files: the names that they can have, locks on them, and how a file or folder gets its name once it is complete."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from retrieval.domain.checks import shortened, written
from retrieval.domain.errors import ConflictError, InvalidRequestError

if sys.platform != "win32":
    import fcntl

_MOST_PATH_BYTES, _MOST_NAME_BYTES = 4095, 255
_POLL_SECONDS = 0.02
_LOCK = "lock"


def checked_path(value: object) -> str:
    """The path as text. Raises ``InvalidRequestError`` for anything else, and for a path that no file can have."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path:
        raise InvalidRequestError(f"{written(value)} is not a path; name a file or a folder, such as '.' for this one")
    try:
        data = os.fsencode(path)
    except UnicodeEncodeError:
        data = b"\0"
    if b"\0" in data:
        raise InvalidRequestError(
            f"{shortened(path)!r} is no path: it holds a NUL or half of a surrogate pair; remove it"
        )
    if len(data) > _MOST_PATH_BYTES or max(map(len, data.split(b"/"))) > _MOST_NAME_BYTES:
        raise InvalidRequestError(
            f"{shortened(path)!r} is too long for a path: it may have {_MOST_PATH_BYTES} bytes, and each name in it "
            f"{_MOST_NAME_BYTES}"
        )
    return path


class FileLock:
    """One open lock file, initially not locked. Raises OSError if the file cannot be opened or locked.

    Each lock opens its own file, so that two locks exclude each other within one process too. A forked child closes its
    copies of the files at once: otherwise it would keep its parent's locks.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _open_locks.add(self)

    def share(self) -> bool:
        """Take the lock shared, without waiting; False if another holder has it exclusively."""
        return self._try(fcntl.LOCK_SH)

    def hold(self) -> bool:
        """Take the lock exclusively, without waiting; False if another holder has it: then a shared lock is lost."""
        return self._try(fcntl.LOCK_EX)

    def hold_before(self, deadline: float, given_up: threading.Event | None = None) -> bool:
        """Take the lock exclusively, waiting until ``deadline`` (``time.monotonic`` seconds); False after that.

        ``given_up`` ends the wait sooner once it is set.
        """
        while not self.hold():
            if time.monotonic() >= deadline or (given_up is not None and given_up.is_set()):
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def release(self) -> None:
        """Release the lock and close the file. Does nothing the second time, and in a forked child."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        # A child forked a moment ago may still have a copy open, so closing alone might not unlock.
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


_open_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _abandon_all() -> None:
    for lock in list(_open_locks):
        lock.abandon()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_abandon_all)


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A private, empty folder beside ``path`` for the parts of a file or folder of that name; it is removed at the end.

    A killed process leaves its folder, which the next one for the same name empties. Raises ``ConflictError`` while
    another process uses it, and OSError.
    """
    folder = path.with_name(f".{path.name}.unfinished")
    folder.mkdir(mode=0o700, exist_ok=True)
    with _only_one(folder / _LOCK, path):
        for leftover in folder.iterdir():
            if leftover.is_dir():
                shutil.rmtree(leftover)
            elif leftover.name != _LOCK:
                leftover.unlink()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def name_file(file: Path, path: Path) -> None:
    """Give a complete file its name. Raises FileExistsError if something has that name."""
    # Of two processes, one creates it. A link would need a file system that has links.
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    file.replace(path)


@contextmanager
def _only_one(file: Path, path: Path) -> Iterator[None]:
    """Hold the lock file, on systems and file systems that have locks. Raises ``ConflictError`` if it is held."""
    if sys.platform == "win32":
        yield
        return
    lock = FileLock(file)
    try:
        with suppress(OSError):
            if not lock.hold():
                raise ConflictError(f"another process is writing {path}; name another, or wait until it has ended")
        yield
    finally:
        lock.release()
