"""What ``retrieval session-end`` is asked on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from retrieval.apps.principles.startup.arguments import collection_name, paired, session_name
from retrieval.domain.errors import InvalidRequestError

END = "session-end"
OUTCOMES = ("success", "failure")
COLLECTION = "principles"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOptions:
    """The options, as they count."""

    folder: Path | None = None
    """None: as the hook says, else the current one."""
    session: str | None = None
    """None: as the hook says, else none is named."""
    outcome: str = OUTCOMES[0]
    tags: tuple[str, ...] = ()
    """What the session was about, before what its folder tells."""
    title: str = ""
    """Empty: the folder's name and the latest commit."""
    collection: str = COLLECTION
    """The one of the principles; the traces lie beside it."""
    is_told: bool = False
    """Whether what was stored is printed, as JSON."""


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
