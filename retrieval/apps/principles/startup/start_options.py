"""What ``retrieval session-start`` is asked on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from retrieval.apps.principles.choosing import MAX_PRINCIPLES
from retrieval.apps.principles.exploration import SLOTS
from retrieval.domain.errors import InvalidRequestError

TEXT, JSON = "text", "json"
COLLECTION = "principles"
_MOST = 100
_LONGEST_SESSION = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """The options, checked. Raises ``InvalidRequestError`` for one that cannot be."""

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

    def __post_init__(self) -> None:
        if self.format not in (TEXT, JSON):
            raise InvalidRequestError(f"--format is {self.format!r:.80}; it must be {TEXT} or {JSON}")
        if self.session is not None and not is_session(self.session):
            raise InvalidRequestError(f"--session must be a text of 1 to {_LONGEST_SESSION} characters without NUL")
        _check_number("--limit", self.limit, 1)
        _check_number("--explore", self.explore, 0)


def is_session(text: str) -> bool:
    """Whether a session can have that name."""
    is_whole = text == text.encode(errors="replace").decode()
    return 0 < len(text) <= _LONGEST_SESSION and "\x00" not in text and is_whole


def start_options(arguments: Sequence[str]) -> StartOptions:
    """The options of the arguments after the command's name. Raises ``InvalidRequestError`` for any other."""
    said = _paired(arguments, ("cwd", "format", "session", "collection", "limit", "explore"))
    return StartOptions(
        folder=None if "cwd" not in said else Path(said["cwd"]),
        format=said.get("format", TEXT),
        session=said.get("session"),
        collection=said.get("collection", COLLECTION),
        limit=_whole("--limit", said.get("limit", str(MAX_PRINCIPLES))),
        explore=_whole("--explore", said.get("explore", str(SLOTS))),
    )


def _paired(arguments: Sequence[str], known: Sequence[str]) -> Mapping[str, str]:
    """Values by option, from ``--option value`` and ``--option=value``; the last one counts."""
    said: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name.removeprefix("--") not in known or not name.startswith("--"):
            raise InvalidRequestError(f"{name!r:.80} is no option; see: retrieval session-start --help")
        if not equals:
            if not rest:
                raise InvalidRequestError(f"{name} needs a value; see: retrieval session-start --help")
            value = rest.pop(0)
        said[name.removeprefix("--")] = value
    return said


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidRequestError(f"{name} is {text!r:.80}; it must be a whole number") from None


def _check_number(name: str, value: int, least: int) -> None:
    if not least <= value <= _MOST:
        raise InvalidRequestError(f"{name} is {value}; it must be a whole number from {least} to {_MOST}")
