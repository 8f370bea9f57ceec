"""The retriever of recall: fast search, rewrites of the question, fusion; and ``Memory``, which stores and recalls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retrieval.apps.recall.entity import (
    Entity,
    Recalled,
    TimeExpressions,
    TimeRange,
    checked_entities,
    checked_time_range,
    context_text,
    merged_by_rrf,
    preferred_ranges,
    within,
)
from retrieval.apps.recall.rewriter import Rewriter, Rewrites, deep_triggers
from retrieval.collection import Collection, handle_of
from retrieval.domain.checks import (
    check_flags,
    check_functions,
    checked_choice,
    checked_positive,
    checked_time,
    checked_whole,
)
from retrieval.domain.errors import EmptyQueryError, InvalidRequestError, RetrievalError
from retrieval.domain.learning.context import Context
from retrieval.domain.llm import LLM, SECONDS_MAX, checked_llm
from retrieval.domain.search.filters import And, Filter, Where, parse_where
from retrieval.domain.search.profile import RRF_K, Fusion, FusionKind, Profile
from retrieval.domain.search.query import DEFAULT_BOUNDS
from retrieval.domain.search.time_expressions import TimeExpression, time_expression
from retrieval.engine.reading import check_limit
from retrieval.engine.request import checked_words
from retrieval.engine.stages import utc_now

RECALL_PROFILE = Profile(legs={"dense": 1.0, "lexical": 1.0}, fusion=Fusion(kind=FusionKind.RRF, k=RRF_K))
"""Searches by meaning and by words, again for each rewrite; reciprocal rank fusion (k = 60) merges all results."""


SEARCH_LIMIT_MAX = 100
"""The greatest number of entities that one search returns."""


REWRITE_TIMEOUT_SECONDS = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Time:
    """The times that a search requires or prefers."""

    expression: TimeExpression | None = None
    """The time that the question names."""
    bound: TimeRange | None = None
    """The range that hits must lie in; None: any time."""
    preferred: tuple[TimeRange, ...] = ()
    """The ranges whose items rank higher, the most preferred first: one after the other without a gap."""

    @property
    def range(self) -> TimeRange | None:
        """The range that is required or preferred."""
        return (self.preferred[0][0], self.preferred[-1][1]) if self.preferred else self.bound


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
        """``storage`` is searched; ``llm`` rewrites questions (None: every search is fast, without rewrites).

        - ``seed``: the same seed gives the same rewrites and so the same results; another seed asks the model for
          variations, which are cached separately.
        - ``profile``: None for the collection's own.
        - ``rewrite_timeout_seconds``: the seconds that a search waits for rewrites before it goes on without, above 0.
        - ``time_expressions``: the effect of "last week" in a question: ``filter``, ``prefer`` or ``off``.
        - ``clock``: returns the current time, in the time zone in which questions are interpreted.

        Raises ``InvalidRequestError`` for an invalid argument.
        """
        if not callable(getattr(storage, "search", None)):
            raise InvalidRequestError(
                f"storage is {storage!r:.80}; give a collection, such as await platform.collection('recall')"
            )
        if seed is not None:
            checked_whole("seed", seed)
        if profile is not None and not isinstance(profile, Profile):
            raise InvalidRequestError(f"profile is {profile!r:.80}; give a Profile, or None for the collection's own")
        check_functions(clock=clock)
        self._storage = storage
        # Tests search other storages too.
        self._bounds = handle_of(storage).parts.bounds if isinstance(storage, Collection) else DEFAULT_BOUNDS
        self._llm = checked_llm(llm)
        seconds = checked_positive("rewrite_timeout_seconds", rewrite_timeout_seconds, "2", SECONDS_MAX)
        self._rewriter = None if llm is None else Rewriter(storage, llm, seed, seconds)
        self._profile = profile
        self._time_expressions = checked_choice("mode of time_expressions", time_expressions, TimeExpressions)
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

        With ``deep_search``, a question that ``needs_deep_search`` is searched together with its rewrites. If they are
        late or unusable, the question alone is searched, and ``degraded`` says why. ``time_range`` bounds the event
        time, from the start (inclusive) to the end (exclusive); it takes precedence over a time in the question.
        ``where`` filters as in ``Collection.search``; ``as_of`` is the time of the question (default: now). The
        question is plain text: quotes and minus signs have no special meaning.

        Raises ``EmptyQueryError``, ``InvalidLimitError`` (1 to ``SEARCH_LIMIT_MAX``), ``InvalidRequestError`` for times
        without a zone or in the wrong order, and the errors of ``Collection.search``.
        """
        self._words(query)
        check_limit(limit, SEARCH_LIMIT_MAX)
        check_flags(deep_search=deep_search)
        now = checked_time("the clock's time", self._clock()) if as_of is None else checked_time("as_of", as_of)
        time = self._time(query, checked_time_range(time_range), now)
        conditions = [parse_where(where), parse_where(within(time.bound)) if time.bound else None]
        required = tuple(condition for condition in conditions if condition is not None)
        rewrites = await self._rewrites(query) if deep_search and self.needs_deep_search(query) else Rewrites()
        hits = await self._storage.search(
            query,
            where=And(required) if len(required) > 1 else next(iter(required), None),
            prefer=[within(span) for span in time.preferred],
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
            time=time.expression,
            time_range=time.range,
            notes=hits.notes,
            retrieval_id=hits.retrieval_id,
        )

    async def context_for(self, found: Sequence[Entity]) -> str:
        """Entities that ``search`` returned, as Markdown for a prompt: quoted, with their contributors and records.

        Raises ``InvalidRequestError`` for other values, and the errors of ``Collection.standings``.
        """
        entities = checked_entities(found)
        standings = await self._storage.standings([entity.id for entity in entities]) if entities else {}
        return context_text(entities, standings)

    def needs_deep_search(self, query: str) -> bool:
        """True if the question has a word that makes rewrites worthwhile (see ``deep_triggers``).

        Raises ``EmptyQueryError``, and ``InvalidRequestError`` if it is not a text.
        """
        return bool(deep_triggers(self._words(query)))

    async def rewrite_query(self, query: str) -> list[str]:
        """Two to three other wordings of the question, different from it and from one another.

        Without a model, and if the model fails or is late, returns the question alone, and logs why. Raises
        ``EmptyQueryError``, and ``InvalidRequestError`` if the question is not a text.
        """
        self._words(query)
        rewrites = await self._rewrites(query)
        if rewrites.why_none is not None:
            _log.warning("the question is its only wording: %s", rewrites.why_none)
        return list(rewrites.wordings) or [query]

    def merge_rrf(self, *result_lists: list[Entity], k: int = RRF_K) -> list[Entity]:
        """Merges the lists by reciprocal rank fusion: score(d) = Σ 1 / (k + rank of d in the list).

        Equal scores are ordered by id. Raises ``InvalidRequestError`` for a ``k`` that is not 1 to a million.
        """
        return merged_by_rrf(result_lists, k)

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

    def _time(self, query: str, time_range: TimeRange | None, now: datetime) -> _Time:
        if time_range is not None:
            return _Time(bound=time_range)
        if self._time_expressions is TimeExpressions.OFF:
            return _Time()
        expression = time_expression(query, now)
        if expression is None:
            return _Time()
        if self._time_expressions is TimeExpressions.FILTER:
            return _Time(expression, bound=None if expression.is_soft else (expression.start, expression.end))
        return _Time(expression, preferred=preferred_ranges(expression, now))


class Memory(DualRetriever):
    """A retriever that stores entities too, in the collection that it searches."""

    async def store(self, entity: Entity) -> Entity:
        """Store the entity, replacing the one with its ``id``, and return it; an unchanged one costs nothing.

        Raises ``InvalidRequestError`` for another value, and the errors of ``Collection.add``.
        """
        if not isinstance(entity, Entity):
            raise InvalidRequestError(
                f"{entity!r:.80} is not an entity; give Entity(name=..., content=...), or add items to the collection "
                "itself"
            )
        await self._storage.add([entity.as_item()])
        return entity

    recall = DualRetriever.search
