"""The arguments of ``retrieval session-start`` and ``session-end``. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from retrieval.apps.principles.choosing import MAX_PRINCIPLES, SLOTS
from retrieval.domain.errors import InvalidRequestError

LONGEST_SESSION = 200


def session_name(text: str | None) -> str | None:
    """The name of a session, None for None. Raises ``InvalidRequestError`` for one that cannot be recorded."""
    if text is None:
        return None
    is_whole = text == text.encode(errors="replace").decode()
    line = shown_line(text)
    if not (line and len(text) <= LONGEST_SESSION and "\x00" not in text and is_whole):
        raise InvalidRequestError(
            f"--session must be a text of 1 to {LONGEST_SESSION} characters that says something, without NUL"
        )
    return line


def shown_line(text: str) -> str:
    """The text as one printable line: a session is recorded under the name that is shown, so that it is found again."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


COLLECTION = "principles"
MOST = 100
"""Principles, or places for explored ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """The options, as they count."""

    folder: Path | None = None
    """None: the hook's, or else the current one."""
    session: str | None = None
    """None: the hook's, or else a new one."""
    collection: str = COLLECTION
    limit: int = MAX_PRINCIPLES
    """Principles, the explored ones among them; 1 to 100."""
    explore: int = SLOTS
    """Places for explored ones, 0 to 100."""


class SessionOutcome(StrEnum):
    """How a session went."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOptions:
    """The options, as they count."""

    folder: Path | None = None
    """None: the hook's, or else the current one."""
    session: str | None = None
    """None: the hook's, or else none."""
    outcome: SessionOutcome = SessionOutcome.SUCCESS
    tags: tuple[str, ...] = ()
    """The tags of the session, before those of its folder."""
    title: str = ""
    """Empty: the folder's name and the latest commit."""
    collection: str = COLLECTION
    """The collection of the principles; the traces have a collection of their own."""
