"""Where the embedded PostgreSQL listens: one socket, in a directory that only its user (and root) can enter.

The directory is the whole access control, for connections on it are trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import stat
import sys
from pathlib import Path
from urllib.parse import quote

from retrieval.adapters.store.embedded_account import Account
from retrieval.domain.errors import EmbeddedServerError

PORT = 5432
SUPERUSER = "postgres"
DATABASE = "retrieval"

# The shortest thing that a server answers: whether it speaks TLS, asked before any login.
_ASK_FOR_TLS = (8).to_bytes(4) + (80877103).to_bytes(4)
# Of the 108 bytes (104 on macOS) that the kernel gives a socket's path, the last is a zero byte.
_LONGEST_SOCKET_PATH = 103
# A comma separates hosts in a connection string; the others would have to be quoted for the shell of pg_ctl.
_PLAIN_PATH = re.compile(r"[\w/.@+=~-]+", re.ASCII)


def socket_directory(home: Path, temporary: Path = Path("/tmp")) -> Path:  # noqa: S108
    """Return the directory of the socket of ``home``, an absolute path; the same in every process.

    It is ``run`` in the home, or where that path is too long or too odd for a socket, a directory in
    ``temporary`` named by a hash of the home. The environment's own choice of a temporary directory would
    differ between processes.
    """
    inside = home / "run"
    length = len(os.fsencode(inside / f".s.PGSQL.{PORT}"))
    if length <= _LONGEST_SOCKET_PATH and _PLAIN_PATH.fullmatch(str(inside)):
        return inside
    return temporary / f"retrieval-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"


def make_socket_directory(directory: Path, account: Account) -> None:
    """Make the directory, for ``account`` alone, or check that it is that already.

    Raises EmbeddedServerError if something else, or somebody else's directory, is there.
    """
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    if directory.lstat().st_uid == os.geteuid() and not directory.is_symlink():
        account.own(directory)
    status = directory.lstat()
    private = stat.S_ISDIR(status.st_mode) and status.st_mode & 0o077 == 0
    if not private or status.st_uid != account.uid:
        raise EmbeddedServerError(
            f"{directory} must be a directory that only the user {account.name} can enter: remove it, "
            "or set RETRIEVAL_HOME to another directory."
        )


def may_answer(directory: Path, seconds: float) -> bool:
    """Whether the server on the socket in ``directory`` says anything within so many seconds, or none listens there.

    False is a server that was stopped or hangs: it takes a connection, and then nothing comes. Other threads run on.
    """
    if sys.platform == "win32":
        return True
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(seconds)
        try:
            asking.connect(str(directory / f".s.PGSQL.{PORT}"))
            asking.sendall(_ASK_FOR_TLS)
            asking.recv(1)
        except TimeoutError:
            return False
        except OSError:
            return True
    return True


def socket_url(directory: Path) -> str:
    """Return the URL of the platform's database on the socket in ``directory``, as superuser."""
    return f"postgresql://{SUPERUSER}@/{DATABASE}?host={quote(str(directory))}&port={PORT}"
