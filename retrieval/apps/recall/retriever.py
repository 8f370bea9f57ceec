"""Recall: entities, times, fast search with rewrites and fusion; and ``Memory``, which stores and recalls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from retrieval.adapters.clock import utc_now
from retrieval.apps.recall.rewriter import Rewriter, Rewrites, deep_triggers
from retrieval.apps.result_list import AnswerList
from retrieval.collection import Collection, handle_of
from retrieval.domain import checks
from retrieval.domain.errors import EmptyQueryError, InvalidItemError, InvalidRequestError, RetrievalError
from retrieval.domain.items.item import Item
from retrieval.domain.learning.arm import Standing
from retrieval.domain.learning.context import Context
from retrieval.domain.llm import LLM, SECONDS_MAX, checked_llm
from retrieval.domain.search.filters import And, Filter, Where, parse_where
from retrieval.domain.search.fusion import Candidate, fuse
from retrieval.domain.search.hit import Explanation, Hit
from retrieval.domain.search.profile import RRF_K, Fusion, FusionKind, Profile
from retrieval.domain.search.query import DEFAULT_BOUNDS
from retrieval.domain.search.time_expressions import Certainty, TimeExpression, time_expression
from retrieval.engine.request import checked_words

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
        checks.checked_time("a time of time_range", moment)
    if start == end:
        raise InvalidRequestError(
            f"time_range starts and ends at {start.isoformat()}, so it is empty; give a later end"
        )
    checks.check_order("time_range", start, end)
    return start, end


def preferred_ranges(time: TimeExpression, now: datetime) -> tuple[TimeRange, ...]:
    """The range of the event, and the range after it in which people may talk about it; none for vague times.

    Conversations are dated by when they took place: an event counted back from now ("last week") may have been talked
    about until now, an event with a date ("in May 2023") until the day after.
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

_NOT_SEARCHED = Explanation("none", ())
_KEY_LENGTH = 32
_UNNAMED = "(new)"


@checks.checks_argument_names
@dataclass(frozen=True, slots=True)
class Entity:
    """A remembered thing, to be stored or found by a search.

    Raises ``InvalidItemError`` without a name, and if the entity cannot be stored as an item (see ``Item``).
    """

    name: str
    content: str
    entity_type: str = NOTE
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
            raise InvalidItemError(f"the name of an entity is {checks.written(self.name)}; give a text, such as 'Ann'")
        if not self.id:
            object.__setattr__(self, "id", self.as_item().content_hash.hex()[:_KEY_LENGTH])
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
        hit = self.hit
        return Item(
            item_id=self.id or _UNNAMED,
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
class Recalled(AnswerList[Entity]):
    """The entities, best first."""

    degraded: str | None = None
    """The reason why the requested rewrites are missing; None: nothing is missing."""
    queries: tuple[str, ...] = ()
    """The rewrites that were searched in addition to the question."""
    time: TimeExpression | None = None
    """The time that the question names; None: it names none, or times are not interpreted."""
    time_range: TimeRange | None = None
    """The range of event times that were required or preferred, start and end; None: there was none."""


def context_text(entities: Iterable[Entity], standings: Mapping[str, Standing]) -> str:
    """The entities as Markdown for a prompt, in their order, each with its contributor and its record, quoted. Pure."""
    blocks = [_block(number, entity, standings.get(entity.id)) for number, entity in enumerate(entities, 1)]
    return "\n\n".join(["## Recalled", checks.STORED_NOTE, *blocks] if blocks else ["## Recalled", NOTHING])


def _block(number: int, entity: Entity, standing: Standing | None) -> str:
    uses, successes = (standing.uses, standing.successes) if standing else (0, 0)
    when = [entity.event_time.isoformat(timespec="seconds")] if entity.event_time else []
    record = " · ".join([*when, checks.provenance(entity.hit.source if entity.hit else None, uses, successes)])
    name = f" {checks.quoted(entity.name)}" if entity.name else ""
    content = [checks.quoted_block(entity.content)] if entity.content else []
    return "\n".join([f"### {number}. [{checks.named(entity.id)}]{name}", record, *content])


K_MAX = 1_000_000


def checked_entities(entities: object) -> list[Entity]:
    """The list. Raises ``InvalidRequestError`` for anything but entities."""
    each = checks.checked_list("entities", entities, "the answer of search")
    for entity in each:
        if not isinstance(entity, Entity):
            raise InvalidRequestError(
                f"a list of entities holds {checks.written(entity)}; give entities, such as search returns"
            )
    return each


RECALL_PROFILE = Profile(legs={"dense": 1.0, "lexical": 1.0}, fusion=Fusion(kind=FusionKind.RRF, k=RRF_K))
"""Searches by meaning and by words, again for each rewrite; reciprocal rank fusion (k = 60) merges all results."""


SEARCH_LIMIT_MAX = 100


REWRITE_TIMEOUT_SECONDS = 2.0

_log = logging.getLogger(__name__)


class DualRetriever:
    """Fast search, extended with a language model's rewrites for the questions that they help."""

    def __init__(
        self,
        storage: Collection,
        llm: LLM | None,
        seed: int | None = None,
        *,
        profile: Profile | None = RECALL_PROFILE,
        rewrite_timeout_seconds: float = REWRITE_TIMEOUT_SECONDS,
        time_expressions: TimeExpressions | str = TimeExpressions.PREFER,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """``storage`` is searched; ``llm`` rewrites questions (None: no rewrites).

        - ``seed``: the same seed gives the same rewrites; another seed asks the model for variations. 64 bits.
        - ``profile``: None for the collection's own.
        - ``rewrite_timeout_seconds``: the seconds that a search waits for rewrites before it goes on without, above 0.
        - ``time_expressions``: the effect of "last week" in a question: ``filter``, ``prefer`` or ``off``.
        - ``clock``: returns the current time, in the time zone in which questions are interpreted.

        Raises ``InvalidRequestError``.
        """
        if not callable(getattr(storage, "search", None)):
            raise InvalidRequestError(
                f"storage is {checks.written(storage)}; give a collection, such as await platform.collection('recall')"
            )
        if seed is not None:
            checks.checked_whole("seed", seed, -(2**63), 2**63 - 1)
        if profile is not None and not isinstance(profile, Profile):
            raise InvalidRequestError(
                f"profile is {checks.written(profile)}; give a Profile, or None for the collection's own"
            )
        checks.check_functions(clock=clock)
        self._storage = storage
        # Tests search other storages too.
        self._bounds = handle_of(storage).shared.bounds if isinstance(storage, Collection) else DEFAULT_BOUNDS
        self._llm = checked_llm(llm)
        seconds = checks.checked_positive("rewrite_timeout_seconds", rewrite_timeout_seconds, "2", SECONDS_MAX)
        self._rewriter = None if llm is None else Rewriter(storage, llm, seed, seconds)
        self._profile = profile
        self._time_expressions = checks.checked_choice("mode of time_expressions", time_expressions, TimeExpressions)
        self._clock = clock

    async def search(
        self,
        query: str,
        *,
        limit: int = 10,
        deep_search: bool = True,
        time_range: tuple[datetime, datetime] | None = None,
        where: Where | Filter | None = None,
        as_of: datetime | None = None,
        context: Context = Context(),
    ) -> Recalled:
        """The entities for a question, best first, each once.

        With ``deep_search``, a question that ``needs_deep_search`` is searched together with its rewrites; ``degraded``
        tells why there are none. ``time_range`` bounds the event time, from the start (inclusive) to the end
        (exclusive); it takes precedence over a time in the question. ``where`` filters as in ``Collection.search``;
        ``as_of`` is the time of the question (default: now). Quotes and minus signs in the question have no special
        meaning.

        Raises ``EmptyQueryError``, ``InvalidLimitError`` (1 to ``SEARCH_LIMIT_MAX``), ``InvalidRequestError`` for times
        without a zone or in the wrong order, and the errors of ``Collection.search``.
        """
        self._words(query)
        checks.checked_limit(limit, SEARCH_LIMIT_MAX)
        checks.check_flags(deep_search=deep_search)
        source, moment = ("the clock's time", self._clock()) if as_of is None else ("as_of", as_of)
        now = checks.checked_time(source, moment)
        bound: TimeRange | None = checked_time_range(time_range)
        preferred: tuple[TimeRange, ...] = ()
        is_read = bound is None and self._time_expressions is not TimeExpressions.OFF
        time = time_expression(query, now) if is_read else None
        if time is not None and self._time_expressions is TimeExpressions.PREFER:
            preferred = preferred_ranges(time, now)
        elif time is not None and not time.is_soft:
            bound = (time.start, time.end)
        conditions = [parse_where(where), None if bound is None else parse_where(within(bound))]
        required = tuple(condition for condition in conditions if condition is not None)
        rewrites = await self._rewrites(query) if deep_search and self.needs_deep_search(query) else Rewrites()
        hits = await self._storage.search(
            query,
            where=And(required) if len(required) > 1 else next(iter(required), None),
            prefer=[within(span) for span in preferred],
            limit=limit,
            profile=self._profile,
            syntax=False,
            rewrites=rewrites.wordings,
            as_of=as_of,
            context=context,
        )
        # The storage may be another than a ``Collection``.
        if len(hits) > limit or len({hit.item_id for hit in hits}) < len(hits):
            raise RetrievalError(
                f"the storage returned {len(hits)} hits for a limit of {limit}, or one twice; it is not a Collection"
            )
        return Recalled(
            map(Entity.of, hits),
            degraded=rewrites.why_none,
            queries=rewrites.wordings,
            time=time,
            time_range=(preferred[0][0], preferred[-1][1]) if preferred else bound,
            notes=hits.notes,
            retrieval_id=hits.retrieval_id,
        )

    async def context_for(self, found: Sequence[Entity]) -> str:
        """Entities that ``search`` returned, as Markdown for a prompt. Raises ``InvalidRequestError`` for others."""
        entities = checked_entities(found)
        standings = await self._storage.standings([entity.id for entity in entities]) if entities else {}
        return context_text(entities, standings)

    def needs_deep_search(self, query: str) -> bool:
        """True if the question has a word that makes rewrites worthwhile (see ``deep_triggers``).

        Raises ``EmptyQueryError``, and ``InvalidRequestError`` if it is not a text.
        """
        return bool(deep_triggers(self._words(query)))

    async def rewrite_query(self, query: str) -> list[str]:
        """Two to three other wordings of the question; the question alone if there is no model, or it fails or is late.

        Raises ``EmptyQueryError``, and ``InvalidRequestError`` if the question is not a text.
        """
        self._words(query)
        rewrites = await self._rewrites(query)
        if rewrites.why_none is not None:
            _log.warning("the question is its only wording: %s", rewrites.why_none)
        return list(rewrites.wordings) or [query]

    def merge_rrf(self, *result_lists: list[Entity], k: int = RRF_K) -> list[Entity]:
        """Merges the lists by reciprocal rank fusion: score(d) = Σ 1 / (k + rank of d in the list), ranks from 1.

        Best first, equal scores by id; of duplicates in a list the first counts. Raises ``InvalidRequestError`` for a
        ``k`` that is not a whole number from 1 to a million, and for lists of other values.
        """
        checks.checked_whole("k", k, 1, K_MAX)
        rankings = {}
        entities: dict[str, Entity] = {}
        for number, entity_list in enumerate(result_lists, 1):
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

    def reset(self) -> None:
        """Reset the language model, if it has a ``reset``, to the initial state of its seed."""
        reset: Any = getattr(self._llm, "reset", None)
        if callable(reset):
            reset()

    def _words(self, query: object) -> str:
        """The words. Raises ``EmptyQueryError`` without words, ``InvalidRequestError`` for anything but a query."""
        words = checked_words(query, self._bounds)
        if not words:
            raise EmptyQueryError("the query is empty; give some words")
        return words

    async def _rewrites(self, query: str) -> Rewrites:
        return Rewrites() if self._rewriter is None else await self._rewriter.in_time(query)


class Memory(DualRetriever):
    """A retriever that stores entities too, in the collection that it searches."""

    async def store(self, entity: Entity) -> Entity:
        """Store the entity, replacing the one with its ``id``, and return it; an unchanged one costs nothing.

        Raises ``InvalidRequestError`` for another value, and the errors of ``Collection.add``.
        """
        if not isinstance(entity, Entity):
            raise InvalidRequestError(
                f"{checks.written(entity)} is not an entity; give Entity(name=..., content=...), or add items to the "
                "collection itself"
            )
        await self._storage.add([entity.as_item()])
        return entity

    recall = DualRetriever.search
