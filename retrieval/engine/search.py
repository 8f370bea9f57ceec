"""One search, in the order of its stages: embed, plan, candidates, signals, rank, learn, explore, items, record."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.items import HitRows, read_hit_rows
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import LegResults, find_candidates, find_candidates_of_each, settings
from retrieval.adapters.tracing import span
from retrieval.domain.items.embedding import Vector
from retrieval.domain.learning.context import Context
from retrieval.domain.observer import Observer
from retrieval.domain.records.retrieval_id import uuid7
from retrieval.domain.records.slate import Placed
from retrieval.domain.search.diversity import Diversity, PairSimilarities, diversified
from retrieval.domain.search.filters import extent, is_small
from retrieval.domain.search.fusion import Candidate, Fused
from retrieval.domain.search.hit import Hit, SearchResult
from retrieval.domain.search.profile import MAX_DEPTH, LegName, Profile, leg_of
from retrieval.domain.search.profile_parts import Combination, Exploration
from retrieval.domain.search.query import with_synonyms
from retrieval.domain.search.reranking import Rerank, Reranking, Scored, text_for_reranker
from retrieval.domain.search.signals import tokens
from retrieval.engine.conditions import check_condition, order_notes
from retrieval.engine.decide import Decider, Decision, DecisionRequest, may_decide, slate
from retrieval.engine.plan import SCORED_BOTH_WAYS, SearchPlan, account, diverse_pool, make_plan, plan_preferred
from retrieval.engine.ranking import (
    Columns,
    Signaller,
    best_of_groups,
    check_calibrated,
    fusion_name,
    good_enough,
    hits,
    merged,
    present,
    ranking,
    relevance_by_id,
    reranked,
    with_refining,
)
from retrieval.engine.record import AnsweredSearch, DecisionRecord, EncodedRecord, Recordable
from retrieval.engine.recorder import Recorder, Sampler, is_sampled
from retrieval.engine.request import (
    QueryVectors,
    SearchRequest,
    query_vectors,
)
from retrieval.engine.stages import Clock, Stages, moment, trace_candidates, trace_search


@dataclass(frozen=True, slots=True)
class PlannedSearch:
    """A search with its plan."""

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

    @property
    def requests(self) -> tuple[CandidateRequest, ...]:
        """The requests to the store."""
        return (self.plan.request, *self.preferred)

    @property
    def query(self) -> Query:
        """The query without rewrites."""
        return self.queries[0]

    @property
    def profile(self) -> Profile:
        """The profile in effect; a search that is not recorded does not explore, because nothing could be learned."""
        profile = self.plan.profile
        is_unchanged = self.is_recorded or profile.exploration.is_off
        return profile if is_unchanged else replace(profile, exploration=Exploration())


@dataclass(frozen=True, slots=True)
class RankedSearch:
    """A search whose candidates are ranked by relevance."""

    shown: list[Fused]
    """The hits, best first."""
    pool: list[Fused]
    """The best candidates by relevance, including the hits."""
    leg_results: LegResults
    reranked: Scored | None = None
    """The reranker's scores; None: the candidates were not reranked."""


@dataclass(frozen=True, slots=True)
class DecidedSearch:
    """A search whose hits are chosen by relevance, learned model, exploration, and least scores."""

    ranked: RankedSearch
    slate: Sequence[Placed]
    decision: DecisionRecord
    shown: list[Fused]
    """The items in the order of the slate, each with the parts of its score."""
    relevance: Mapping[str, float | None] = field(default_factory=dict)
    """The probability of being relevant by item id; None or missing: unknown."""
    why_none: tuple[str, ...] = ()
    """The reasons why no candidate is shown."""
    found: Sequence[Fused] = ()
    """The items before those of a low score or relevance are left out."""


_DEEPER = 4
"""The factor by which the depth grows when groups or near-duplicates leave too few candidates."""

_DEEPEST = 50_000
"""The greatest depth of a leg when groups leave too few candidates; larger groups may leave the page short."""


_NO_DECISION = DecisionRecord()
_ITEM_ID = itemgetter(0)

_MOST_PLANS = 200

_FEWER_REWRITES = "rewrites without a vector were left out: {}"

_NOT_RERANKED = "the hits were not reranked: {}"
_NO_WORDS = "the search has no words"

NOT_RECORDED = "the search was not recorded; retrieval status says how many were not, and why"
_WAITING = (
    "{} of {} hits wait for the vector of their text; make the vectors with: retrieval jobs run embed --collection {}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Searcher:
    """Answers the searches of one collection."""

    database: Database
    tenant_id: int
    collection: StoredCollection
    embedder: CachedEmbedder | None
    sampler: Sampler | None = None
    """Stores some of the searches as samples; None: stores none."""
    recorder: Recorder | None = None
    """Records the searches; None: records none."""
    decider: Decider | None = None
    """Decides the order by learned models and exploration; None: relevance alone decides."""
    reranker: Reranking | None = None
    """Reranks where the profile says so; None: nothing is reranked."""
    observer: Observer | None = None
    """Called after each search; None: no observer."""
    chance: random.Random = field(default_factory=random.Random)
    clock: Clock = time.perf_counter
    wall_clock: Clock = time.time
    """Seconds since 1970, for the time of a search."""
    _plans: dict[Hashable, SearchPlan] = field(default_factory=dict)
    """Cached plans: most searches differ only in their words and vectors, few in their filters."""

    async def search_each(self, requests: Sequence[SearchRequest], context: Context = Context()) -> list[SearchResult]:
        """The best hits of each request, each explained; the requests differ only in their words and vectors.

        All texts are embedded in one call; all candidates are read in one round trip, and all items in another. If the
        embedder fails, the searches run without the dense leg, and a note says so; if there is no other leg, the
        embedder's error is raised. Raises ``UnknownFieldError`` and the errors of ``checked_vectors``.
        """
        if not requests:
            return []
        is_long = self._is_long(requests)
        with span("retrieval.search") as search_span, Stages(self.clock, search_span) as stages:
            stages.begin("retrieval.embed", "embed")
            wordings = [wording for request in requests for wording in request.wordings]
            vectors = await query_vectors(self.collection, self.embedder, wordings)
            stages.begin("retrieval.plan", "embed")
            plan = partial(self._prepare_each, requests, vectors)
            searches = await aside(plan, is_long=True) if is_long else plan()
            profile = searches[0].plan.profile  # the same for all searches of a call
            leg_span = stages.begin("retrieval.candidates", "candidates")
            each = await self._find_each(searches, is_long=is_long)
            if leg_span is not None:
                trace_candidates(leg_span, searches[0].plan.request, each)
            if self.sampler is not None:
                for planned, leg_results in zip(searches, each, strict=True):
                    self.sampler.offer(planned.plan.request, planned.query, leg_results)
            stages.begin("retrieval.rank", "learn")
            if profile.signals or self.collection.has_expiring:
                each = await self._add_signals(searches, each)
            rankings = [
                await self._rank(search, leg_results, is_long=is_long)
                for search, leg_results in zip(searches, each, strict=True)
            ]
            if profile.rerank is not None and self.reranker is not None:
                stages.begin("retrieval.rerank", "rerank")
                searches, rankings = await self._rerank(searches, rankings, profile.rerank, self.reranker)
            stages.begin("retrieval.learn", "learn")
            finals = await self._decide(searches, rankings, context)
            finals = [self._add_relevance(*pair) for pair in zip(searches, finals, strict=True)]
            stages.begin("retrieval.items", "items")
            rows = await self._rows(searches, finals)
            stages.begin("retrieval.record")
            timings = stages.timings()
            answer = partial(self._answers, searches, finals, rows.columns, context, timings)
            answers = await aside(answer, is_long=True) if is_long else answer()
            are_stored = await self._record(answers, searches, is_long=is_long)
            parts = zip(searches, answers, each, are_stored, finals, strict=True)
            results = [
                self._result(
                    *answer, first, final, rows=rows, is_stored=is_stored, is_lost=search.is_recorded and not is_stored
                )
                for search, answer, first, is_stored, final in parts
            ]
            if search_span is not None:
                trace_search(search_span, self.tenant_id, self.collection, results)
        if self.observer is not None:
            self.observer.searched(results)
        return results

    async def leg_rankings(self, request: SearchRequest) -> dict[str, list[Candidate]]:
        """Each leg's candidates before fusion, for tuning."""
        vectors = await query_vectors(self.collection, self.embedder, [request])
        [vector] = vectors.vectors
        plan = self._plan(request, vectors.why_none if vector is None else None)
        query = _query(request, vector, self._now(), plan.profile)
        legs = plan.request.legs
        bare = replace(
            plan.request,
            with_items=False,
            with_vectors=False,
            with_both_scores=SCORED_BOTH_WAYS.issubset(legs),
            ranks_both_scores=True,
        )
        return (await find_candidates(self.database, self.tenant_id, bare, query)).rankings

    def _is_long(self, requests: Sequence[SearchRequest]) -> bool:
        """True if the requests need so much computation that it runs outside of the event loop."""
        values = 0
        for request in requests:
            profile = request.profile or self.collection.profile
            rankings = len(profile.legs) * (1 + len(request.rewrites)) * (1 + len(request.preferred))
            values += rankings * max(profile.depth, request.limit)
            if request.condition is not None or request.preferred:
                filters = (request.condition, *request.preferred)
                values += sum(extent(condition).values for condition in filters if condition is not None)
        return values >= LONG

    def _prepare_each(self, requests: Sequence[SearchRequest], vectors: QueryVectors) -> list[PlannedSearch]:
        remaining = iter(vectors.vectors)
        return [
            self._prepare(request, [next(remaining) for _ in request.wordings], vectors.why_none)
            for request in requests
        ]

    def _prepare(self, request: SearchRequest, vectors: Sequence[Vector | None], why_none: str | None) -> PlannedSearch:
        now = self._now()
        why_no_vector = why_none if vectors[0] is None else None
        plan = self._plan(request, why_no_vector)
        queries: tuple[Query, ...] = (_query(request, vectors[0], now, plan.profile),)
        if request.rewrites:
            rewrites = zip(request.wordings[1:], vectors[1:], strict=True)
            queries += tuple(_query(wording, vector, now, plan.profile) for wording, vector in rewrites)
            if LegName.DENSE in plan.request.legs and not all(query.vector is not None for query in queries):
                # All wordings run the same legs.
                queries = tuple(query for query in queries if query.vector is not None)
                plan = replace(plan, notes=(*plan.notes, _FEWER_REWRITES.format(why_none)))
        is_recorded = self.recorder is not None and is_sampled(plan.profile.recording, self.chance)
        preferred: tuple[CandidateRequest, ...] = ()
        if request.preferred:
            preferred = tuple(self._plan_preferred(narrowed, why_no_vector, plan) for narrowed in request.narrowed)
        return PlannedSearch(request, plan, queries, self.chance.getrandbits(63), is_recorded, preferred)

    def _plan(self, request: SearchRequest, why_no_vector: str | None) -> SearchPlan:
        check_calibrated(self.collection, request)
        profile = request.profile or self.collection.profile
        key: Hashable = None
        if not request.preferred:
            shape = (request.limit, request.group_by, bool(request.query), request.vector is None, why_no_vector)
            inputs = (bool(request.rewrites), bool(request.entities), bool(request.tags))
            key = (id(profile), id(request.condition), *shape, *inputs)
            if (cached := self._plans.get(key)) is not None:
                return cached
        check_condition(request.condition, self.collection, also=request.group_by)
        is_final = self.decider is None or not may_decide(self.collection, profile)
        plan = make_plan(self.collection, request, why_no_vector, is_final=is_final)
        if notes := order_notes(request.condition, self.collection.attributes, self.collection.filterable):
            plan = replace(plan, notes=(*plan.notes, *notes))
        if key is not None and is_small(request.condition):
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan  # the plan keeps profile and filter alive, so their id() stays theirs
        return plan

    def _plan_preferred(self, narrowed: SearchRequest, why_no_vector: str | None, plan: SearchPlan) -> CandidateRequest:
        check_calibrated(self.collection, narrowed)
        check_condition(narrowed.condition, self.collection, also=narrowed.group_by)
        return plan_preferred(self.collection, narrowed, why_no_vector, plan)

    async def _find(
        self, queries: Sequence[Query], requests: Sequence[CandidateRequest], *, is_long: bool
    ) -> LegResults:
        """The candidates of a query and its rewrites, by each of the requests."""
        each = [await find_candidates_of_each(self.database, self.tenant_id, request, queries) for request in requests]
        return await aside(partial(merged, *each), is_long=is_long)

    async def _find_each(self, searches: Sequence[PlannedSearch], *, is_long: bool) -> list[LegResults]:
        """The candidates of each search. Searches with equal requests to the store share a round trip."""
        if len(searches) == 1:
            return [await self._find(searches[0].queries, searches[0].requests, is_long=is_long)]
        results: list[list[list[LegResults]]] = [[] for _ in searches]
        for request in dict.fromkeys(request for search in searches for request in search.requests):
            places = [place for place, search in enumerate(searches) if request in search.requests]
            queries = [query for place in places for query in searches[place].queries]
            answers = iter(await find_candidates_of_each(self.database, self.tenant_id, request, queries))
            for place in places:
                results[place].append([next(answers) for _ in searches[place].queries])
        return await aside(lambda: [merged(*each) for each in results], is_long=is_long)

    async def _add_signals(self, searches: Sequence[PlannedSearch], each: list[LegResults]) -> list[LegResults]:
        """The candidates that have not expired, with the signals of the profile, which all searches share."""
        profile = searches[0].plan.profile
        signaller, now = Signaller(self.database, self.tenant_id, self.collection), self._now()
        if profile.signals:
            return await signaller.add_signals(each, profile, [search.query for search in searches], now)
        return await signaller.remove_expired(each, now)

    def _now(self) -> datetime:
        return moment(self.wall_clock())

    async def _rank(self, planned: PlannedSearch, leg_results: LegResults, *, is_long: bool) -> RankedSearch:
        """Rank the candidates; the legs go deeper until there are enough hits, or no more candidates."""
        requests, profile, limit = planned.requests, planned.plan.profile, planned.request.limit
        is_diverse, pool = planned.plan.is_diverse, planned.plan.pool
        # Signals are computed for every candidate, so their number stays small.
        deepest = MAX_DEPTH if is_diverse or profile.signals else _DEEPEST
        # Without diversity and groups, no ranking beyond the pool is needed.
        most_ranked = None if is_diverse or planned.request.group_by is not None else pool
        while True:
            leg_results = with_refining(leg_results, profile)
            in_order = partial(_in_order, planned, leg_results, most_ranked)
            ranked = await aside(in_order, is_long=True) if is_long else in_order()
            shown = _diverse(profile.diversity, leg_results, ranked, limit) if is_diverse else ranked[:limit]
            request = requests[0]
            is_full = len(shown) >= limit or _is_exhausted(planned, leg_results, request.depth)
            may_rise = _could_rise(planned, leg_results, shown) and request.least_depth < MAX_DEPTH
            if (is_full and not may_rise) or request.least_depth >= deepest:
                return RankedSearch(shown, ranked[:pool], leg_results)
            most = MAX_DEPTH if is_full else deepest
            requests = tuple(each.deeper(_DEEPER, most) for each in requests)
            leg_results = await self._find(planned.queries, requests, is_long=is_long)
            if profile.signals or self.collection.has_expiring:
                [leg_results] = await self._add_signals([planned], [leg_results])

    async def _rerank(
        self,
        searches: Sequence[PlannedSearch],
        rankings: Sequence[RankedSearch],
        rerank: Rerank,
        reranker: Reranking,
    ) -> tuple[list[PlannedSearch], list[RankedSearch]]:
        """The searches and their rankings after reranking; if it failed, a note is added and the ranking unchanged."""
        best = [[candidate.item_id for candidate in ranked.pool[: rerank.candidates]] for ranked in rankings]
        collection_id, set_already = self.collection.collection_id, settings(searches[0].plan.request)
        item_ids = list(dict.fromkeys(item_id for some in best for item_id in some))
        rows = (await read_hit_rows(self.database, self.tenant_id, collection_id, item_ids, set_already)).columns
        # The row of an item that was removed meanwhile has no values.
        texts = {item_id: text_for_reranker(*row[:2]) for item_id, row in rows.items() if row[0] is not None}
        scored = await asyncio.gather(
            *(
                _rerank_scores(
                    reranker, rerank, search, {item_id: texts[item_id] for item_id in some if item_id in texts}
                )
                for search, some in zip(searches, best, strict=True)
            )
        )
        reranked_searches = [_after_reranking(*each, rerank) for each in zip(searches, rankings, scored, strict=True)]
        return [search for search, _ in reranked_searches], [ranked for _, ranked in reranked_searches]

    async def _decide(
        self, searches: Sequence[PlannedSearch], rankings: Sequence[RankedSearch], context: Context
    ) -> list[DecidedSearch]:
        """Choose the hits by learned models and exploration."""
        has_clusters = self.collection.clustered_at is not None
        if self.decider is None or not (
            has_clusters
            or any(not search.plan.is_final and may_decide(self.collection, search.profile) for search in searches)
        ):
            return [_as_ranked(ranked) for ranked in rankings]
        requests = [
            DecisionRequest(
                profile=search.profile,
                context=context,
                vector=search.query.vector,
                about=search.query.vector if search.request.about is None else search.request.about,
                ranked=ranked.pool,
                leg_results=ranked.leg_results,
                is_reranked=ranked.reranked is not None,
            )
            for search, ranked in zip(searches, rankings, strict=True)
        ]
        set_already = settings(searches[0].plan.request)
        decisions = await self.decider.decide(self.collection, requests, self._now(), set_already)
        return [_final(*parts) for parts in zip(searches, rankings, decisions, strict=True)]

    def _add_relevance(self, planned: PlannedSearch, final: DecidedSearch) -> DecidedSearch:
        """The hits with their relevance, without those below the request's least score and relevance."""
        leg_results, shown = final.ranked.leg_results, final.shown
        relevance = relevance_by_id(self.collection, planned.plan, planned.query.words, leg_results, shown)
        places, why_none = good_enough(planned.request, shown, relevance)
        good = shown if places is None else [shown[place] for place in places]
        return DecidedSearch(final.ranked, final.slate, final.decision, good, relevance, why_none, shown)

    async def _rows(self, searches: Sequence[PlannedSearch], finals: Sequence[DecidedSearch]) -> HitRows:
        """The columns of all hits, read in one statement, unless they came with the candidates."""
        columns: dict[str, tuple[Any, ...]] = {}
        missing: dict[str, None] = {}
        space_id = size = 0
        for search, final in zip(searches, finals, strict=True):
            request = search.plan.request
            if request.with_items:
                columns |= final.ranked.leg_results.rows
            else:
                missing |= dict.fromkeys(map(_ITEM_ID, final.shown))
            if SCORED_BOTH_WAYS.issubset(request.legs):  # the lexical leg may have found items without a vector
                space_id, size = request.space_id, request.dimensions
        if not missing:
            return HitRows(columns)
        set_already, collection_id = settings(searches[0].plan.request), self.collection.collection_id
        rows = await read_hit_rows(
            self.database, self.tenant_id, collection_id, list(missing), set_already, space_id=space_id, dimensions=size
        )
        return HitRows({**columns, **rows.columns}, rows.waiting) if columns else rows

    def _answers(
        self,
        searches: Sequence[PlannedSearch],
        finals: Sequence[DecidedSearch],
        columns: Columns,
        context: Context,
        timings: Mapping[str, float],
    ) -> list[tuple[AnsweredSearch, tuple[Hit, ...]]]:
        return [self._answer(*pair, columns, context, timings) for pair in zip(searches, finals, strict=True)]

    def _answer(
        self,
        planned: PlannedSearch,
        final: DecidedSearch,
        columns: Columns,
        context: Context,
        timings: Mapping[str, float],
    ) -> tuple[AnsweredSearch, tuple[Hit, ...]]:
        """The search with what its record needs, and its hits."""
        leg_results, shown = final.ranked.leg_results, present(final.shown, columns)
        fusion = fusion_name(leg_results, planned.plan.profile)
        if final.ranked.reranked is not None:
            fusion = f"{fusion}, reranked by {final.ranked.reranked.reranker}"
        if final.decision.model_version:
            fusion = f"{fusion}, learned {planned.plan.profile.learned.combination}"
        answered = AnsweredSearch(
            retrieval_id=uuid7(int(self.wall_clock() * 1000), self.chance),
            collection_id=self.collection.collection_id,
            profile_version=self.collection.profile_version if planned.request.profile is None else None,
            request=planned.request,
            context=context,
            plan=planned.plan,
            query=planned.query,
            leg_results=replace(leg_results, rows={}),  # the record waits, and texts may be large
            shown=shown,
            slate=final.slate,
            timings_ms=timings,
            seed=planned.seed,
            decision=final.decision,
            reranked=final.ranked.reranked,
        )
        return answered, hits(shown, columns, fusion, final.slate, final.relevance)

    async def _record(
        self,
        answers: Sequence[tuple[AnsweredSearch, tuple[Hit, ...]]],
        searches: Sequence[PlannedSearch],
        *,
        is_long: bool,
    ) -> list[bool]:
        """Record searches as planned; returns whether each is recorded, or will be after its answer."""
        recorder = self.recorder
        to_record = [answered for (answered, _), search in zip(answers, searches, strict=True) if search.is_recorded]
        if recorder is None or not to_record:
            return [False] * len(answers)
        records: Sequence[Recordable | EncodedRecord] = to_record
        if is_long:
            records = await aside(lambda: [recorder.ready(answer) for answer in to_record], is_long=True)
        if to_record[0].plan.profile.recording.wait:  # the same profile for all searches of a call
            successes = iter(await recorder.store(records))
        else:
            successes = iter([recorder.offer(record) for record in records])
        return [search.is_recorded and next(successes) for search in searches]

    def _result(
        self,
        answer: AnsweredSearch,
        shown: tuple[Hit, ...],
        first: LegResults,
        final: DecidedSearch,
        *,
        rows: HitRows,
        is_stored: bool,
        is_lost: bool,
    ) -> SearchResult:
        weighed, why = account(self.collection, first, is_filtered=answer.request.condition is not None)
        notes, why_none = answer.plan.notes, final.why_none
        if is_lost and answer.plan.profile.recording.wait:
            notes = (*notes, NOT_RECORDED)
        after, next_cursor = answer.request.after, None
        if after is not None:
            found = map(_ITEM_ID, final.found)
            shown, next_cursor = after.next_page(found, shown, answer.request.limit - len(after.passed))
            if not shown and answer.request.min_score is not None and answer.request.min_relevance is None:
                next_cursor = None  # scores fall from page to page
        if rows.waiting and LegName.DENSE in answer.plan.request.legs:
            waiting = sum(hit.item_id in rows.waiting for hit in shown)
            notes = (*notes, _WAITING.format(waiting, len(shown), self.collection.name)) if waiting else notes
        if answer.request.wordless_note and self._has_no_word(answer, first):
            scope = "" if answer.request.condition is None else " that passes the filter"
            wordless = answer.request.wordless_note.format(scope)
            if any(first.rankings.values()):
                notes = (*notes, wordless)
            else:
                why_none = (wordless,)
        return SearchResult(
            hits=shown,
            path=first.path,
            why=why,
            weighed=weighed,
            profile_version=answer.profile_version,
            notes=notes,
            why_no_hits=why_none,
            timings_ms=answer.timings_ms,
            retrieval_id=answer.retrieval_id if is_stored else None,
            next=next_cursor,
        )

    def _has_no_word(self, answer: AnsweredSearch, first: LegResults) -> bool:
        """Whether the lexical leg ran in vain; empty collections and filters without matches have their own notes."""
        lexical = [ranking for leg, ranking in first.rankings.items() if leg.startswith(LegName.LEXICAL)]
        return (
            LegName.LEXICAL in answer.plan.request.legs
            and not any(lexical)
            and bool(tokens(answer.query.words) and self.collection.documents)
            and (answer.request.condition is None or any(first.rankings.values()))
        )


async def _rerank_scores(
    reranker: Reranking, rerank: Rerank, planned: PlannedSearch, texts: Mapping[str, str]
) -> Scored:
    if not texts:
        return Scored()
    if not planned.request.query:
        return Scored(note=_NO_WORDS)
    return await reranker.scored(rerank, planned.request.query, texts)


def _after_reranking(
    planned: PlannedSearch, ranked: RankedSearch, scored: Scored, rerank: Rerank
) -> tuple[PlannedSearch, RankedSearch]:
    if scored.note:
        notes = (*planned.plan.notes, _NOT_RERANKED.format(scored.note))
        return replace(planned, plan=replace(planned.plan, notes=notes)), ranked
    if not scored.scores:
        return planned, ranked
    profile, leg_results = planned.plan.profile, ranked.leg_results
    pool = reranked(ranked.pool, leg_results, profile, rerank, scored.scores)
    shown = _diverse(profile.diversity, leg_results, pool, planned.request.limit)
    return planned, RankedSearch(shown, pool, leg_results, scored)


def _final(planned: PlannedSearch, ranked: RankedSearch, decision: Decision) -> DecidedSearch:
    if not decision.is_open:
        return replace(_as_ranked(ranked), decision=decision.record)
    profile, limit = planned.profile, planned.request.limit
    first = _diverse(profile.diversity, ranked.leg_results, decision.ranked, limit)
    names = {candidate.item_id for candidate in first}
    # Near-duplicates are left out of a diverse page, and are not explored either.
    rest = (
        [candidate for candidate in decision.ranked if candidate.item_id not in names]
        if decision.candidates and profile.diversity.is_off
        else []
    )
    placed, record = slate(decision, [*first, *rest], profile, limit, planned.seed)
    return DecidedSearch(ranked, placed, record, [decision.explain(candidate.item_id) for candidate in placed])


def _diverse(diversity: Diversity, leg_results: LegResults, ranked: Sequence[Fused], limit: int) -> list[Fused]:
    """The best candidates without near-duplicates, from a larger pool where near-duplicates leave too few."""
    if diversity.is_off or not leg_results.vectors.places:
        return list(ranked[:limit])
    shown = _diverse_of(diversity, leg_results, ranked[: diverse_pool(limit)], limit)
    if len(shown) < limit < len(ranked):
        shown = _diverse_of(diversity, leg_results, ranked[:MAX_DEPTH], limit)
    return shown


def _diverse_of(diversity: Diversity, leg_results: LegResults, pool: Sequence[Fused], limit: int) -> list[Fused]:
    similarities = PairSimilarities([candidate.item_id for candidate in pool], leg_results.vectors)
    return [pool[place] for place in diversified([hit.score for hit in pool], similarities, diversity, limit)]


def _in_order(planned: PlannedSearch, leg_results: LegResults, most_ranked: int | None) -> list[Fused]:
    """The candidates, best first; with ``group_by`` only the best of each group."""
    ranked = ranking(leg_results, planned.plan.profile, most_ranked, _most_explained(planned))
    if planned.request.group_by is None:
        return ranked
    return best_of_groups(ranked, {item_id: row[0] for item_id, row in leg_results.rows.items()})


def _most_explained(planned: PlannedSearch) -> int | None:
    """The most candidates whose scores need their parts (None: all); a stack has parts of its own."""
    profile = planned.plan.profile
    may_be_hits = profile.diversity.is_off and profile.exploration.is_off and planned.request.group_by is None
    is_stack = profile.learned.combination is Combination.LOGIT_STACK and profile.rerank is None
    return planned.request.limit if is_stack and may_be_hits else None


def _query(request: SearchRequest, vector: Vector | None, now: datetime, profile: Profile) -> Query:
    words = with_synonyms(request.query, profile.synonyms) if profile.synonyms else request.query
    entities = tuple(sorted(request.entities)) if request.entities else ()
    tags = tuple(sorted(request.tags)) if request.tags else ()
    return Query(words, vector, request.prefixes, entities, tags, request.as_of or now, now)


def _is_exhausted(planned: PlannedSearch, leg_results: LegResults, depth: int) -> bool:
    """True if more candidates would not fill the page.

    With signals, one leg with at least ``limit`` candidates is enough: any missing hit was dropped for its low score,
    and further candidates score no higher.
    """
    legs = {
        name: ranking for name, ranking in leg_results.rankings.items() if leg_of(name) in planned.plan.request.legs
    }
    is_complete = all(leg_results.brought.get(name, len(ranking)) < depth for name, ranking in legs.items())
    if (
        planned.plan.profile.signals
        and max(map(len, legs.values()), default=0) >= planned.request.limit
        and planned.request.group_by is None
    ):
        return not planned.plan.is_diverse or is_complete
    return is_complete


def _could_rise(planned: PlannedSearch, leg_results: LegResults, shown: Sequence[Fused]) -> bool:
    """Whether a dropped candidate can score more than the last hit, or fill the page (Fagin et al., 2003)."""
    if leg_results.dropped_score is None:
        return False
    least = planned.plan.profile.min_score or 0.0
    return leg_results.dropped_score > (shown[-1].score if len(shown) >= planned.request.limit else least)


def _as_ranked(ranked: RankedSearch) -> DecidedSearch:
    """The hits in the order of relevance."""
    return DecidedSearch(ranked, (), _NO_DECISION, ranked.shown)
