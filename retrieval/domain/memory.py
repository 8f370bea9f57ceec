"""A memory: an item with a project, an interaction type, links to entities, a relevance and an access count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from retrieval.domain.entity_links import Links, checked_links
from retrieval.domain.errors import InvalidItemError, InvalidRequestError
from retrieval.domain.item import Item, check_key
from retrieval.domain.memory_text import extract_text, fingerprint
from retrieval.domain.moment import fault_of

PROJECT, USER, CONTENT, FINGERPRINT = "project_id", "user_id", "content", "fingerprint"
"""The attributes that a memory keeps of itself; no metadata may be named so."""

OWN_ATTRIBUTES = frozenset({PROJECT, USER, CONTENT, FINGERPRINT})

FILTERABLE: Mapping[str, str] = MappingProxyType({PROJECT: "text", USER: "text", FINGERPRINT: "text"})
"""What a collection of memories declares as filterable."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Duplicates(StrEnum):
    """What happens to a new memory that says what another one of its project says."""

    REPORT = "report"
    """It is stored, and the others are named."""
    MERGE = "merge"
    """It joins the one that is most alike, of the same user and type."""
    KEEP = "keep"
    """It is stored, and nobody looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """What is to be remembered.

    Raises ``InvalidRequestError`` for an empty project, type or content, a relevance outside 0 to 1, a time without a
    zone or beyond the years 1 to 9999 in UTC, or metadata under a name that is taken; ``InvalidItemError`` for what no
    item could hold.
    """

    memory_id: str
    project_id: str
    interaction_type: str
    content: Any
    """A text, or any other JSON value, of which ``extract_text`` makes the text that is searched."""
    occurred_at: datetime
    """Event time, with a time zone."""
    user_id: str | None = None
    links: Links = field(default_factory=lambda: MappingProxyType({}))
    """Ids by entity type, such as ``{"questions": ["q1"]}``."""
    summary: str | None = None
    relevance_score: float = 1.0
    """0 to 1."""
    expires_at: datetime | None = None
    """From then on it is found no more, and soon forgotten; None: never."""
    metadata: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Further attributes, to filter by."""
    status: str = "active"
    text: str | None = None
    """The text of a content that was stored before, whose keys may have changed their order; None: of the content."""

    def __post_init__(self) -> None:
        for name in ("project_id", "interaction_type"):
            checked_name(name, getattr(self, name))
        if self.user_id is not None:
            checked_name("user_id", self.user_id)
        for name in ("project_id", "user_id"):
            check_key(name, getattr(self, name) or "", self.memory_id)
        if self.summary is not None and not isinstance(self.summary, str):
            raise InvalidRequestError(f"summary is {self.summary!r:.80}; it must be a text, or None")
        if self.content is None or (isinstance(self.content, str) and not self.content.strip()):
            raise InvalidRequestError("a memory needs content: a text, or a JSON value such as {'findings': [...]}")
        Item(item_id=self.memory_id, attributes={CONTENT: self.content})  # before its text is made: it may be circular
        checked_relevance(self.relevance_score)
        for name in ("occurred_at", "expires_at"):
            _check_time(name, getattr(self, name))
        object.__setattr__(self, "links", checked_links(self.links))
        self._check_metadata()

    @property
    def fingerprint(self) -> str:
        """The same for memories of one project that have the same words in the same order."""
        return fingerprint(self.project_id, self._text)

    def item(self) -> Item:
        """The item that it is stored as."""
        attributes = {**self.metadata, PROJECT: self.project_id, FINGERPRINT: self.fingerprint}
        if self.user_id is not None:
            attributes[USER] = self.user_id
        if not isinstance(self.content, str):
            attributes[CONTENT] = self.content
        return Item(
            item_id=self.memory_id,
            title=self.summary or "",
            body=self._text,
            kind=self.interaction_type,
            attributes=attributes,
            status=self.status,
            occurred_at=self.occurred_at,
        )

    @property
    def _text(self) -> str:
        return extract_text(self.content) if self.text is None else self.text

    def _check_metadata(self) -> None:
        if not isinstance(self.metadata, Mapping):
            raise InvalidRequestError(f"metadata is a mapping of names to JSON values, not {self.metadata!r:.80}")
        if taken := sorted(OWN_ATTRIBUTES & set(self.metadata)):
            raise InvalidRequestError(f"metadata cannot be named {taken[0]!r}: a memory keeps its own under that name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A memory as it is stored."""

    memory_id: str
    project_id: str
    interaction_type: str
    content: Any
    """A text or another JSON value, equal to what was given; keys come in the order of PostgreSQL's ``jsonb``."""
    text: str
    """What is searched."""
    summary: str
    user_id: str | None
    links: Links
    relevance_score: float
    accesses: int
    """How often it was retrieved, as far as that is counted."""
    last_accessed_at: datetime | None
    occurred_at: datetime
    expires_at: datetime | None
    superseded_by: str | None
    """The memory that took its place."""
    status: str
    """``archived``: superseded, kept, and found no more."""
    metadata: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; times are ISO 8601."""
        said = {one.name: getattr(self, one.name) for one in fields(self)}
        times = {name: value.isoformat() for name, value in said.items() if isinstance(value, datetime)}
        links = {entity_type: list(ids) for entity_type, ids in self.links.items()}
        return {**said, **times, "links": links, "metadata": dict(self.metadata)}


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A memory of the same project that says nearly the same."""

    memory_id: str
    similarity: float
    """0 to 1; see ``retrieval.domain.duplicates``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory:
    """What became of a memory that was to be stored."""

    memory_id: str
    """Where it is: its own id, or that of the memory that it was merged into."""
    is_new: bool
    """Whether there was no memory of that id before."""
    duplicates: tuple[Duplicate, ...] = ()
    """The memories that say nearly the same, the most alike first; those known when it was stored."""
    merged_into: str | None = None
    """The memory that it joined; None: it is one of its own."""
    notes: tuple[str, ...] = ()
    """Why it waits for its vector, if it does."""


def checked_relevance(score: object, name: str = "relevance_score") -> float:
    """A relevance, or another share of that name. Raises ``InvalidRequestError`` for any but a number from 0 to 1."""
    is_number = isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score)
    if not is_number or not 0 <= float(score) <= 1:  # type: ignore[arg-type]
        raise InvalidRequestError(f"{name} is {score!r:.80}; it must be a number from 0 to 1")
    return float(score)  # type: ignore[arg-type]


def checked_name(name: str, value: object) -> str:
    """A project, user or type. Raises ``InvalidItemError`` for anything but a text, not empty, that can be stored."""
    is_text = isinstance(value, str) and bool(value.strip()) and "\x00" not in value
    if not is_text or str(value).encode(errors="replace").decode() != value:
        raise InvalidItemError(f"{name} is {value!r:.80}; it must be a text that is not empty, without NUL")
    return str(value)


def duplicates_named(name: str) -> Duplicates:
    """What to do with duplicates, by its name. Raises ``InvalidRequestError`` naming the choices."""
    try:
        return Duplicates(name)
    except ValueError:
        raise InvalidRequestError(f"duplicates is {name!r:.80}; it must be one of {', '.join(Duplicates)}") from None


def content_of(item: Item) -> Any:
    """What was stored as the item's content."""
    return item.attributes.get(CONTENT, item.body)


def _check_time(name: str, value: object) -> None:
    if value is not None and (fault := fault_of(value)):
        raise InvalidRequestError(f"{name} is {value!r:.80}; {fault}")
