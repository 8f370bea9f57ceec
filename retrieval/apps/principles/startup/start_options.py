"""What ``retrieval session-start`` is asked on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from retrieval.apps.principles.choosing import MAX_PRINCIPLES
from retrieval.apps.principles.exploration import SLOTS
from retrieval.apps.principles.startup.arguments import collection_name, paired, session_name, whole_number
from retrieval.domain.errors import InvalidRequestError

START = "session-start"
TEXT, JSON = "text", "json"
COLLECTION = "principles"
MOST = 100
"""Principles, or places for explored ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """The options, as they count."""

    folder: Path | None = None
    """None: as the hook says, else the current one."""
    format: str = TEXT
    session: str | None = None
    """None: as the hook says, else a new one."""
    collection: str = COLLECTION
    limit: int = MAX_PRINCIPLES
    """Principles, the explored ones among them; 1 to 100."""
    explore: int = SLOTS
    """Places for explored ones, 0 to 100."""


def start_options(arguments: Sequence[str]) -> StartOptions:
    """The options of the arguments after the command's name. Raises ``InvalidRequestError``."""
    known = ("cwd", "format", "session", "collection", "limit", "explore")
    said = paired(arguments, known, START, flags=("json",))
    shape = JSON if "json" in said else said.get("format", TEXT)
    if shape not in (TEXT, JSON):
        raise InvalidRequestError(f"--format is {shape!r:.80}; it must be {TEXT} or {JSON}")
    return StartOptions(
        folder=None if "cwd" not in said else Path(said["cwd"]),
        format=shape,
        session=session_name(said.get("session")),
        collection=collection_name(said.get("collection", COLLECTION)),
        limit=whole_number("--limit", said.get("limit", str(MAX_PRINCIPLES)), 1, MOST),
        explore=whole_number("--explore", said.get("explore", str(SLOTS)), 0, MOST),
    )
