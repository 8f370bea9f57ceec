"""The tags of the project that a folder lies in, by its manifests."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from retrieval.apps.principles.startup.bounded_file import read_part
from retrieval.apps.principles.startup.dependencies import PackageName
from retrieval.apps.principles.startup.manifests import MANIFESTS, tags_of_manifest

MOST_PROJECT_TAGS = 150
_MOST_NAMES = 40
"""Packages of one manifest that are tags by their name alone: a long list would hide what the others say."""

_MOST_FOLDERS = 8
_LONGEST_TAG = 60
_TOLERANT = frozenset({"CLAUDE.md", "AGENTS.md", "requirements.txt", "Gemfile", "pom.xml", "go.mod"})
"""Read line by line: of a long one, its beginning says something too."""


def project_tags(folder: Path, most: int = MOST_PROJECT_TAGS, deadline: float = math.inf) -> tuple[str, ...]:
    """At most so many tags of the folder's manifests and of those above it, up to the top of its repository.

    Casefolded, each once, those of the folder itself first; names of packages that say no more come after all else.
    What is broken, huge, or no file says what its name says, or nothing; nothing is raised. No more files are read
    after the ``deadline`` (``time.monotonic`` seconds).
    """
    files = ((place, name) for place in _places(folder) for name in MANIFESTS)
    in_time = itertools.takewhile(lambda _file: time.monotonic() < deadline, files)
    said = [_tags(place, name) for place, name in in_time]
    return tuple(tag for tag in dict.fromkeys(map(str.casefold, _in_order(said))) if _is_usable(tag))[:most]


def _in_order(said: Sequence[Sequence[str]]) -> Iterator[str]:
    """The tags of each manifest, then a number of the names of each."""
    for tags in said:
        yield from (tag for tag in tags if not isinstance(tag, PackageName))
    for tags in said:
        yield from [tag for tag in tags if isinstance(tag, PackageName)][:_MOST_NAMES]


def _is_usable(tag: str) -> bool:
    """Whether it could be a tag at all: a name in a manifest may hold what PostgreSQL cannot."""
    return 0 < len(tag) <= _LONGEST_TAG and tag.isprintable()


def _tags(place: Path, name: str) -> list[str]:
    part = read_part(place / name)
    if part is None:
        return []
    return tags_of_manifest(name, part.text if part.is_whole or name in _TOLERANT else None)


def _places(folder: Path) -> Iterator[Path]:
    """The folder, and those above it while they belong to the same repository."""
    above = [folder, *folder.parents][:_MOST_FOLDERS]
    top = next((number for number, place in enumerate(above) if _is_there(place / ".git")), 0)
    yield from above[: top + 1]


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
