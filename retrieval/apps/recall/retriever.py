"""The retriever of recall: fast search, rewrites where they help, fusion; and ``Memory``, which stores and finds."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from retrieval.apps.recall.entity import (
    Entity,
    Recalled,
    TimeExpressions,
    TimeRange,
    checked_time_range,
    context_text,
    merged_by_rrf,
    preferred_ranges,
    within,
)
from retrieval.apps.recall.rewriter import Rewriter, Rewritten, deep_triggers
from retrieval.collection import Collection
from retrieval.domain.checks import is_whole
from retrieval.domain.errors import EmptyQueryError, InvalidLimitError, InvalidRequestError, RetrievalError
from retrieval.domain.learning.context import Context
from retrieval.domain.llm import LLM, is_llm
from retrieval.domain.search.filters import And, Filter, Where, parse_where
from retrieval.domain.search.profile import RRF_K, Fusion, FusionKind, Profile
from retrieval.domain.search.time_expressions import TimeExpression, time_expression
from retrieval.engine.request import checked_words

RECALL_PROFILE = Profile(legs={"dense": 1.0, "lexical": 1.0}, fusion=Fusion(kind=FusionKind.RRF, k=RRF_K))
"""The profile: meaning and words, once more for each rewrite, all merged by reciprocal rank fusion with k = 60."""


SEARCH_LIMIT_MAX = 100
"""The most entities that one search gives."""


def check_parts(storage: object, llm: object, seed: object, profile: object) -> None:
    """Raise ``InvalidRequestError`` for arguments that no retriever can be made of."""
    if not callable(getattr(storage, "search", None)):
        raise InvalidRequestError(
            f"storage is {storage!r:.80}; give a collection, such as await platform.collection('recall')"
        )
    if llm is not None and not is_llm(llm):
        raise InvalidRequestError(f"llm is {llm!r:.80}; give a language model, such as platform.llm, or None")
    if seed is not None and not is_whole(seed):
        raise InvalidRequestError(f"seed is {seed!r:.80}; it must be a whole number, or None")
    if profile is not None and not isinstance(profile, Profile):
        raise InvalidRequestError(f"profile is {profile!r:.80}; give a Profile, or None for the collection's own")


def check_query(query: object) -> None:
    """Raise ``EmptyQueryError`` for a query without words, ``InvalidRequestError`` for one that is no text."""
    if not checked_words(query):
        raise EmptyQueryError("the query is empty; give some words")


def check_limit(limit: object) -> None:
    """Raise ``InvalidLimitError`` for anything but a whole number from 1 to ``SEARCH_LIMIT_MAX``."""
    if not is_whole(limit, 1, SEARCH_LIMIT_MAX):
        raise InvalidLimitError(f"limit is {limit!r:.80}; it must be a whole number from 1 to {SEARCH_LIMIT_MAX}")


def checked_moment(as_of: Any) -> datetime | None:
    """The moment that a question is asked at. Raises ``InvalidRequestError`` for one without a zone."""
    if as_of is not None and (not isinstance(as_of, datetime) or as_of.utcoffset() is None):
        raise InvalidRequestError(
            f"as_of is {as_of!r:.80}; give a time with a time zone, such as datetime(2026, 5, 1, tzinfo=UTC)"
        )
    return as_of


def checked_seconds(seconds: Any) -> float:
    """The seconds to wait for rewrites. Raises ``InvalidRequestError`` for anything but a number above 0."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise InvalidRequestError(f"rewrite_timeout_seconds is {seconds!r:.80}; it must be a number above 0")
    return float(seconds)


def checked_mode(mode: str) -> TimeExpressions:
    """The treatment of times in questions. Raises ``InvalidRequestError`` for an unknown one."""
    try:
        return TimeExpressions(mode)
    except ValueError:
        known = ", ".join(TimeExpressions)
        raise InvalidRequestError(f"time_expressions is {mode!r:.80}; it is one of {known}") from None


REWRITE_TIMEOUT_SECONDS = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Time:
    """The treatment of time in a search."""

    said: TimeExpression | None = None
    bound: TimeRange | None = None
    """The range outside of which nothing is found; None: everything may be."""
    preferred: tuple[TimeRange, ...] = ()
    """The ranges that rank higher, the most preferred first: one after the other without a gap."""

    @property
    def range(self) -> TimeRange | None:
        """All that is bound to or preferred."""
        return (self.preferred[0][0], self.preferred[-1][1]) if self.preferred else self.bound


def utc_now() -> datetime:
    """This moment, in UTC."""
    return datetime.now(UTC)


class DualRetriever:
    """Fast search, and rewrites by a language model where a question deserves them."""

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
        """``storage`` is searched; ``llm`` rewrites questions (None: every search is a fast one).

        - ``seed``: the same seed gives the same rewrites and so the same results; under another one the model is told
          to vary them, and its answers are kept apart.
        - ``profile``: None for the collection's own.
        - ``rewrite_timeout_seconds``: the seconds that a search waits for rewrites, above 0; then it goes without them.
        - ``time_expressions``: the effect of "last week" in a question: ``filter``, ``prefer`` or ``off``.
        - ``clock``: gives the present moment, in the time zone in which questions are read.

        Raises ``InvalidRequestError`` for a wrong argument.
        """
        check_parts(storage, llm, seed, profile)
        self._storage = storage
        self._llm = llm
        seconds = checked_seconds(rewrite_timeout_seconds)
        self._rewriter = None if llm is None else Rewriter(storage, llm, seed, seconds)
        self._profile = profile
        self._time_expressions = checked_mode(time_expressions)
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

        With ``deep_search`` the rewrites of a question that ``needs_deep_search`` are searched together with it. If
        they do not come in time or cannot be used, the question alone is searched, and ``degraded`` says why.
        ``time_range`` bounds the event time: from the first moment on, before the second; it takes precedence over a
        time in the question. ``where`` filters as in ``Collection.search``; ``as_of`` is the moment of the question
        (default: now). The question is plain text: quotes and a minus have no meaning.

        Raises ``EmptyQueryError``, ``InvalidLimitError`` (1 to ``SEARCH_LIMIT_MAX``), ``InvalidRequestError`` for times
        without a zone or in the wrong order, and what ``Collection.search`` raises.
        """
        check_query(query)
        check_limit(limit)
        time = self._time(query, checked_time_range(time_range), checked_moment(as_of) or self._clock())
        condition = parse_where(where)
        rewritten = await self._rewritten(query) if deep_search and self.needs_deep_search(query) else Rewritten()
        found = await self._storage.search(
            query,
            where=_bounded(condition, time),
            prefer=[within(span) for span in time.preferred],
            limit=limit,
            profile=self._profile,
            syntax=False,
            rewrites=rewritten.rewrites,
            as_of=as_of,
            context=context,
        )
        return Recalled(
            _checked_answer([Entity.of(hit) for hit in found], limit),
            degraded=rewritten.why_none,
            queries=rewritten.rewrites,
            time=time.said,
            time_range=time.range,
            notes=found.notes,
            retrieval_id=found.retrieval_id,
        )

    async def context_for(self, found: Sequence[Entity]) -> str:
        """Entities that ``search`` returned, as Markdown for a prompt: quoted, with their contributors and records.

        Raises what ``Collection.standings`` raises.
        """
        entities = list(found)
        standings = await self._storage.standings([entity.id for entity in entities]) if entities else {}
        return context_text(entities, standings)

    def needs_deep_search(self, query: str) -> bool:
        """True if the question holds a word that makes rewrites worthwhile (see ``deep_triggers``).

        Raises ``EmptyQueryError``, and ``InvalidRequestError`` for what is no text.
        """
        check_query(query)
        return bool(deep_triggers(checked_words(query)))

    async def rewrite_query(self, query: str) -> list[str]:
        """Two to three other wordings of the question, different from it and from one another.

        Without a model, or if the model fails or does not answer in time, the question alone is given, and the log says
        why. Raises ``EmptyQueryError``, and ``InvalidRequestError`` for what is no text.
        """
        check_query(query)
        rewritten = await self._rewritten(query)
        if rewritten.why_none is not None:
            _log.warning("the question is its only wording: %s", rewritten.why_none)
        return list(rewritten.rewrites) or [query]

    def merge_rrf(self, *result_lists: list[Entity], k: int = RRF_K) -> list[Entity]:
        """The lists as one, by reciprocal rank fusion: score(d) = Σ 1 / (k + rank of d in the list).

        Equal scores are ordered by id. Raises ``InvalidRequestError`` for a ``k`` that is not 1 to a million.
        """
        return merged_by_rrf(result_lists, k)

    def reset(self) -> None:
        """Return to the initial state of the seed, also of a language model that has one."""
        reset: Any = getattr(self._llm, "reset", None)
        if callable(reset):
            reset()

    async def _rewritten(self, query: str) -> Rewritten:
        return Rewritten() if self._rewriter is None else await self._rewriter.in_time(query)

    def _time(self, query: str, given: TimeRange | None, now: datetime) -> _Time:
        if given is not None:
            return _Time(bound=given)
        if self._time_expressions is TimeExpressions.OFF:
            return _Time()
        said = time_expression(query, now)
        if said is None:
            return _Time()
        if self._time_expressions is TimeExpressions.FILTER:
            return _Time(said, bound=None if said.is_soft else (said.start, said.end))
        return _Time(said, preferred=preferred_ranges(said, now))


def _bounded(condition: Filter | None, time: _Time) -> Filter | None:
    bound = None if time.bound is None else parse_where(within(time.bound))
    parts = tuple(part for part in (condition, bound) if part is not None)
    return And(parts) if len(parts) > 1 else parts[0] if parts else None


def _checked_answer(entities: list[Entity], limit: int) -> list[Entity]:
    """Check the contract of every answer, whatever the storage is."""
    if len(entities) > limit:
        raise RetrievalError(f"the storage gave {len(entities)} hits for a limit of {limit}; it is no Collection")
    if len({entity.id for entity in entities}) < len(entities):
        raise RetrievalError("the storage gave an item twice; it is no Collection")
    return entities


class Memory:
    """A collection to store entities in, and a ``DualRetriever`` to find them."""

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
        """Takes the arguments of ``DualRetriever``, with the same errors."""
        self._storage = storage
        self._retriever = DualRetriever(
            storage,
            llm,
            seed,
            profile=profile,
            rewrite_timeout_seconds=rewrite_timeout_seconds,
            time_expressions=time_expressions,
            clock=clock,
        )

    async def store(self, entity: Entity) -> Entity:
        """Store the entity in place of the one with its ``id``, and give it back; an unchanged one costs nothing.

        Raises ``InvalidRequestError`` for what is no entity, and what ``Collection.add`` raises.
        """
        if not isinstance(entity, Entity):
            raise InvalidRequestError(
                f"an entity is stored, not {entity!r:.80}; give Entity(name=..., content=...), or add items to the "
                "collection itself"
            )
        await self._storage.add([entity.as_item()])
        return entity

    async def recall(
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
        """The entities for a question, best first: see ``DualRetriever.search``, with the same errors."""
        return await self._retriever.search(
            query,
            limit=limit,
            deep_search=deep_search,
            time_range=time_range,
            where=where,
            as_of=as_of,
            context=context,
        )
