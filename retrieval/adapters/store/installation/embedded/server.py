"""The embedded PostgreSQL: the platform's own server if none is configured, shared by the user's processes.

Every user of the server holds a lease: a shared lock on ``lease.lock`` in the home directory. The server starts and
stops under the exclusive lock of ``guard.lock``. A user that closes its lease and can lock the file exclusively is the
last, and stops the server. The kernel releases the lease of a process that dies; if it was the last, the server runs
on until another process has used it.

A forked child does not inherit its parent's lease: its ``close`` and its exit do nothing. A child that outlives its
parent takes a lease with ``start_embedded``.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import platform
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from retrieval.adapters.files import FileLock
from retrieval.adapters.store.installation.embedded.home_server import HomeServer
from retrieval.domain.errors import ConfigurationError, EmbeddedServerError, RetrievalError

_log = logging.getLogger(__name__)

_STOP_SECONDS = 60.0


class EmbeddedServer:
    """A lease on a running server. ``url`` is its database ``retrieval``, for the superuser ``postgres``.

    Close it when done, or use it in a ``with`` statement; an open lease is closed at exit. Threads may share it, and
    one process may hold several.
    """

    def __init__(self, server: HomeServer, lease: FileLock) -> None:
        self.url = server.url
        self._server = server
        self._lease: FileLock | None = lease
        self._closing = threading.Lock()
        self._owner = os.getpid()
        atexit.register(self._close_at_exit)

    def close(self) -> None:
        """Give the lease back; closing the last one stops the server and ends its connections.

        Closing twice, or in a forked child, does nothing. Raises EmbeddedServerError if it does not stop.
        """
        if os.getpid() != self._owner:
            return
        with self._closing:
            lease, self._lease = self._lease, None
        if lease is None:
            return
        atexit.unregister(self._close_at_exit)
        try:
            with guarded(self._server.home, time.monotonic() + _STOP_SECONDS):
                if lease.hold():
                    self._server.stop(_STOP_SECONDS)
        except OSError as error:
            raise EmbeddedServerError(
                f"The PostgreSQL in {self._server.home} was left, but perhaps not stopped ({error}): "
                "the next process that uses it stops it when it leaves."
            ) from error
        finally:
            lease.release()

    def _close_at_exit(self) -> None:
        try:
            self.close()
        except RetrievalError as error:
            _log.warning("%s", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def start_embedded(
    home: Path, *, timeout_seconds: float = 120.0, given_up: threading.Event | None = None
) -> EmbeddedServer:
    """Return a lease on the server of ``home``, after making or starting the server if necessary.

    Blocks for a moment if the server runs, seconds if it must be made, up to ``timeout_seconds`` if it recovers
    from a crash: call it in a thread. Once ``given_up`` is set, it waits no longer for others that start or stop the
    server. Raises ConfigurationError on systems without an embedded server, EmbeddedServerError if it did not start.
    """
    if sys.platform == "win32":
        raise ConfigurationError(
            "The embedded PostgreSQL runs on Linux and macOS: on Windows set RETRIEVAL_DATABASE_URL to your own server."
        )
    deadline = time.monotonic() + timeout_seconds
    home = home.expanduser().resolve()
    with guarded_home(home, deadline, given_up):
        return _lease(home, deadline)


def _lease(home: Path, deadline: float) -> EmbeddedServer:
    lease = FileLock(home / "lease.lock")
    try:
        _require_same_machine(home, lease)
        lease.share()
        server = HomeServer.at(home)
        server.create()
        server.serve(deadline)
        return EmbeddedServer(server, lease)
    except BaseException:
        lease.release()
        raise


def _require_same_machine(home: Path, lease: FileLock) -> None:
    """Refuse a home that is in use on another machine, whose server and processes are invisible here.

    On a shared file system two servers would otherwise destroy the data. The locks work across machines.
    """
    note = home / "machine"
    here = _machine_identity()
    there, _, name = note.read_text().partition(" ") if note.exists() else ("", "", "")
    if there == here:
        return
    if there and not lease.hold():
        raise EmbeddedServerError(
            f"{home} is in use on another machine, {name}: set RETRIEVAL_HOME to a directory of this one, "
            "or RETRIEVAL_DATABASE_URL to a server that both can reach."
        )
    note.write_text(f"{here} {platform.node()}")


def _machine_identity() -> str:
    """Return an identifier that the containers of one machine share, and no two machines."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{uuid.getnode():x}"


def _make_home(home: Path) -> None:
    """Create the missing folders of the path, for this user alone, and for the server's user if root runs it."""
    missing = [path for path in (home, *home.parents) if not path.exists()]
    for path in reversed(missing):
        # If another process has just made it, that process sets its permissions.
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            path.chmod(0o755 if os.geteuid() == 0 else 0o700)


@contextlib.contextmanager
def guarded_home(home: Path, deadline: float, given_up: threading.Event | None = None) -> Iterator[None]:
    """Create ``home``, an absolute path, if it is missing, and exclude other users of its data until the end.

    Raises EmbeddedServerError at the deadline, once given up, and if the home cannot be used.
    """
    try:
        _make_home(home)
        with guarded(home, deadline, given_up):
            yield
    except OSError as error:
        raise EmbeddedServerError(
            f"The embedded PostgreSQL cannot use {home} ({error}): mend that, or set RETRIEVAL_HOME to a "
            "directory that you can write to."
        ) from error


@contextlib.contextmanager
def guarded(home: Path, deadline: float, given_up: threading.Event | None = None) -> Iterator[None]:
    """Exclude other starts and stops of the server of ``home``.

    Raises EmbeddedServerError at the deadline, and once given up.
    """
    guard = FileLock(home / "guard.lock")
    try:
        if not guard.hold_before(deadline, given_up):
            raise EmbeddedServerError(
                f"Another process has been starting, stopping or restoring the PostgreSQL in {home} for too long: "
                f"try again, or see {home / 'server.log'}."
            )
        yield
    finally:
        guard.release()
