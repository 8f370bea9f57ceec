"""The arguments of ``retrieval session-start`` and ``session-end``. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from retrieval.apps.principles.choosing import MAX_PRINCIPLES, SLOTS
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.collection import check_collection_name

LONGEST_SESSION = 200


def paired(
    arguments: Sequence[str], known: Collection[str], command: str, *, flags: Collection[str] = ()
) -> Mapping[str, str]:
    """Values by the option's name, from ``--option value`` and ``--option=value``; of the ``flags`` it is empty.

    Raises ``InvalidRequestError`` for an option that is not ``known``, or has no value.
    """
    said: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        name = option.removeprefix("--")
        if option == f"--{name}" and name in flags and not equals:
            said[name] = ""
            continue
        if name == option or name not in known:
            raise InvalidRequestError(f"{option!r:.80} is no option; see: retrieval {command} --help")
        if not equals:
            if not rest:
                raise InvalidRequestError(f"{option} needs a value; see: retrieval {command} --help")
            value = rest.pop(0)
        said[name] = value
    return said


def whole_number(option: str, text: str, least: int, most: int) -> int:
    """The number. Raises ``InvalidRequestError`` for a text that is none from ``least`` to ``most``."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise InvalidRequestError(f"{option} is {text!r:.80}; it must be a whole number from {least} to {most}")
    return number


def collection_name(text: str) -> str:
    """The name of a collection. Raises ``InvalidRequestError`` for one that none can have."""
    check_collection_name(text)
    return text


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
    """The text as one line that can be shown: a session is recorded as it is told, so that it is found again."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


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


END = "session-end"
OUTCOMES = ("success", "failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOptions:
    """The options, as they count."""

    folder: Path | None = None
    """None: as the hook says, else the current one."""
    session: str | None = None
    """None: as the hook says, else none is named."""
    outcome: str = OUTCOMES[0]
    tags: tuple[str, ...] = ()
    """The tags of the session, before those of its folder."""
    title: str = ""
    """Empty: the folder's name and the latest commit."""
    collection: str = COLLECTION
    """The one of the principles; the traces lie beside it."""
    is_told: bool = False
    """True if what was stored is printed, as JSON."""


def end_options(arguments: Sequence[str]) -> EndOptions:
    """The options of the arguments after the command's name. Raises ``InvalidRequestError``."""
    known = ("cwd", "session", "outcome", "tags", "title", "collection")
    said = paired(arguments, known, END, flags=("json",))
    outcome = said.get("outcome", OUTCOMES[0])
    if outcome not in OUTCOMES:
        raise InvalidRequestError(f"--outcome is {outcome!r:.80}; it must be {' or '.join(OUTCOMES)}")
    return EndOptions(
        folder=None if "cwd" not in said else Path(said["cwd"]),
        session=session_name(said.get("session")),
        outcome=outcome,
        tags=tuple(tag for tag in map(str.strip, said.get("tags", "").split(",")) if tag),
        title=said.get("title", "").strip(),
        collection=collection_name(said.get("collection", COLLECTION)),
        is_told="json" in said,
    )
