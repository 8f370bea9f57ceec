"""Read a session's surroundings: its hook's arguments and input, its folder, and its git history."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from retrieval.apps.principles.choosing import MAX_PRINCIPLES, SLOTS
from retrieval.apps.principles.principle import COLLECTION
from retrieval.apps.principles.startup.project import keywords, project_tags, tags_of_files
from retrieval.domain.checks import is_storable
from retrieval.domain.errors import InvalidRequestError

LONGEST_SESSION = 200


def session_name(text: str | None) -> str | None:
    """The name of a session, None for None. Raises ``InvalidRequestError`` for a name that cannot be recorded."""
    if text is None:
        return None
    line = shown_line(text)
    if not (line and len(text) <= LONGEST_SESSION and is_storable(text)):
        raise InvalidRequestError(
            f"--session must be a text of 1 to {LONGEST_SESSION} characters, not blank, without NUL"
        )
    return line


def shown_line(text: str) -> str:
    """The text as one printable line: sessions are recorded under this shown name, so that it can be looked up."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


MOST = 100
"""The most principles, and the most places for explored ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """The options of a session's start."""

    folder: Path | None = None
    """None: the hook's, else the current folder."""
    session: str | None = None
    """None: the hook's, else a new one."""
    collection: str = COLLECTION
    limit: int = MAX_PRINCIPLES
    """The most principles, including explored ones; 1 to 100."""
    explore: int = SLOTS
    """The places for explored principles, 0 to 100."""


class SessionOutcome(StrEnum):
    """The outcome of a session."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOptions:
    """The options of a session's end."""

    folder: Path | None = None
    """None: the hook's, else the current folder."""
    session: str | None = None
    """None: the hook's, if it names one."""
    outcome: SessionOutcome = SessionOutcome.SUCCESS
    tags: tuple[str, ...] = ()
    """The tags of the session, before those of its folder."""
    title: str = ""
    """Empty: the folder's name and the latest commit."""
    collection: str = COLLECTION
    """The collection of the principles; traces are in another collection."""


WAIT_SECONDS = 0.05
"""The seconds to wait for input."""

_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class HookInput:
    """The hook's input; empty if it is missing or unusable."""

    session: str = ""
    folder: str = ""


def read_hook_input(descriptor: int = 0, wait_seconds: float = WAIT_SECONDS) -> HookInput:
    """Read the hook's input from standard input, unless that is a terminal, without waiting long. Raises nothing."""
    try:
        if os.isatty(descriptor):
            return HookInput()
        return parse_hook_input(_read(descriptor, time.monotonic() + wait_seconds))
    except (OSError, ValueError):
        return HookInput()


def parse_hook_input(text: bytes) -> HookInput:
    """The session and the folder of a hook's JSON object; empty if they are missing or unusable."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return HookInput()
    if not isinstance(fields, dict):
        return HookInput()
    return HookInput(
        session=shown_line(_text(fields.get("session_id"), LONGEST_SESSION)), folder=_text(fields.get("cwd"), 4096)
    )


def _text(value: object, longest: int) -> str:
    is_usable = isinstance(value, str) and len(value) <= longest and "\x00" not in value
    return value.encode(errors="replace").decode() if is_usable and isinstance(value, str) else ""


def _read(descriptor: int, deadline: float) -> bytes:
    """Read until the deadline or the end of an object, because the writer may leave the pipe open."""
    data = bytearray()
    while len(data) < _MOST_BYTES:
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            break
        if not (more := os.read(descriptor, _MOST_BYTES - len(data))):
            break
        data += more
        if data.rstrip().endswith(b"}") and parse_hook_input(bytes(data)) != HookInput():
            break
    return bytes(data)


COMMITS = 5
"""The number of latest commits that are read."""

MOST_FILES = 200
_MOST_GIT_BYTES = 64 * 1024
_LONGEST_SUBJECT = 200
_END_SECONDS = 0.2

# No hooks, pager, signature checks, prompts, or fetches of missing objects in a partial clone: git only reads.
_SAFE_OPTIONS = (
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "log.showSignature=false",
)
_VARIABLES = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
# In a git hook these variables would point every command at the hook's repository.
_REDIRECTING_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_EXTERNAL_DIFF")

_SUBJECTS = ("log", f"-{COMMITS}", "--no-show-signature", "--encoding=UTF-8", "--format=%s")
_CHANGED = ("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", f"HEAD~{COMMITS}", "HEAD")
_CHANGED_SINCE_THE_FIRST = (
    "log",
    f"-{COMMITS}",
    "--no-show-signature",
    "--no-renames",
    "--name-only",
    "-z",
    "--format=",
)


@dataclass(frozen=True, slots=True)
class History:
    """The latest commits of a repository; empty without a repository."""

    subjects: tuple[str, ...] = ()
    """The first lines of the latest five messages, the latest first, each of at most 200 characters."""
    files: tuple[str, ...] = ()
    """The paths that changed in them, at most 200, relative to the top of the repository."""
    was_late: bool = False
    """Whether git was stopped before it had answered."""


class GitHistory:
    """Starts git, and reads its answers later. Without git there is no history."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._subjects = _start(folder, _SUBJECTS)
        self._changed = _start(folder, _CHANGED)

    def history(self, deadline: float) -> History:
        """The history by the deadline (``time.monotonic``); git is stopped then, or when its output is too long."""
        subjects, log_was_late = _output_of(self._subjects, deadline)
        changed, diff_was_late = _output_of(self._changed, deadline)
        if subjects and changed is None and not diff_was_late:
            # The repository has fewer commits: list the changes of all of them.
            changed, diff_was_late = _output_of(_start(self._folder, _CHANGED_SINCE_THE_FIRST), deadline)
        lines = (subjects or "").splitlines()
        files = dict.fromkeys(path.strip("\n") for path in (changed or "").split("\0"))
        return History(
            subjects=tuple(line.strip()[:_LONGEST_SUBJECT] for line in lines if line.strip())[:COMMITS],
            files=tuple(path for path in files if path)[:MOST_FILES],
            was_late=log_was_late or diff_was_late,
        )


def _start(folder: Path, command: Sequence[str]) -> subprocess.Popen[bytes] | None:
    environment = {name: value for name, value in os.environ.items() if name not in _REDIRECTING_VARIABLES}
    try:
        return subprocess.Popen(
            ["git", *_SAFE_OPTIONS, "-C", str(folder), *command, "--"],  # noqa: S607 - the user's git
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment | _VARIABLES,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return None


def _output_of(process: subprocess.Popen[bytes] | None, deadline: float) -> tuple[str | None, bool]:
    """The process's output, None if it failed; and whether it was stopped at the deadline."""
    if process is None or process.stdout is None:
        return None, False
    data, descriptor, is_late = bytearray(), process.stdout.fileno(), False
    while len(data) < _MOST_GIT_BYTES:
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            is_late = True
            break
        if not (more := os.read(descriptor, _MOST_GIT_BYTES - len(data))):
            break
        data += more
    is_cut = is_late or len(data) == _MOST_GIT_BYTES
    if is_cut:
        _stop(process)
    process.stdout.close()
    code = _wait(process)
    # A process that goes on without any output has failed.
    failed = not is_cut and (code != 0 if code is not None else not data)
    return None if failed or (is_late and not data) else bytes(data).decode("utf-8", errors="replace"), is_late


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code; None for a process that goes on after closing its output, which is stopped."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_END_SECONDS)
    _stop(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    return None


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(OSError):
        # The group, because child processes would go on and keep the pipe open.
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The tags for choosing principles, and their sources."""

    recent_commits: tuple[str, ...] = ()
    """First lines of the latest commits' messages, the latest first."""
    changed_files: tuple[str, ...] = ()
    """The paths that changed in those commits."""
    project_tags: tuple[str, ...] = ()
    """The tags by manifests, and by the names of the files that changed."""
    keywords: tuple[str, ...] = ()
    """The keywords of the commits' messages."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The distinct project tags and keywords."""
        return tuple(dict.fromkeys((*self.project_tags, *self.keywords)))


def surroundings(history: History, project_tags: tuple[str, ...]) -> Surroundings:
    """The surroundings by the history and the tags of the manifests."""
    return Surroundings(
        recent_commits=history.subjects,
        changed_files=history.files,
        project_tags=tuple(dict.fromkeys((*project_tags, *tags_of_files(history.files)))),
        keywords=keywords(history.subjects),
    )


SHARE = 0.4
"""The share of the remaining time for manifests, and then for git: late principles would be lost altogether."""


def look_around(folder: Path, deadline: float, say: Callable[[str], None]) -> Surroundings:
    """Read the folder, well before the deadline (``time.monotonic`` seconds); ``say`` prints hints."""
    try:
        place = folder.resolve(strict=True)
    except (OSError, RuntimeError):  # missing, an invalid name, a loop of links
        say(f"{str(folder)!r:.200} is not a folder; continuing without it")
        return Surroundings()
    git = GitHistory(place)
    tags = project_tags(place, deadline=_after_share(deadline))
    history = git.history(_after_share(deadline))
    if history.was_late:
        say("git took too long; continuing without its complete answer")
    return surroundings(history, tags)


def _after_share(deadline: float) -> float:
    now = time.monotonic()
    return now + SHARE * max(0.0, deadline - now)
