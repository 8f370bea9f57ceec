"""The operating system user that the embedded PostgreSQL runs as.

PostgreSQL refuses to run as root. Everybody else runs it as themselves; root runs it as ``postgres``, or as
``nobody`` where there is no such user.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from retrieval.domain.errors import EmbeddedServerError

if sys.platform != "win32":
    import pwd


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the operating system; ``switch`` says whether programs must be started as somebody else."""

    name: str
    uid: int
    gid: int
    switch: bool

    def own(self, path: Path) -> None:
        """Make the account the owner of ``path``, which this process has just made."""
        if self.switch:
            os.chown(path, self.uid, self.gid)


def server_account(data: Path) -> Account:
    """Return the account to run the server of directory ``data`` as, whether or not that exists yet.

    Raises EmbeddedServerError if the directory belongs to somebody as whom this process cannot run a server.
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
    # An existing cluster decides: the user postgres may have been added to the system after it was made.
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
