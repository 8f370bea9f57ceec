"""The values of recall: entities, answers and ranges of time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self
from uuid import UUID

from retrieval.apps.result_list import ResultList
from retrieval.domain.checks import (
    STORED_NOTE,
    checked_list,
    checked_time,
    checked_whole,
    checks_argument_names,
    named,
    provenance,
    quoted,
    quoted_block,
)
from retrieval.domain.errors import InvalidItemError, InvalidRequestError
from retrieval.domain.items.item import Item
from retrieval.domain.learning.arm import Standing
from retrieval.domain.search.fusion import Candidate, fuse
from retrieval.domain.search.hit import Explanation, Hit
from retrieval.domain.search.profile import Fusion
from retrieval.domain.search.time_expressions import Certainty, TimeExpression

TimeRange = tuple[datetime | None, datetime | None]
"""The start (inclusive) and the end (exclusive); None: unbounded on that side."""

TOLD_LATER = timedelta(days=1)
"""The time after an event in which people still talk about it: measured, see decision 0020."""


class TimeExpressions(StrEnum):
    """The effect of "last week" and "in May 2023" in a question."""

    FILTER = "filter"
    """Only events of that time are found."""
    PREFER = "prefer"
    """Items of that time rank higher, later items that may be about it a little higher; nothing is left out."""
    OFF = "off"
    """They are ordinary words."""


def checked_time_range(time_range: object) -> tuple[datetime, datetime] | None:
    """Start and end, both with a time zone. Raises ``InvalidRequestError``."""
    if time_range is None:
        return None
    if not isinstance(time_range, tuple | list) or len(time_range) != 2:
        raise InvalidRequestError("time_range must be two times: the start (inclusive) and the end (exclusive)")
    start, end = time_range
    for moment in (start, end):
        checked_time("a time of time_range", moment)
    if start == end:
        raise InvalidRequestError(
            f"time_range starts and ends at {start.isoformat()}, so it is empty; give a later end"
        )
    if start > end:
        raise InvalidRequestError(f"time_range starts at {start.isoformat()} and ends at {end.isoformat()}; swap them")
    return start, end


def preferred_ranges(time: TimeExpression, now: datetime) -> tuple[TimeRange, ...]:
    """The range of the event, and the range after it in which people may talk about it; none for vague times.

    Conversations are dated by when they took place, not by when the event happened. An event counted back from now
    ("last week") may have been talked about until now, an event with a date ("in May 2023") until the day after.
    """
    if time.certainty is Certainty.VAGUE:
        return ()
    if time.end is None:
        return ((time.start, None),)
    talked_about_until = (max(time.end, now) if time.certainty is Certainty.RELATIVE else time.end) + TOLD_LATER
    return (time.start, time.end), (time.end, talked_about_until)


def within(time_range: TimeRange) -> dict[str, Any]:
    """The filter on event times; it excludes items without one."""
    start, end = time_range
    bounds = {"gte": start, "lt": end}
    return {"occurred_at": {operator: moment for operator, moment in bounds.items() if moment is not None}}


NOTE = "note"
"""The default type of entities."""

_NOT_SEARCHED = Explanation("none", ())
_KEY_LENGTH = 32
_UNNAMED = "(new)"


@checks_argument_names
@dataclass(frozen=True, slots=True)
class Entity:
    """A remembered thing, to be stored or found by a search.

    Raises ``InvalidItemError`` without a name, and if the entity cannot be stored as an item (see ``Item``).
    """

    name: str
    """Its title."""
    content: str
    """Its text."""
    entity_type: str = NOTE
    """The type of thing."""
    id: str = ""
    """Its key. By default a hash of the other fields, so that the same entity is stored once."""
    event_time: datetime | None = None
    """The time when it happened, with a time zone."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """JSON values by name."""
    hit: Hit | None = field(default=None, repr=False)
    """The platform's hit; None: it does not come from a search."""
    score: float = field(default=0.0, repr=False)
    """Higher is better; comparable within one answer only; 0 if it does not come from a search."""
    explanation: Explanation = field(default=_NOT_SEARCHED, repr=False)
    """The explanation of its score; without parts if it does not come from a search."""

    def __post_init__(self) -> None:
        if self.hit is not None:
            return
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidItemError(f"the name of an entity is {self.name!r:.80}; give a text, such as 'Ann'")
        if not self.id:
            key = self._item(_UNNAMED).content_hash.hex()[:_KEY_LENGTH]
            object.__setattr__(self, "id", key)
        self.as_item()

    @classmethod
    def of(cls, hit: Hit) -> Self:
        """The entity of a hit."""
        return cls(
            name=hit.title,
            content=hit.body,
            entity_type=hit.kind,
            id=hit.item_id,
            event_time=hit.occurred_at,
            attributes=hit.attributes,
            hit=hit,
            score=hit.score,
            explanation=hit.explanation,
        )

    def as_item(self) -> Item:
        """The item that it is stored as; an entity from a search keeps its tags, status and source."""
        return self._item(self.id)

    def _item(self, item_id: str) -> Item:
        hit = self.hit
        return Item(
            item_id=item_id,
            title=self.name,
            body=self.content,
            kind=self.entity_type,
            attributes=self.attributes,
            occurred_at=self.event_time,
            tags=() if hit is None else hit.tags,
            status="active" if hit is None else hit.status,
            source="" if hit is None else hit.source,
        )


NOTHING = "Nothing that fits is remembered."


@dataclass(eq=False, repr=False, kw_only=True)
class Recalled(ResultList[Entity]):
    """The entities, best first."""

    degraded: str | None = None
    """The reason why the requested rewrites are missing; None: nothing is missing."""
    queries: tuple[str, ...] = ()
    """The rewrites that were searched in addition to the question."""
    time: TimeExpression | None = None
    """The time that the question names; None: it names none, or times are not interpreted."""
    time_range: TimeRange | None = None
    """The range of event times that were required or preferred, start and end; None: there was none."""
    notes: tuple[str, ...] = ()
    """Notes for the caller."""
    retrieval_id: UUID | None = None
    """The id of the recorded search, for feedback and replay; None: it is not recorded."""


def context_text(entities: Iterable[Entity], standings: Mapping[str, Standing]) -> str:
    """The entities as Markdown for a prompt, in their order, each with its contributor and its record. Pure.

    A name is a JSON string, and each line of a content begins with ``>``, so that no stored text can imitate the
    structure of the prompt.
    """
    blocks = [_block(number, entity, standings.get(entity.id)) for number, entity in enumerate(entities, 1)]
    return "\n\n".join(["## Recalled", STORED_NOTE, *blocks] if blocks else ["## Recalled", NOTHING])


def _block(number: int, entity: Entity, standing: Standing | None) -> str:
    uses, successes = (standing.uses, standing.successes) if standing else (0, 0)
    when = [entity.event_time.isoformat(timespec="seconds")] if entity.event_time else []
    record = " · ".join([*when, provenance(entity.hit.source if entity.hit else None, uses, successes)])
    name = f" {quoted(entity.name)}" if entity.name else ""
    content = [quoted_block(entity.content)] if entity.content else []
    return "\n".join([f"### {number}. [{named(entity.id)}]{name}", record, *content])


K_MAX = 1_000_000


def merged_by_rrf(lists: Sequence[Sequence[Entity]], k: int) -> list[Entity]:
    """Reciprocal rank fusion: score(d) = Σ over the lists of 1 / (k + rank of d in the list), ranks from 1.

    Best first, equal scores by id; of duplicates in a list the first counts. Raises ``InvalidRequestError`` for a ``k``
    that is not a whole number from 1 to ``K_MAX``, and for lists of other values.
    """
    checked_whole("k", k, 1, K_MAX)
    rankings = {}
    entities: dict[str, Entity] = {}
    for number, entity_list in enumerate(lists, 1):
        first: dict[str, Entity] = {}
        for entity in checked_entities(entity_list):
            first.setdefault(entity.id, entity)
        entities = first | entities
        name = f"list:{number}"
        rankings[name] = [Candidate(name, key, rank, first[key].score) for rank, key in enumerate(first, 1)]
    fused = fuse(rankings, dict.fromkeys(rankings, 1.0), Fusion(k=k))
    return [
        replace(entities[found.item_id], score=found.score, explanation=Explanation("rrf", found.contributions))
        for found in fused
    ]


def checked_entities(entities: object) -> list[Entity]:
    """The list. Raises ``InvalidRequestError`` for anything but entities."""
    each = checked_list("entities", entities, "the answer of search")
    for entity in each:
        if not isinstance(entity, Entity):
            raise InvalidRequestError(f"a list of entities holds {entity!r:.80}; give entities, such as search returns")
    return each
