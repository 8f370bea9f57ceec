"""The embedded PostgreSQL's folder, socket and system user.

PostgreSQL refuses to run as root. A user other than root runs it as themselves; root runs it as ``postgres``, or as
``nobody`` if there is no such user.

The directory of the socket is the only access control, because connections on the socket are trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from retrieval.domain.errors import DatabaseUnreachableError, EmbeddedServerError

if sys.platform != "win32":
    import pwd


def default_home() -> Path:
    """Return the home of this user's embedded server: in the user's data directory, root's in /var/lib."""
    if sys.platform != "win32" and os.geteuid() == 0:
        return Path("/var/lib/retrieval")
    import platformdirs

    return Path(platformdirs.user_data_dir("retrieval", appauthor=False))


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the operating system; ``switch``: whether it is another user than this process's."""

    name: str
    uid: int
    gid: int
    switch: bool

    def own(self, path: Path) -> None:
        """Make the account the owner of ``path``, which this process has just made."""
        if self.switch:
            os.chown(path, self.uid, self.gid)


def server_account(data: Path) -> Account:
    """Return the account that runs the server of directory ``data``, which need not exist yet.

    Raises EmbeddedServerError if the directory belongs to a user that this process cannot run a server as.
    """
    owner = data.stat() if data.exists() else None
    own_uid = os.geteuid()
    if own_uid != 0:
        if owner is not None and owner.st_uid != own_uid:
            raise EmbeddedServerError(
                f"{data} belongs to the user {_name(owner.st_uid)}: run as that user, "
                "or set RETRIEVAL_HOME to a directory of your own."
            )
        return Account(_name(own_uid), own_uid, os.getegid(), switch=False)
    if owner is None:
        return _account_for_root()
    if owner.st_uid == 0:
        raise EmbeddedServerError(
            f"{data} belongs to root, and PostgreSQL refuses to run as root: give it to the user postgres "
            "(chown -R), or set RETRIEVAL_HOME to another directory."
        )
    # An existing data directory decides: the user postgres may have been added to the system after it was made.
    return Account(_name(owner.st_uid), owner.st_uid, owner.st_gid, switch=True)


def _account_for_root() -> Account:
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid, switch=True)
    raise EmbeddedServerError(
        "PostgreSQL refuses to run as root and there is no user postgres or nobody: add one "
        "(useradd --system postgres), run as another user, or set RETRIEVAL_DATABASE_URL to a server "
        "of your own."
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        # Containers run as numbers without a name.
        return str(uid)


PORT = 5432
SUPERUSER = "postgres"
DATABASE = "retrieval"

# The shortest request that a server answers before any login: whether it supports TLS.
_ASK_FOR_TLS = (8).to_bytes(4) + (80877103).to_bytes(4)
# The kernel allows 108 bytes (104 on macOS) for a socket's path, including a final zero byte.
_LONGEST_SOCKET_PATH = 103
# A comma separates hosts in a connection string; other excluded characters would need quotes in pg_ctl's shell.
_PLAIN_PATH = re.compile(r"[\w/.@+=~-]+", re.ASCII)


def socket_directory(home: Path, temporary: Path = Path("/tmp")) -> Path:  # noqa: S108
    """Return the directory of the socket of ``home``, an absolute path; the same in every process.

    It is ``run`` in the home or, if that path is too long or has unusual characters, a directory in ``temporary``
    named by a hash of the home. ``temporary`` is not TMPDIR, which can differ between processes.
    """
    inside = home / "run"
    length = len(os.fsencode(inside / f".s.PGSQL.{PORT}"))
    if length <= _LONGEST_SOCKET_PATH and _PLAIN_PATH.fullmatch(str(inside)):
        return inside
    return temporary / f"retrieval-{hashlib.sha256(os.fsencode(home)).hexdigest()[:16]}"


def make_socket_directory(directory: Path, account: Account) -> None:
    """Make a directory that only ``account`` can enter, or check an existing one.

    Raises EmbeddedServerError if the existing one is different.
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
    """Whether the server on the socket in ``directory`` answers within ``seconds``, or no server listens there.

    A suspended or hanging server accepts a connection but sends nothing. Other threads run while this waits.
    """
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(seconds)
        try:
            client.connect(str(directory / f".s.PGSQL.{PORT}"))
            client.sendall(_ASK_FOR_TLS)
            client.recv(1)
        except TimeoutError:
            return False
        except OSError:
            return True
    return True


def is_running(home: Path) -> bool:
    """Whether a server takes connections on the socket of ``home``."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(socket_directory(home.expanduser().resolve()) / f".s.PGSQL.{PORT}"))
        except OSError:
            return False
    return True


def check_is_made(home: Path) -> None:
    """Raise ``DatabaseUnreachableError`` without a data directory, for callers that cannot wait for a new one."""
    if not (home.expanduser() / "data").exists():
        raise DatabaseUnreachableError("there is no database yet; make the embedded one with: retrieval db upgrade")


def socket_url(directory: Path) -> str:
    """Return the URL of the platform's database on the socket in ``directory``, as superuser."""
    # Without the empty address, the variable PGHOSTADDR would lead to another server.
    return f"postgresql://{SUPERUSER}@/{DATABASE}?host={quote(str(directory))}&hostaddr=&port={PORT}"
