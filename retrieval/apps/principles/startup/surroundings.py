"""Read a session's surroundings: its hook's input, its folder, and its git history."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from retrieval.apps.principles.startup.project import keywords, project_tags, tags_of_files
from retrieval.domain.checks import is_storable, shown_line, written
from retrieval.domain.errors import InvalidRequestError

LONGEST_SESSION = 200


def session_name(text: str) -> str:
    """The name of a session on one line. Raises ``InvalidRequestError`` for a name that cannot be recorded."""
    line = shown_line(text)
    if not (line and len(text) <= LONGEST_SESSION and is_storable(text)):
        raise InvalidRequestError(
            f"--session must be a text of 1 to {LONGEST_SESSION} characters, not blank, without NUL"
        )
    return line


WAIT_SECONDS = 2.0
"""The most seconds to wait for the hook's input: some programs leave the pipe open and write nothing."""

_MOST_BYTES = 1024 * 1024
_MOST_GIT_BYTES = 64 * 1024


def _read(
    descriptor: int, most: int, deadline: float, is_enough: Callable[[bytes], bool] = lambda _data: False
) -> tuple[bytes, bool]:
    """Read until the end, ``most`` bytes, enough of them, or the deadline; and whether the deadline ended it."""
    data = b""
    while len(data) < most and not is_enough(data):
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return data, True
        if not (more := os.read(descriptor, most - len(data))):
            break
        data += more
    return data, False


@dataclass(frozen=True, slots=True)
class HookInput:
    """The hook's input; empty if it is missing or unusable."""

    session: str = ""
    folder: str = ""


def read_hook_input(deadline: float, descriptor: int = 0) -> HookInput:
    """Read the hook's input from standard input, unless that is a terminal. Raises nothing.

    The end of the input is not awaited, because the pipe may stay open: reading ends with a whole object, and well
    before the deadline (``time.monotonic`` seconds).
    """
    until = min(time.monotonic() + WAIT_SECONDS, _after_share(deadline))
    try:
        if os.isatty(descriptor):
            return HookInput()
        return parse_hook_input(_read(descriptor, _MOST_BYTES, until, _is_object)[0])
    except (OSError, ValueError):
        return HookInput()


def _is_object(text: bytes) -> bool:
    return text.rstrip().endswith(b"}") and isinstance(_json(text), dict)


def _json(text: bytes) -> object:
    """The JSON value; None for anything else."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def parse_hook_input(text: bytes) -> HookInput:
    """The session and the folder of a hook's JSON object; empty if they are missing or unusable."""
    fields = _json(text)
    if not isinstance(fields, dict):
        return HookInput()
    return HookInput(
        session=shown_line(_text(fields.get("session_id"), LONGEST_SESSION)), folder=_text(fields.get("cwd"), 4096)
    )


def _text(value: object, longest: int) -> str:
    is_usable = isinstance(value, str) and len(value) <= longest and "\x00" not in value
    return value.encode(errors="replace").decode() if is_usable and isinstance(value, str) else ""


COMMITS = 5

MOST_FILES = 200
_LONGEST_SUBJECT = 200
_END_SECONDS = 0.2

# No hooks, signature checks, prompts, or fetches of missing objects in a partial clone: git only reads.
_LOG = ("-c", "core.fsmonitor=false", "-c", "log.diffMerges=first-parent", "log", f"-{COMMITS}", "--no-show-signature")
_SUBJECTS = (*_LOG, "--encoding=UTF-8", "--format=%s", "--")
# A merge lists what it brought to its branch. Git before 2.33 lists what differs from its other parents too.
_FILES = (*_LOG, "--format=", "--name-only", "--no-renames", "-m", "-z", "--")
_VARIABLES = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
# In a git hook these variables would point every command at the hook's repository.
_REDIRECTING_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_EXTERNAL_DIFF")


class History(NamedTuple):
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
        # Apart, because the files of one commit may be too many to be read in time.
        self._subjects, self._files = _start(folder, _SUBJECTS), _start(folder, _FILES)

    def history(self, deadline: float) -> History:
        """The history by the deadline (``time.monotonic`` seconds); git is stopped then, or if it prints too much."""
        subjects, was_log_late = _output_of(self._subjects, deadline)
        files, was_late = _output_of(self._files, deadline)
        lines = (line.strip()[:_LONGEST_SUBJECT] for line in subjects.split("\n"))
        paths = dict.fromkeys(path.strip("\n") for path in files.split("\0"))
        return History(
            tuple(line for line in lines if line), tuple(filter(None, paths))[:MOST_FILES], was_log_late or was_late
        )


def _start(folder: Path, command: tuple[str, ...]) -> subprocess.Popen[bytes] | None:
    environment = {name: value for name, value in os.environ.items() if name not in _REDIRECTING_VARIABLES}
    try:
        return subprocess.Popen(
            ["git", "-C", str(folder), *command],  # noqa: S607 - the user's git
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment | _VARIABLES,
        )
    except (OSError, ValueError):
        return None


def _output_of(git: subprocess.Popen[bytes] | None, deadline: float) -> tuple[str, bool]:
    """What git prints by the deadline, at which it is stopped; and whether it was late."""
    if git is None or git.stdout is None:
        return "", False
    output, was_late = _read(git.stdout.fileno(), _MOST_GIT_BYTES, deadline)
    git.kill()
    git.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        git.wait(_END_SECONDS)
    return output.decode("utf-8", errors="replace"), was_late


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The tags for choosing principles, and their sources."""

    recent_commits: tuple[str, ...] = ()
    """First lines of the latest commits' messages, the latest first."""
    changed_files: tuple[str, ...] = ()
    project_tags: tuple[str, ...] = ()
    """The tags by manifests, and by the names of the files that changed."""
    keywords: tuple[str, ...] = ()

    @property
    def tags(self) -> tuple[str, ...]:
        """The distinct project tags and keywords."""
        return tuple(dict.fromkeys((*self.project_tags, *self.keywords)))


SHARE = 0.4
"""The share of the remaining time for each of the hook's input, manifests, and git: late principles would be lost
altogether.
"""


def look_around(folder: Path, deadline: float, say: Callable[[str], None]) -> Surroundings:
    """Read the folder, well before the deadline (``time.monotonic`` seconds); ``say`` prints hints."""
    try:
        root = folder.resolve(strict=True)
    except (OSError, RuntimeError):  # missing, an invalid name, a loop of links
        say(f"{written(str(folder), 200)} is not a folder; continuing without it")
        return Surroundings()
    git = GitHistory(root)
    tags = project_tags(root, deadline=_after_share(deadline))
    history = git.history(_after_share(deadline))
    if history.was_late:
        say("git took too long; continuing without its complete answer")
    return Surroundings(
        recent_commits=history.subjects,
        changed_files=history.files,
        project_tags=tuple(dict.fromkeys((*tags, *tags_of_files(history.files)))),
        keywords=keywords(history.subjects),
    )


def _after_share(deadline: float) -> float:
    now = time.monotonic()
    return now + SHARE * max(0.0, deadline - now)
