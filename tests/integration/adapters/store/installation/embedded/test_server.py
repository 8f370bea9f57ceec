"""The embedded server starts, is shared, stops with the last of its users, and survives what befalls it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from retrieval import Settings
from retrieval.adapters.files import FileLock
from retrieval.adapters.store.installation.embedded import home_server
from retrieval.adapters.store.installation.embedded.binaries import measure_resources, settings_for
from retrieval.adapters.store.installation.embedded.home import (
    check_is_made,
    is_running,
    server_account,
    socket_directory,
)
from retrieval.adapters.store.installation.embedded.home_server import HomeServer
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.domain.diagnosis import Severity
from retrieval.domain.errors import DatabaseUnreachableError, EmbeddedServerError
from retrieval.services.doctor.diagnose import examine

SOME, MANY = 1_000, 100_000
"""Rows to recover after a crash: enough to observe the recovery."""

CLIENT = """
import sys
from pathlib import Path
from retrieval.adapters.store.installation.embedded.server import start_embedded

server = start_embedded(Path(sys.argv[1]))
print(server.url, flush=True)
sys.stdin.read()
"""

FORKING_CLIENT = """
import os, sys
from pathlib import Path
from retrieval.adapters.store.installation.embedded.server import start_embedded

server = start_embedded(Path(sys.argv[1]))
if os.fork() == 0:
    server.close()
    sys.exit()
_, status = os.wait()
assert status == 0
print(server.url, flush=True)
sys.stdin.read()
"""


class Client:
    """A separate process that holds a lease until it is told to exit."""

    def __init__(self, home: Path, program: str = CLIENT) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def url(self) -> str:
        """Wait until the server answers, and return its address."""
        assert self.process.stdout is not None
        url = self.process.stdout.readline().strip()
        assert url, "the client ended early; its traceback is above"
        return url

    def leave(self) -> None:
        """Let the process end in the ordinary way."""
        self.process.communicate()
        assert self.process.returncode == 0

    def kill(self) -> None:
        """Kill the process; return once all writers of its output have closed it."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def open_directory() -> Iterator[Path]:
    """A directory that every user can enter, which those of ``tmp_path`` are not: root's server needs one."""
    directory = Path(tempfile.mkdtemp(prefix="retrieval-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def made_home(open_directory: Path) -> Path:
    """A home whose cluster has been made."""
    start_embedded(open_directory / "made").close()
    return open_directory / "made"


@pytest.fixture
def home(made_home: Path) -> Iterator[Path]:
    """The home that these tests share, with no server running before or after."""
    yield made_home
    HomeServer.at(made_home).stop(timeout_seconds=30)


@pytest.fixture
def fresh_home(open_directory: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The path of a home that does not exist yet."""
    path = open_directory / str(getattr(request, "param", "fresh"))
    yield path
    HomeServer.at(path).stop(timeout_seconds=30)
    shutil.rmtree(path)
    shutil.rmtree(socket_directory(path), ignore_errors=True)


def postmaster(home: Path) -> int:
    """Return the process id of the server, which must be running."""
    pid = HomeServer.at(home).pid()
    assert pid is not None
    return pid


def tell(url: str, command: str) -> None:
    """Run a command outside any transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(command.encode())


def ask(url: str, query: str) -> object:
    """Return the first value of the first row."""
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
        return None if row is None else row[0]


def test_the_first_start_makes_a_tuned_cluster(home: Path) -> None:
    """The machine's resources show in the settings, and the URL leads to the platform's database."""
    with start_embedded(home) as server:
        assert ask(server.url, "select current_database() || ' ' || current_user") == "retrieval postgres"
        assert ask(server.url, "show shared_buffers") == settings_for(measure_resources())["shared_buffers"]
        assert ask(server.url, "show jit") == "off"
        assert ask(server.url, "show data_checksums") == "on"
        assert ask(server.url, "show listen_addresses") == ""


def test_the_server_brings_pgvector(home: Path) -> None:
    """Vectors work without anything being installed."""
    with start_embedded(home) as server:
        tell(server.url, "create extension if not exists vector")
        assert ask(server.url, "select '[1,2]'::vector <-> '[1,5]'") == 3


def test_text_search_splits_words_at_punctuation_beyond_ascii(home: Path) -> None:
    """Dashes and typographic quotes separate words, letters of any script belong to them, case is folded."""
    with start_embedded(home) as server:
        lexemes = ask(server.url, "select array_to_string(tsvector_to_array(to_tsvector('simple', 'É—“ß” 東')), ' ')")
    assert lexemes == "ß é 東"


def test_changed_settings_survive_a_restart(home: Path) -> None:
    """The tuning is done once, at creation; a later start does not undo a change."""
    with start_embedded(home) as server:
        tell(server.url, "alter system set work_mem = '21MB'")
    with start_embedded(home) as server:
        assert ask(server.url, "show work_mem") == "21MB"


def test_the_database_is_made_again_when_it_was_dropped(home: Path) -> None:
    """Dropping the database is a way to start over."""
    with start_embedded(home) as server:
        tell(server.url.replace("/retrieval?", "/postgres?"), "drop database retrieval")
        with start_embedded(home) as second:
            assert ask(second.url, "select 1") == 1


def test_a_server_without_a_connection_left_is_named_with_the_remedy(home: Path) -> None:
    """Another process finds the server full before it looks for its database."""
    with start_embedded(home) as server, ExitStack() as stack:
        with suppress(psycopg.OperationalError):
            while True:
                stack.enter_context(psycopg.connect(server.url))
        with pytest.raises(DatabaseUnreachableError, match=r"has no connection left: .*; raise max_connections"):
            start_embedded(home)


def test_the_last_lease_of_a_process_stops_the_server(home: Path) -> None:
    """Leases of one process count one by one, and closing one twice counts once."""
    first, second = start_embedded(home), start_embedded(home)

    first.close()
    first.close()
    assert ask(second.url, "select 1") == 1

    second.close()
    assert HomeServer.at(home).pid() is None


def test_processes_share_one_server_until_the_last_leaves(home: Path) -> None:
    """The server stays for the other processes, whichever process started it."""
    first, second = Client(home), Client(home)
    assert first.url() == second.url()
    server = postmaster(home)

    first.leave()
    assert postmaster(home) == server

    second.leave()
    assert HomeServer.at(home).pid() is None


def test_a_killed_process_does_not_keep_the_server_for_ever(home: Path) -> None:
    """The server outlives the killed process; the next one joins it, and stops it when it leaves."""
    killed = Client(home)
    killed.url()
    server = postmaster(home)
    assert os.getsid(server) != os.getsid(killed.process.pid)
    killed.kill()

    with start_embedded(home) as next_one:
        assert postmaster(home) == server
        assert ask(next_one.url, "select 1") == 1
    assert HomeServer.at(home).pid() is None


def test_a_server_that_does_not_run_is_known(home: Path, open_directory: Path) -> None:
    """A left-over socket does not change this, and the check creates nothing."""
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(socket_directory(home) / ".s.PGSQL.5432"))
    assert not is_running(home)
    with start_embedded(home):
        assert is_running(home)
    assert not is_running(home)
    assert not is_running(open_directory / "never")
    check_is_made(home)
    with pytest.raises(DatabaseUnreachableError, match="retrieval db upgrade"):
        check_is_made(open_directory / "never")


def test_a_forked_child_does_not_stop_its_parents_server(home: Path) -> None:
    """A child that closes its inherited handle, and exits, does not stop the parent's server."""
    client = Client(home, FORKING_CLIENT)

    assert ask(client.url(), "select 1") == 1
    client.leave()
    assert HomeServer.at(home).pid() is None


def test_a_forked_child_does_not_keep_its_parents_server(home: Path) -> None:
    """The parent's lease is the parent's alone: while the child lives on, the server stops."""
    server = start_embedded(home)
    reading, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(reading, 1)
        os._exit(0)

    server.close()

    assert HomeServer.at(home).pid() is None
    os.close(reading)
    os.close(write)
    os.waitpid(child, 0)


def test_data_survive_a_kill_of_the_server(home: Path) -> None:
    """After kill -9 the next start recovers all committed data, although the old lease is still held."""
    first = start_embedded(home)
    tell(first.url, "create table survivors as select 42 as answer")
    killed = psutil.Process(postmaster(home))
    killed.kill()
    psutil.wait_procs([killed])

    with start_embedded(home) as second:
        assert ask(second.url, "select answer from survivors") == 42
        first.close()
        assert ask(second.url, "select 1") == 1
    assert HomeServer.at(home).pid() is None


def test_the_number_of_a_process_that_is_gone_does_not_prevent_a_start(home: Path) -> None:
    """A machine that lost power leaves the file behind."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    leave_pid_file(home, ended.pid)

    with start_embedded(home) as server:
        assert ask(server.url, "select 1") == 1


def test_the_number_of_another_program_does_not_prevent_a_start(home: Path) -> None:
    """A program of the same user may have got the process id; it is not killed."""
    account = server_account(home / "data")
    other = subprocess.Popen(["/bin/sleep", "60"], user=account.uid if account.switch else None)
    try:
        leave_pid_file(home, other.pid)
        with start_embedded(home) as server:
            assert ask(server.url, "select 1") == 1
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def leave_pid_file(home: Path, pid: int) -> None:
    """Write the file that a server leaves when it is killed."""
    file = home / "data" / "postmaster.pid"
    socket = socket_directory(home)
    file.write_text(f"{pid}\n{home / 'data'}\n1\n5432\n{socket}\n\n  1  1\nready   \n")
    file.chmod(0o600)
    server_account(home / "data").own(file)


def test_a_server_that_is_stopping_is_waited_for(home: Path) -> None:
    """Until it has stopped there is no new one; then there is."""
    first = start_embedded(home)
    with psycopg.connect(first.url) as connection:
        os.kill(postmaster(home), signal.SIGTERM)
        with pytest.raises(EmbeddedServerError, match="not ready in time"):
            start_embedded(home, timeout_seconds=0.3)
        connection.close()

    with start_embedded(home) as second:
        first.close()
        assert ask(second.url, "select 1") == 1


def fill(url: str, rows: int) -> None:
    """Write rows to recover since the last checkpoint; with many rows recovery takes a moment."""
    tell(url, "drop table if exists filled")
    tell(url, "checkpoint")
    tell(url, "create table filled (text text)")
    tell(url, f"insert into filled select repeat(md5(g::text), 60) from generate_series(1, {rows}) g")  # noqa: S608


def crash(url: str) -> None:
    """Kill a connection's process, for which PostgreSQL ends all others; returns while it recovers."""
    with psycopg.connect(url) as connection:
        os.kill(connection.info.backend_pid, signal.SIGKILL)
    wait_until(lambda: is_recovering(url))


def is_recovering(url: str) -> bool:
    """Whether the server turns a connection away because it recovers."""
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as refused:
        return "recovery mode" in str(refused)
    return False


@contextmanager
def hanging(home: Path, url: str) -> Iterator[int]:
    """The process id of a server that was told to stop and does not, as long as a session waits for a program.

    An immediate shutdown alone ends such a session. Suspended processes would do too, but PostgreSQL gives them five
    seconds before it kills them.
    """
    fill(url, SOME)
    server = psutil.Process(postmaster(home))
    session = threading.Thread(target=wait_for_program, args=(url,))
    session.start()
    wait_until(lambda: bool(programs_of(server)))
    programs = programs_of(server)
    try:
        server.send_signal(signal.SIGINT)
        wait_until(lambda: "stopping" in (home / "data" / "postmaster.pid").read_text())
        yield server.pid
    finally:
        for program in programs:
            with suppress(psutil.NoSuchProcess):
                program.kill()
        session.join()


def wait_for_program(url: str) -> None:
    """Read what a program does not write, until the server ends; a shutdown reaches the program too."""
    with suppress(psycopg.OperationalError):
        tell(url, "copy filled from program $$trap '' INT TERM; exec sleep 300$$")


def programs_of(server: psutil.Process) -> list[psutil.Process]:
    """The programs that the server's sessions wait for."""
    return [process for process in server.children(recursive=True) if process.name() == "sleep"]


def long_ago(home: Path) -> None:
    """Have the server's status changed an hour ago."""
    file = home / "data" / "postmaster.pid"
    os.utime(file, (time.time() - 3600, time.time() - 3600))


def wait_until(is_so: Callable[[], bool], seconds: float = 20.0) -> None:
    """Return once it is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_server_that_recovers_is_stopped_after_that(home: Path) -> None:
    """A connection's process is killed, and the last to leave waits for the recovery: a shutdown in it would hang."""
    server = start_embedded(home)
    fill(server.url, MANY)
    crash(server.url)
    server.close()
    assert HomeServer.at(home).pid() is None
    with start_embedded(home) as again:
        assert ask(again.url, "select count(*) from filled") == MANY


def test_a_server_that_recovers_for_long_is_left_running(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The last process reports the recovery; the next one that leaves stops the server."""
    with start_embedded(home) as server:
        fill(server.url, MANY)
        crash(server.url)
        HomeServer.at(home).stop(timeout_seconds=0)
        assert "still recovers from a crash and was left running" in caplog.text
        with start_embedded(home) as again:
            assert ask(again.url, "select count(*) from filled") == MANY


def test_a_shutdown_that_hangs_is_made_an_immediate_one(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing that was committed is lost."""
    with start_embedded(home) as server:
        with hanging(home, server.url):
            HomeServer.at(home).stop(timeout_seconds=4)
            assert HomeServer.at(home).pid() is None
        assert "hangs while it stops" in caplog.text
        with start_embedded(home) as again:
            assert ask(again.url, "select count(*) from filled") == SOME


async def test_a_server_that_hangs_while_it_stops_is_restarted(home: Path) -> None:
    """Once it has been stopping for longer than a shutdown takes; before, it is waited for. The doctor tells of it.

    The doctor mends it by opening it; of a server that stops in the ordinary way there is nothing to tell.
    """
    settings = Settings().changed(home=home, database_url=None, database_schema="retrieval")
    with start_embedded(home) as server, hanging(home, server.url) as hung:
        with pytest.raises(EmbeddedServerError, match="it is stopping; try again"):
            start_embedded(home, timeout_seconds=0.3)
        long_ago(home)
        findings = [
            finding for finding in (await examine(settings)).findings if "had been stopping for 3,6" in finding.found
        ]
        assert [(finding.check, finding.severity) for finding in findings] == [("postgresql", Severity.WARNING)]
        with start_embedded(home) as again:
            assert postmaster(home) != hung
            assert ask(again.url, "select count(*) from filled") == SOME
        assert all("hung" not in finding.found for finding in (await examine(settings)).findings)


def test_the_remedy_for_a_server_that_does_not_answer_works(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is suspended can neither be joined nor stopped; the command in the message ends it."""
    # The server is asked four times, with a timeout each.
    monkeypatch.setattr(home_server, "_ANSWER_SECONDS", 0.2)
    with start_embedded(home) as server:
        tell(server.url, "create table kept as select 7 as answer")
        suspended = psutil.Process(postmaster(home))
        suspended.suspend()
        with pytest.raises(EmbeddedServerError) as error:
            HomeServer.at(home).stop(timeout_seconds=2)
        with pytest.raises(EmbeddedServerError, match=re.escape(f"`kill -KILL {suspended.pid}`")):
            start_embedded(home, timeout_seconds=0.3)
        advice = re.search("`(kill .*)`", str(error.value))
        assert advice is not None
        subprocess.run(advice[1].split(), check=True)
        psutil.wait_procs([suspended])
        with start_embedded(home) as again:
            assert ask(again.url, "select answer from kept") == 7


def test_a_start_that_fails_says_why(home: Path) -> None:
    """The reason that PostgreSQL gave is in the message, and the failed start keeps no lease."""
    settings = home / "data" / "postgresql.conf"
    before = settings.read_text()
    settings.write_text(before + "no_such_setting = 1\n")
    try:
        with pytest.raises(EmbeddedServerError, match=r"no_such_setting.*server.log"):
            start_embedded(home)
    finally:
        settings.write_text(before)

    lease = FileLock(home / "lease.lock")
    assert lease.hold()
    lease.release()


def test_a_home_in_use_on_another_machine_is_refused(home: Path) -> None:
    """On a shared file system a second server would destroy the data; after the lease ends, the home moves."""
    note = home / "machine"
    note.write_text("another-identity kepler")
    elsewhere = FileLock(home / "lease.lock")
    elsewhere.share()

    with pytest.raises(EmbeddedServerError, match="another machine, kepler"):
        start_embedded(home)

    elsewhere.release()
    with start_embedded(home) as server:
        assert ask(server.url, "select 1") == 1
    assert "kepler" not in note.read_text()


def test_processes_that_start_at_once_make_one_cluster(fresh_home: Path) -> None:
    """A cold start by three makes one server, from whatever an interrupted one left behind."""
    leftover = fresh_home / "initdb-interrupted"
    leftover.mkdir(parents=True)
    (leftover / "PG_VERSION").write_text("18\n")
    fresh_home.chmod(0o755)

    clients = [Client(fresh_home) for _ in range(3)]

    assert len({client.url() for client in clients}) == 1
    assert [path.name for path in fresh_home.glob("initdb-*")] == []
    for client in clients:
        client.leave()
    assert HomeServer.at(fresh_home).pid() is None


@pytest.mark.parametrize("fresh_home", ["a 'b', \"$HOME\" `c`; &" + "d" * 100], indirect=True)
def test_a_home_of_any_length_and_any_characters_works(fresh_home: Path) -> None:
    """Neither the limit of a socket's path nor the shell matters, and other processes find the same server."""
    with start_embedded(fresh_home) as server:
        client = Client(fresh_home)
        assert client.url() == server.url
        assert ask(server.url, "select 1") == 1
        client.leave()
        assert postmaster(fresh_home) > 0
    assert HomeServer.at(fresh_home).pid() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to others")
def test_roots_server_runs_as_the_owner_of_the_data(home: Path) -> None:
    """Not as root, and only that user can enter the data and the socket's directory."""
    with start_embedded(home):
        owner = psutil.Process(postmaster(home)).uids().real
        assert owner != 0
        for directory in (home / "data", home / "run"):
            assert (directory.stat().st_uid, directory.stat().st_mode & 0o077) == (owner, 0)
