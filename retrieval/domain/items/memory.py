"""A memory: an item with a project, an interaction type, links to entities, a relevance and an access count. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from retrieval.domain import checks
from retrieval.domain.errors import InvalidItemError, InvalidRequestError, UnknownItemError
from retrieval.domain.frozen import Frozen
from retrieval.domain.items.item import MAX_KEY_BYTES, Item, check_key
from retrieval.domain.serialization import Serializable
from retrieval.domain.words import symbols, words

Links = Mapping[str, Sequence[str]]
"""Such as ``{"questions": ["q1", "q2"], "hypotheses": ["h1"]}``."""

_KEYWORD = re.compile(r"linked_([a-z0-9_]+)_ids")


def entity_type(stem: str) -> str:
    """The type that a keyword ``linked_<stem>_ids`` links to: the stem's regular English plural: ``studies``."""
    if stem.endswith("sis"):
        return f"{stem[:-2]}es"
    if re.search(r"[^aeiou]y$", stem):
        return f"{stem[:-1]}ies"
    if re.search(r"(?:s|x|z|ch|sh)$", stem):
        return f"{stem}es"
    return f"{stem}s"


def links_of(links: Links | None, keywords: Mapping[str, Sequence[str]], others: Iterable[str] = ()) -> Links:
    """``links`` and the keywords ``linked_<stem>_ids`` together. Raises ``InvalidRequestError``, naming ``others``."""
    given = checked_links({} if links is None else links)
    ids_by_type: dict[str, list[str]] = {name: list(ids) for name, ids in given.items()}
    for keyword, ids in keywords.items():
        match = _KEYWORD.fullmatch(str(keyword))
        if match is None:
            raise InvalidRequestError(
                f"there is no argument {checks.written(keyword)}; {checks.choices_hint(keyword, others)}; "
                "links are given as linked_paper_ids=[...], or in links={...}"
            )
        if ids is not None:
            ids_by_type.setdefault(entity_type(match[1]), []).extend(checked_ids(keyword, ids))
    return checked_links(ids_by_type)


def checked_links(links: Links) -> Links:
    """The links, each once, without empty types. Raises ``InvalidRequestError`` for links that cannot be."""
    if not isinstance(links, Mapping):
        raise InvalidRequestError(f"links are a mapping such as {{'questions': ['q1']}}, not {checks.written(links)}")
    ids_by_type = {}
    for name, ids in links.items():
        _check_key("an entity type", name, is_type=True)
        if unique := checked_ids(f"links of type {name!r}", ids):
            ids_by_type[name] = unique
    return Frozen(ids_by_type)


def checked_ids(name: str, ids: object) -> tuple[str, ...]:
    """The ids, each once. Raises ``InvalidRequestError``."""
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise InvalidRequestError(f"{name}: ids come in a list such as ['q1', 'q2'], not {checks.written(ids)}")
    for entity_id in ids:
        _check_key(name, entity_id)
    return tuple(dict.fromkeys(ids))


def united(links: Links, other: Links) -> Links:
    """The links of both."""
    return checked_links(
        {name: [*links.get(name, ()), *other.get(name, ())] for name in dict.fromkeys([*links, *other])}
    )


def check_entity(entity: tuple[object, object]) -> tuple[str, str]:
    """The type and the id of an entity. Raises ``InvalidRequestError`` for what no link can have."""
    _check_key("an entity type", entity[0], is_type=True)
    _check_key("an entity's id", entity[1])
    return str(entity[0]), str(entity[1])


def _check_key(name: str, value: object, *, is_type: bool = False) -> None:
    if not isinstance(value, str) or not value or len(value.encode(errors="replace")) > MAX_KEY_BYTES:
        raise InvalidRequestError(f"{name}: {checks.written(value)} must be a text of 1 to {MAX_KEY_BYTES} bytes")
    if fault := checks.text_fault(value, is_line=True):
        raise InvalidRequestError(f"{name}: {checks.written(value)} holds {fault}, which cannot be stored; take it out")
    if is_type and ":" in value:
        raise InvalidRequestError(f"{name} has no colon, which separates it from the id: {checks.written(value)}")


_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def extract_text(content: Any) -> str:
    """The searchable text of a content: a text unchanged; of another JSON value its values in order, a line each.

    Each has its key before it: ``{"nextSteps": ["a"]}`` gives ``next steps: a``. True and false are ``yes`` and ``no``.
    """
    return content if isinstance(content, str) else "\n".join(_lines(content, ""))


def _lines(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _lines(inner, f"{key} {readable(str(name))}".strip())
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        for inner in value:
            yield from _lines(inner, key)
    elif value is not None:
        text = value.isoformat() if isinstance(value, date) else str(value)
        text = {"True": "yes", "False": "no"}[text] if isinstance(value, bool) else text
        if text.strip():
            yield f"{key}: {text}" if key else text


def readable(key: str) -> str:
    """A key in words: ``nextSteps`` and ``next_steps`` are both ``next steps``."""
    return " ".join(_HUMP.sub(" ", key).replace("_", " ").replace("-", " ").split()).lower()


def normalised(text: str) -> str:
    """The text's words and then its symbols in their order, in lower case, whatever their punctuation and encoding."""
    return " ".join([*words(text), *symbols(text)])


def fingerprint(project_id: str, text: str) -> str:
    """32 hexadecimal digits: the same for texts of one project that are equal once normalised."""
    identity = f"{len(project_id)}:{project_id}{normalised(text) or text.strip()}"
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


PROJECT, USER, CONTENT, FINGERPRINT = "project_id", "user_id", "content", "fingerprint"
"""The attributes that a memory uses itself; no metadata may have these names."""

OWN_ATTRIBUTES = frozenset({PROJECT, USER, CONTENT, FINGERPRINT})

FILTERABLE: Mapping[str, str] = MappingProxyType({PROJECT: "text", USER: "text", FINGERPRINT: "text"})
"""The attributes that a collection of memories declares as filterable."""

_NOTHING: Mapping[str, Any] = Frozen()


class Duplicates(StrEnum):
    """The treatment of a new memory that states the same as another memory of its project."""

    REPORT = "report"
    """The memory is stored, and the others are named."""
    MERGE = "merge"
    """The memory joins the most alike one of the same user and type."""
    KEEP = "keep"


class FactOutcome(StrEnum):
    """The outcome for a fact to remember."""

    ADDED = "added"
    SAME = "same"
    SUPERSEDED = "superseded"
    REFUSED = "refused"


TURNS = "turns"
"""The type of the entities that a memory is linked to as its sources: turns of a conversation, ``session/number``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A memory that is to be stored.

    Raises ``InvalidRequestError`` for an empty project or type, content without text, a relevance outside 0 to 1, a
    wrong time, or metadata under a name that is taken; ``InvalidItemError`` for what an item cannot hold.
    """

    memory_id: str
    project_id: str
    interaction_type: str
    content: Any
    """A text, or any other JSON value, of which ``extract_text`` makes the text that is searched."""
    occurred_at: datetime
    user_id: str | None = None
    links: Links = field(default_factory=Frozen)
    """Ids by entity type, such as ``{"questions": ["q1"]}``."""
    summary: str | None = None
    relevance_score: float = 1.0
    """0 to 1."""
    expires_at: datetime | None = None
    """The time from which searches no longer find the memory, and after which it is forgotten; None: never."""
    metadata: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    status: str = "active"
    text: str | None = None
    """The text of a content that was stored before, whose keys may have changed their order; None: it is extracted."""

    def __post_init__(self) -> None:
        for name in ("project_id", "interaction_type"):
            checked_name(name, getattr(self, name))
        if self.user_id is not None:
            checked_name("user_id", self.user_id)
        for name in ("project_id", "user_id"):
            check_key(name, getattr(self, name) or "", self.memory_id)
        if self.summary is not None and not isinstance(self.summary, str):
            raise InvalidRequestError(f"summary is {checks.written(self.summary)}; it must be a text, or None")
        Item(item_id=self.memory_id, attributes={CONTENT: self.content})  # before its text is made: it may be circular
        if not self._text.strip():
            raise InvalidRequestError("a memory needs content: a text, or a JSON value such as {'findings': [...]}")
        checks.checked_number("relevance_score", self.relevance_score)
        for name in ("occurred_at", "expires_at"):
            if (time := getattr(self, name)) is not None:
                checks.checked_time(name, time)
        object.__setattr__(self, "links", checked_links(self.links))
        if not isinstance(self.metadata, Mapping):
            raise InvalidRequestError(
                f"metadata is a mapping of names to JSON values, not {checks.written(self.metadata)}"
            )
        if taken := sorted(OWN_ATTRIBUTES & set(self.metadata)):
            raise InvalidRequestError(f"metadata cannot be named {taken[0]!r}: a memory keeps its own under that name")

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Serializable):
    """A memory as it is stored."""

    memory_id: str
    project_id: str
    interaction_type: str
    content: Any
    """A text or another JSON value, equal to what was given; keys come in the order of PostgreSQL's ``jsonb``."""
    text: str
    """The text that is searched."""
    summary: str
    user_id: str | None
    links: Links
    relevance_score: float
    accesses: int
    """The number of times that it was retrieved, where that is counted."""
    last_accessed_at: datetime | None
    occurred_at: datetime
    expires_at: datetime | None
    superseded_by: str | None
    """The memory that took its place."""
    status: str
    """``archived``: superseded, kept, and no longer found."""
    metadata: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime

    @property
    def sources(self) -> tuple[str, ...]:
        """The turns of conversations that it comes from, as ``session/number``; empty: it comes from none."""
        return tuple(self.links.get(TURNS, ()))


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A memory of the same project that states nearly the same."""

    memory_id: str
    similarity: float
    """0 to 1; see ``retrieval.domain.search.diversity``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory:
    """The result of storing a memory."""

    memory_id: str
    """The id of the stored memory: its own, or that of the memory that it was merged into."""
    is_new: bool
    duplicates: tuple[Duplicate, ...] = ()
    """The memories that state nearly the same when it was stored, the most alike first."""
    merged_into: str | None = None
    notes: tuple[str, ...] = ()
    """The reason why its vector is still missing, if it is."""


def checked_name(name: str, value: object) -> str:
    """A project, user or type. Raises ``InvalidItemError`` for anything but a text, not empty, that can be stored."""
    if not checks.is_storable(value) or not value.strip():
        raise InvalidItemError(
            f"{name} is {checks.written(value)}; it must be a text that is not empty, without NUL or half of a "
            "surrogate pair"
        )
    return value


def content_of(item: Item) -> Any:
    """The content that was stored with the item."""
    return item.attributes.get(CONTENT, item.body)


def to_store(memory: Memory) -> NewMemory:
    """The memory as it would be stored again: without characters that new memories may not have."""
    values = {each.name: getattr(memory, each.name) for each in fields(NewMemory)}
    cleaned = {name: checks.clean_value(values[name]) for name in ("content", "links", "metadata", "text")}
    lines = {name: checks.clean_text(values[name], is_line=True) for name in ("interaction_type", "summary")}
    return NewMemory(**{**values, **cleaned, **lines})


def changed(memory: Memory, changes: dict[str, Any]) -> NewMemory:
    """The memory with some of its fields replaced; its text stays unless its content is given."""
    known = to_store(memory)
    return replace(known, **{"text": None if "content" in changes else known.text, **changes})


def merged(known: Memory, other: NewMemory) -> NewMemory:
    """One memory of two: the known one's text, the links of both; of other values the greater, or the only one."""
    expiries = [known.expires_at, other.expires_at]
    return replace(
        to_store(known),
        links=united(known.links, other.links),
        summary=known.summary or other.summary,
        relevance_score=max(known.relevance_score, other.relevance_score),
        occurred_at=max(known.occurred_at, other.occurred_at),
        expires_at=None if None in expiries else max(expiry for expiry in expiries if expiry is not None),
        metadata={**other.metadata, **known.metadata},
    )


def has_expired(memory: Memory | NewMemory, now: datetime) -> bool:
    """True if the memory has expired."""
    return memory.expires_at is not None and memory.expires_at <= now


def check_current(memory: Memory | NewMemory, now: datetime) -> None:
    """Raise ``UnknownItemError`` for an expired memory, which is soon forgotten."""
    if has_expired(memory, now):
        raise UnknownItemError(
            f"memory {checks.written(memory.memory_id)} expired at {memory.expires_at}; store it again to keep it"
        )


def may_join(known: Memory, other: NewMemory, now: datetime) -> bool:
    """True if the two may become one: they have the same project, user and type, and the known one is still found."""
    mine = (known.project_id, known.user_id, known.interaction_type)
    is_alike = mine == (other.project_id, other.user_id, other.interaction_type)
    return is_alike and known.status != "archived" and not has_expired(known, now)


def history_of(memory_id: str, known: Mapping[str, Memory]) -> tuple[Memory, ...]:
    """The versions of a memory among the given ones: the current one, then what each replaced, the latest first."""
    newest, visited = memory_id, {memory_id}
    while (successor := known[newest].superseded_by) in known and successor not in visited:
        newest = str(successor)
        visited.add(newest)
    versions = [known[newest]]
    listed = {newest}
    for version in versions:  # which grows meanwhile
        before = [memory for memory in known.values() if memory.superseded_by == version.memory_id]
        before.sort(key=lambda memory: (memory.updated_at, memory.memory_id), reverse=True)
        versions += [memory for memory in before if memory.memory_id not in listed]
        listed |= {memory.memory_id for memory in before}
    return tuple(versions)
