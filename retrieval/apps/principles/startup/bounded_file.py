"""Files of a stranger's project, read in part and without waiting: whatever they are, nothing is raised."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 256 * 1024
"""Of a file, so much is read: manifests are smaller."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """The beginning of a file."""

    text: str
    is_whole: bool
    """Whether the file has no more."""


def read_part(path: Path, most_bytes: int = MOST_BYTES) -> FilePart | None:
    """The file's first bytes as text; None for what is not there, no ordinary file, or not ours to read."""
    try:
        # A pipe of that name would wait for somebody to write.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        read = _read(descriptor, most_bytes + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    text = read[:most_bytes].decode("utf-8", errors="replace").removeprefix("\ufeff")
    return FilePart(text, is_whole=len(read) <= most_bytes)


def _read(descriptor: int, most_bytes: int) -> bytes:
    parts = bytearray()
    while len(parts) < most_bytes and (more := os.read(descriptor, most_bytes - len(parts))):
        parts += more
    return bytes(parts)
