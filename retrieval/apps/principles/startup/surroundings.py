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
from retrieval.domain.checks import is_storable, shown_line
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


WAIT_SECONDS = 0.05
"""The seconds to wait for input."""

_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class HookInput:
    """The hook's input; empty if it is missing or unusable."""

    session: str = ""
    folder: str = ""


def read_hook_input(descriptor: int = 0, wait_seconds: float = WAIT_SECONDS) -> HookInput:
    """Read the hook's input from standard input, unless that is a terminal, without waiting long. Raises nothing.

    An agent writes the object at once; the end of the input is not awaited, because the pipe may stay open.
    """
    try:
        is_there = not os.isatty(descriptor) and select.select([descriptor], [], [], wait_seconds)[0]
        return parse_hook_input(os.read(descriptor, _MOST_BYTES)) if is_there else HookInput()
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


COMMITS = 5
"""The number of latest commits that are read."""

MOST_FILES = 200
_LONGEST_SUBJECT = 200
_END_SECONDS = 0.2

# No hooks, signature checks, prompts, or fetches of missing objects in a partial clone: git only reads. NUL begins each
# commit.
_LOG = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "log", f"-{COMMITS}", "--no-show-signature",
        "--encoding=UTF-8", "--format=%x00%s", "--name-only", "--no-renames", "--")  # fmt: skip
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


def start_git(folder: Path) -> subprocess.Popen[bytes] | None:
    """Start git, whose answer ``history_of`` reads; None: there is no git."""
    environment = {name: value for name, value in os.environ.items() if name not in _REDIRECTING_VARIABLES}
    try:
        return subprocess.Popen(
            ["git", "-C", str(folder), *_LOG],  # noqa: S607 - the user's git
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment | _VARIABLES,
        )
    except (OSError, ValueError):
        return None


def history_of(git: subprocess.Popen[bytes] | None, deadline: float) -> History:
    """The history that git prints by the deadline (``time.monotonic`` seconds), at which it is stopped."""
    if git is None or git.stdout is None:
        return History()
    was_late = False
    try:
        output, _ = git.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        output, was_late = error.output or b"", True
        git.kill()
        git.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            git.wait(_END_SECONDS)
    commits = [commit.split("\n") for commit in output.decode("utf-8", errors="replace").split("\0")[1:]]
    subjects = [lines[0].strip()[:_LONGEST_SUBJECT] for lines in commits if lines[0].strip()]
    files = dict.fromkeys(path for lines in commits for path in lines[1:] if path)
    return History(tuple(subjects), tuple(files)[:MOST_FILES], was_late)


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


SHARE = 0.4
"""The share of the remaining time for manifests, and then for git: late principles would be lost altogether."""


def look_around(folder: Path, deadline: float, say: Callable[[str], None]) -> Surroundings:
    """Read the folder, well before the deadline (``time.monotonic`` seconds); ``say`` prints hints."""
    try:
        place = folder.resolve(strict=True)
    except (OSError, RuntimeError):  # missing, an invalid name, a loop of links
        say(f"{str(folder)!r:.200} is not a folder; continuing without it")
        return Surroundings()
    git = start_git(place)
    tags = project_tags(place, deadline=_after_share(deadline))
    history = history_of(git, _after_share(deadline))
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
