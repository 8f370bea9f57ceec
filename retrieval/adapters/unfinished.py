"""Files and folders that get their name once they are complete, and replace none."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from retrieval.adapters.store.installation.embedded.place import FileLock
from retrieval.domain.errors import ConflictError

_LOCK = "lock"


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A private, empty folder beside ``path``, for what gets that name once it is complete; it is removed at the end.

    A killed process leaves its folder, which the next one for the same name empties. Raises ``ConflictError`` while
    another process uses it, and OSError.
    """
    place = path.with_name(f".{path.name}.unfinished")
    place.mkdir(mode=0o700, exist_ok=True)
    with _only_one(place / _LOCK, path):
        for leftover in place.iterdir():
            if leftover.is_dir():
                shutil.rmtree(leftover)
            elif leftover.name != _LOCK:
                leftover.unlink()
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)


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
