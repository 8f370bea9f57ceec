"""A search in progress: what its stages add, the order of its candidates, and the time that each stage takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from retrieval.adapters.clock import Clock
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import LegResults
from retrieval.adapters.tracing import SpanContext, span
from retrieval.domain.records.slate import Placed
from retrieval.domain.search.diversity import diversified, similarities_of
from retrieval.domain.search.fusion import Fused
from retrieval.domain.search.hit import Hit, Path, SearchResult
from retrieval.domain.search.profile import MAX_DEPTH, Profile, leg_of
from retrieval.domain.search.profile_parts import Combination, Exploration
from retrieval.domain.search.reranking import Rerank, Scored
from retrieval.engine import ranking
from retrieval.engine.decide import Decision, slate
from retrieval.engine.plan import SearchPlan, diverse_pool
from retrieval.engine.record import DecisionRecord
from retrieval.engine.request import SearchRequest

_NO_DECISION = DecisionRecord()
_NOT_FOUND = LegResults(rankings={}, path=Path.NONE, weighed=0)
_NOT_RERANKED = "the hits were not reranked: {}"


@dataclass(slots=True, eq=False)
class RunningSearch:
    """A search in progress; each stage adds its part."""

    request: SearchRequest
    plan: SearchPlan
    queries: tuple[Query, ...]
    """The query, followed by its rewrites."""
    seed: int
    """The seed of everything random in this search."""
    is_recorded: bool
    """Whether the search is to be recorded."""
    preferred: tuple[CandidateRequest, ...]
    """One request for each preferred filter, within which every leg runs once more."""
    first: LegResults = _NOT_FOUND
    """The candidates as found at first."""
    leg_results: LegResults = _NOT_FOUND
    """The candidates of the ranking, for which the legs may have gone deeper."""
    ranked: Sequence[Fused] = ()
    """The candidates in the order of fusion, at least as many as the record keeps."""
    pool: Sequence[Fused] = ()
    """The best candidates by relevance, including the hits."""
    reranked: Scored | None = None
    """The reranker's scores; None: the candidates were not reranked."""
    shown: Sequence[Fused] = ()
    """What is shown, best first, each item with the parts of its score."""
    slate: Sequence[Placed] = ()
    """The places of the hits; a hit without one is placed by its score."""
    decision: DecisionRecord = _NO_DECISION
    relevance: Mapping[str, float | None] = field(default_factory=dict)
    """The probability of being relevant by item id; None or missing: unknown."""
    passed: Sequence[Fused] = ()
    """What would be shown without a least score or relevance."""
    why_none: tuple[str, ...] = ()
    """The reasons why no candidate is shown."""
    hits: tuple[Hit, ...] = ()
    """What is shown, with the items."""

    @property
    def requests(self) -> tuple[CandidateRequest, ...]:
        """The requests to the store."""
        return (self.plan.request, *self.preferred)

    @property
    def query(self) -> Query:
        """The query without rewrites."""
        return self.queries[0]

    @property
    def groups(self) -> dict[str, Any]:
        """The candidates' values in the field of ``group_by``, by item id."""
        return {item_id: row[0] for item_id, row in self.leg_results.rows.items()}

    @property
    def profile(self) -> Profile:
        """The profile in effect; a search that is not recorded does not explore, because nothing could be learned."""
        profile = self.plan.profile
        is_unchanged = self.is_recorded or profile.exploration.is_off
        return profile if is_unchanged else replace(profile, exploration=Exploration())

    def order(self, most_ranked: int | None) -> Sequence[Fused]:
        """The candidates, best first, at most ``most_ranked`` (None: all); of each group only the best."""
        self.leg_results = ranking.with_refining(self.leg_results, self.plan.profile)
        self.ranked = ranking.ranking(self.leg_results, self.plan.profile, most_ranked, self._most_explained())
        return self.ranked if self.request.group_by is None else ranking.best_of_groups(self.ranked, self.groups)

    def page(self, ranked: Sequence[Fused]) -> Sequence[Fused]:
        """The best candidates without near-duplicates, from a larger pool where near-duplicates leave too few."""
        limit = self.request.limit
        if self.plan.profile.diversity.is_off or not self.leg_results.vectors.row_of:
            return ranked[:limit]
        shown = self._diverse(ranked[: diverse_pool(limit)])
        if len(shown) < limit < len(ranked):
            shown = self._diverse(ranked[:MAX_DEPTH])
        return shown

    def order_by_reranker(self, scored: Scored, rerank: Rerank) -> None:
        """Order the pool by the reranker's scores; if it failed, add a note and change nothing."""
        if scored.note:
            self.plan = replace(self.plan, notes=(*self.plan.notes, _NOT_RERANKED.format(scored.note)))
        elif scored.scores:
            self.pool = ranking.reranked(self.pool, self.leg_results, self.plan.profile, rerank, scored.scores)
            self.shown = self.page(self.pool)
            self.reranked = scored

    def order_by_decision(self, decision: Decision) -> None:
        """Order the hits as learned models and exploration decided."""
        self.decision = decision.record
        if not decision.is_open:
            return
        first = self.page(decision.ranked)
        names = {candidate.item_id for candidate in first}
        # Near-duplicates are left out of a diverse page, and are not explored either.
        others = decision.ranked if decision.candidates and self.profile.diversity.is_off else ()
        order = [*first, *(candidate for candidate in others if candidate.item_id not in names)]
        self.slate, self.decision = slate(decision, order, self.profile, self.request.limit, self.seed)
        self.shown = [decision.explain(placed.item_id) for placed in self.slate]

    def is_exhausted(self, depth: int) -> bool:
        """True if more candidates would not fill the page.

        With signals, one leg with at least ``limit`` candidates is enough: any missing hit was dropped for its low
        score, and further candidates score no higher.
        """
        found, plan = self.leg_results, self.plan
        legs = {name: candidates for name, candidates in found.rankings.items() if leg_of(name) in plan.request.legs}
        is_complete = all(found.brought.get(name, len(candidates)) < depth for name, candidates in legs.items())
        if (
            plan.profile.signals
            and max(map(len, legs.values()), default=0) >= self.request.limit
            and self.request.group_by is None
        ):
            return not plan.is_diverse or is_complete
        return is_complete

    def could_rise(self, shown: Sequence[Fused]) -> bool:
        """Whether a dropped candidate can score more than the last hit, or fill the page (Fagin et al., 2003)."""
        dropped_score = self.leg_results.dropped_score
        if dropped_score is None:
            return False
        least = self.plan.profile.min_score or 0.0
        return dropped_score > (shown[-1].score if len(shown) >= self.request.limit else least)

    def _diverse(self, pool: Sequence[Fused]) -> list[Fused]:
        similarities = similarities_of([candidate.item_id for candidate in pool], self.leg_results.vectors)
        diversity, scores = self.plan.profile.diversity, [candidate.score for candidate in pool]
        return [pool[position] for position in diversified(scores, similarities, diversity, self.request.limit)]

    def _most_explained(self) -> int | None:
        """The most candidates whose scores need their parts (None: all); a stack has parts of its own."""
        profile = self.plan.profile
        if profile.learned.combination is not Combination.LOGIT_STACK or profile.rerank is not None:
            return None
        may_be_hits = profile.diversity.is_off and profile.exploration.is_off and self.request.group_by is None
        return self.request.limit if may_be_hits else None


@dataclass(slots=True)
class Stages:
    """A context manager that measures the milliseconds of each stage; a stage ends where the next begins."""

    clock: Clock
    search_span: Span | None
    """None: no spans are recorded."""
    laps: dict[str, float] = field(default_factory=dict)
    """The seconds of each stage."""
    started: float = field(init=False)
    last: float = field(init=False)
    _lap: str = ""
    _open: SpanContext | None = None

    def __enter__(self) -> Self:
        self.started = self.last = self.clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            self._open.__exit__(kind, error, trace)

    def begin(self, name: str, lap: str = "") -> Span | None:
        """End the current stage and begin the next; returns its span, None if spans are not recorded.

        ``lap``: the name under which its time is added up; empty: the stage is not timed.
        """
        now = self.clock()
        if self._lap:
            self.laps[self._lap] = self.laps.get(self._lap, 0.0) + now - self.last
            self.last = now
        self._lap = lap
        if self.search_span is None:
            return None
        if self._open is not None:
            self._open.__exit__(None, None, None)
        self._open = span(name)
        return self._open.__enter__()

    def timings(self) -> Mapping[str, float]:
        """The milliseconds of every finished stage, and the total, to the microsecond."""
        laps = {**self.laps, "total": self.last - self.started}
        return {lap: int(seconds * 1e6 + 0.5) / 1e3 for lap, seconds in laps.items()}  # ``round`` would take long


def trace_search(root: Span, tenant_id: int, collection: StoredCollection, results: Sequence[SearchResult]) -> None:
    """Set the tenant, the number of searches, the path and the results as attributes of the span."""
    first = results[0]
    root.set_attributes(
        {
            "retrieval.tenant_id": tenant_id,
            "retrieval.collection": collection.name,
            "retrieval.profile_version": first.profile_version or 0,
            "retrieval.searches": len(results),
            "retrieval.path": first.path.value,
            "retrieval.why": first.why,
            "retrieval.weighed": first.weighed,
            "retrieval.hits": sum(len(result) for result in results),
            "retrieval.notes": len(first.notes),
        }
    )
    if first.retrieval_id is not None:
        root.set_attribute("retrieval.retrieval_id", str(first.retrieval_id))


def trace_candidates(leg_span: Span, request: CandidateRequest, each: Sequence[LegResults]) -> None:
    """Add an event to the span for each leg, because one statement finds the candidates of all legs."""
    leg_span.set_attributes(
        {
            "retrieval.legs": sorted({leg for leg_results in each for leg in leg_results.rankings}),
            "retrieval.depth": request.depth,
            "retrieval.effort": request.effort,
            "retrieval.filtered": request.condition is not None,
            "retrieval.fell_short": any(leg_results.fell_short for leg_results in each),
        }
    )
    for leg_results in each:
        for leg, candidates in leg_results.rankings.items():
            attributes: dict[str, AttributeValue] = {"retrieval.leg": leg, "retrieval.candidates": len(candidates)}
            if leg.startswith("dense"):
                attributes |= {"retrieval.path": leg_results.path.value, "retrieval.weighed": leg_results.weighed}
            leg_span.add_event("leg", attributes)
