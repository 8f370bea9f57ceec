"""Principles of software work, and situations in which some of them help: written for the benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A principle."""

    key: str
    title: str
    body: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Situation:
    """A task, and its tags."""

    words: str
    tags: tuple[str, ...]
    helps: tuple[str, ...]
    """The keys of the principles that help."""


def lessons() -> list[Lesson]:
    """All principles."""
    return [Lesson(key, title, body, tuple(tags.split())) for key, title, body, tags in _rows("principles.txt")]


def situations() -> list[Situation]:
    """All situations."""
    return [
        Situation(words, tuple(tags.split()), tuple(helps.split())) for words, tags, helps in _rows("situations.txt")
    ]


def _rows(name: str) -> list[list[str]]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [[part.strip() for part in line.split("|")] for line in lines]
