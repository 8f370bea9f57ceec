"""A search in progress: what its stages add, and the order of its candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import LegResults
from retrieval.domain.records.slate import Placed
from retrieval.domain.search.diversity import diversified, similarities_of
from retrieval.domain.search.fusion import Fused
from retrieval.domain.search.hit import Hit, Path
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
    query: Query
    """The query without rewrites."""
    queries: tuple[Query, ...]
    """The query, followed by its rewrites."""
    seed: int
    """The seed of everything random in this search."""
    is_recorded: bool
    """Whether the search is to be recorded."""
    requests: tuple[CandidateRequest, ...]
    """The requests to the store: the plan's, then one for each preferred filter, in which every leg runs once more."""
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
    earlier: int = 0
    """The number of the first candidates shown that earlier pages passed, with those below the least score."""
    passed: Sequence[Fused] = ()
    """What would be shown without a least score or relevance."""
    why_none: tuple[str, ...] = ()
    """The reasons why no candidate is shown."""
    hits: tuple[Hit, ...] = ()
    """What is shown, with the items."""

    @property
    def groups(self) -> dict[str, Any]:
        """The candidates' values in the field of ``group_by``, by item id."""
        return {item_id: row[0] for item_id, row in self.leg_results.rows.items()}

    def page_keys(self, candidates: Sequence[Fused]) -> dict[str, str]:
        """The key of each candidate by its id: the id itself, or with ``group_by`` its group. One page shows a key."""
        item_ids = [candidate.item_id for candidate in candidates]
        if self.request.group_by is None:
            return dict(zip(item_ids, item_ids, strict=True))
        groups = self.groups
        return {item_id: ranking.group_key(item_id, groups.get(item_id)) for item_id in item_ids}

    @property
    def profile(self) -> Profile:
        """The profile in effect.

        A search that is not recorded does not explore, because nothing could be learned; nor does a further page,
        because the hits of earlier pages stay.
        """
        profile, after = self.plan.profile, self.request.after
        may_explore = self.is_recorded and (after is None or not after.passed)
        return profile if may_explore or profile.exploration.is_off else replace(profile, exploration=Exploration())

    @property
    def wanted(self) -> int:
        """The number of candidates to show, with those that earlier pages passed, as far as they were found again."""
        after = self.request.after
        return self.request.limit - (0 if after is None else len(after.passed) - self.earlier)

    def order(self, most_ranked: int | None) -> Sequence[Fused]:
        """The candidates, best first, at most ``most_ranked`` (None: all); of each group only the best."""
        self.leg_results = ranking.with_refining(self.leg_results, self.plan.profile)
        self.ranked = ranking.ranking(self.leg_results, self.plan.profile, most_ranked, self._most_explained())
        return self.ranked if self.request.group_by is None else ranking.best_of_groups(self.ranked, self.groups)

    def page(self, ranked: Sequence[Fused]) -> Sequence[Fused]:
        """What earlier pages passed, and after it the best candidates, without near-duplicates.

        These come from a larger pool where near-duplicates leave too few.
        """
        after = self.request.after
        if after is not None and after.passed:
            has_passed = list(map(after.has_passed, self.page_keys(ranked).values()))
            others = [candidate for candidate, is_known in zip(ranked, has_passed, strict=True) if not is_known]
            ranked, self.earlier = [*compress(ranked, has_passed), *others], sum(has_passed)
        limit = self.wanted
        if not self.plan.is_diverse or not self.leg_results.vectors.row_of:
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
        others = decision.ranked if decision.candidates and not self.plan.is_diverse else ()
        order = [*first, *(candidate for candidate in others if candidate.item_id not in names)]
        self.slate, self.decision = slate(decision, order, self.profile, self.wanted, self.seed)
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
        return dropped_score > (shown[-1].score if len(shown) >= self.wanted else least)

    def _diverse(self, pool: Sequence[Fused]) -> list[Fused]:
        similarities = similarities_of([candidate.item_id for candidate in pool], self.leg_results.vectors)
        diversity, scores = self.plan.profile.diversity, [candidate.score for candidate in pool]
        # The candidates of earlier pages come first, so that no page has a near-duplicate of them.
        chosen = diversified(scores, similarities, diversity, self.wanted, first=self.earlier)
        return [pool[position] for position in chosen]

    def _most_explained(self) -> int | None:
        """The most candidates whose scores need their parts (None: all); a stack has parts of its own."""
        plan, profile = self.plan, self.plan.profile
        if profile.learned.combination is not Combination.LOGIT_STACK or profile.rerank is not None:
            return None
        explores = not plan.is_final and not profile.exploration.is_off
        return None if explores or plan.is_diverse or self.request.group_by is not None else self.request.limit
