"""The embedded PostgreSQL for a program that must be done at once: joined where it runs, started only where it must be.

What starting needs is loaded for that alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from retrieval.adapters.store.installation.embedded.place import PORT, FileLock, socket_directory, socket_url
from retrieval.domain.errors import DatabaseUnreachableError

_LEAVE_SECONDS = 1.0


@dataclass(slots=True)
class JoinedServer:
    """A lease on a server that runs. ``url`` is its database, for its superuser; close it when done."""

    url: str
    _home: Path
    _lease: FileLock = field(repr=False)

    def close(self) -> None:
        """Give the lease back; who was the last stops the server, as whoever else leaves it does."""
        guard = FileLock(self._home / "guard.lock")
        try:
            is_guarded = guard.hold_before(time.monotonic() + _LEAVE_SECONDS)
            was_last = is_guarded and self._lease.hold()
        finally:
            self._lease.release()
            guard.release()
        if was_last:
            from retrieval.adapters.store.installation.embedded.server import start_embedded

            start_embedded(self._home).close()


def joined_server(home: Path) -> JoinedServer | None:
    """The server of ``home``, if its socket is there and nobody is stopping it; it may still turn out to be gone.

    Raises OSError where the home cannot be used.
    """
    home = home.expanduser().resolve()
    directory = socket_directory(home)
    if not (home / "lease.lock").exists() or not (directory / f".s.PGSQL.{PORT}").exists():
        return None
    lease = FileLock(home / "lease.lock")
    if lease.share():
        return JoinedServer(socket_url(directory), home, lease)
    lease.release()
    return None


def check_is_made(home: Path) -> None:
    """Raise ``DatabaseUnreachableError`` where there is no cluster yet: making one takes longer than a blink."""
    if not (home.expanduser() / "data").exists():
        raise DatabaseUnreachableError("there is no database yet; make the embedded one with: retrieval db upgrade")
