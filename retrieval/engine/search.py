"""One search, told in the order it happens: embed, plan, candidates, signals, rank, learn, explore, items, record."""

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

from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.items import HitRows, read_hit_rows
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import Found, find_candidates_of_each, settings
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
from retrieval.domain.search.profile_parts import Combination, Exploration, Recording
from retrieval.domain.search.query import with_synonyms
from retrieval.domain.search.reranking import Rerank, Reranking, Scored, text_for_reranker
from retrieval.domain.search.signals import tokens
from retrieval.engine.decide import Decider, Decision, Undecided, may_decide, moment, slate
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
from retrieval.engine.record import Answered, Decided, Recordable, WrittenDown
from retrieval.engine.recorder import Recorder, Sampler
from retrieval.engine.request import (
    QueryVectors,
    SearchRequest,
    check_fields,
    check_filter,
    check_orders,
    query_vectors,
)
from retrieval.engine.stages import Clock, Stages


@dataclass(frozen=True, slots=True)
class PlannedSearch:
    """A search with what it was planned to do."""

    request: SearchRequest
    plan: SearchPlan
    queries: tuple[Query, ...]
    """The query, and after it the rewritten ones."""
    seed: int
    """The seed of everything random in this search."""
    is_recorded: bool
    """True if the search is to be recorded."""
    preferred: tuple[CandidateRequest, ...] = ()
    """The filters within each of which every leg runs once more."""

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
        """The profile in effect; a search that is not recorded explores nothing, as nothing can be learned from it."""
        profile = self.plan.profile
        is_as_it_is = self.is_recorded or profile.exploration.is_off
        return profile if is_as_it_is else replace(profile, exploration=Exploration())


@dataclass(frozen=True, slots=True)
class RankedSearch:
    """A search whose candidates are ranked by relevance."""

    shown: list[Fused]
    """The hits, best first."""
    pool: list[Fused]
    """The best candidates by relevance, among them those shown."""
    found: Found
    reranked: Scored | None = None
    """The reranker's scores; None: there are none."""


@dataclass(frozen=True, slots=True)
class DecidedSearch:
    """A search whose hits are chosen: by relevance, by what was learned, by exploration, and by the least scores."""

    ranked: RankedSearch
    slate: Sequence[Placed]
    decided: Decided
    shown: list[Fused]
    """The items in the order of the slate, each with the parts of its score."""
    relevance: Mapping[str, float | None] = field(default_factory=dict)
    """The probability that it is relevant by item id, where it is told."""
    why_none: tuple[str, ...] = ()
    """The reasons why none of the items found is shown."""


def tell_search(traced: Span, tenant_id: int, collection: StoredCollection, results: Sequence[SearchResult]) -> None:
    """Puts tenant, number, path and result of the searches on the span."""
    first = results[0]
    traced.set_attributes(
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
        traced.set_attribute("retrieval.retrieval_id", str(first.retrieval_id))


def tell_candidates(traced: Span, searches: Sequence[PlannedSearch], each: Sequence[Found]) -> None:
    """Puts the candidates of each leg on the span, an event a leg: one statement finds those of all legs."""
    traced.set_attributes(
        {
            "retrieval.legs": sorted({leg for found in each for leg in found.rankings}),
            "retrieval.depth": searches[0].plan.request.depth,
            "retrieval.effort": searches[0].plan.request.effort,
            "retrieval.filtered": searches[0].request.condition is not None,
            "retrieval.fell_short": any(found.fell_short for found in each),
        }
    )
    for found in each:
        for leg, candidates in found.rankings.items():
            told: dict[str, AttributeValue] = {"retrieval.leg": leg, "retrieval.candidates": len(candidates)}
            if leg.startswith("dense"):
                told |= {"retrieval.path": found.path.value, "retrieval.weighed": found.weighed}
            traced.add_event("leg", told)


_DEEPER = 4
"""The factor by which more candidates are fetched when groups or near-duplicates leave too few."""

_DEEPEST = 50_000
"""The most candidates a leg is asked for when groups leave too few: of one with more items the page may be short."""


_UNDECIDED = Decided()
_ITEM_ID = itemgetter(0)

_MOST_PLANS = 200

_FEWER_REWRITES = "rewrites that have no vector were left out: {}"

_NOT_RERANKED = "the hits were not reranked: {}"
_NO_WORDS = "the search has no words"
_NO_RERANKER = "there is no reranker; set RETRIEVAL_RERANKER"

NOT_RECORDED = "the search was not recorded; retrieval status says how many were not, and why"
_WITHOUT_VECTOR = (
    "{} of {} hits have no vector yet and were found by words alone; make the vectors with: "
    "retrieval jobs run embed --collection {}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Searcher:
    """Answers the searches of one collection."""

    database: Database
    tenant_id: int
    collection: StoredCollection
    embedder: CachedEmbedder | None
    sampler: Sampler | None = None
    """Keeps some of the searches as samples; None: none is kept."""
    recorder: Recorder | None = None
    """Records the searches; None: none is recorded."""
    decider: Decider | None = None
    """Knows what was learned; None: relevance alone makes the order."""
    reranker: Reranking | None = None
    """Asked where a profile reranks; None: there is none."""
    observer: Observer | None = None
    """The observer that is told of each search; None: there is no observer."""
    chance: random.Random = field(default_factory=random.Random)
    clock: Clock = time.perf_counter
    wall_clock: Clock = time.time
    """Seconds since 1970: when a search was."""
    _plans: dict[Hashable, SearchPlan] = field(default_factory=dict)
    """The same plans come again and again: searches differ in their words and vectors, less often in their filters."""

    async def search(self, request: SearchRequest, context: Context = Context()) -> SearchResult:
        """The best hits for a request, each explained.

        An embedder that fails costs the dense leg, not the search: the result's notes say so. With no other leg to
        answer, its error is raised. Raises ``UnknownFieldError`` and the errors of ``checked_vectors``.
        """
        return (await self.search_each([request], context))[0]

    async def search_each(self, requests: Sequence[SearchRequest], context: Context = Context()) -> list[SearchResult]:
        """The hits of several requests that differ in their words and vectors only, all asked in one context.

        The texts are embedded in one call, the candidates come in one round trip, and so do the items.
        """
        if not requests:
            return []
        with span("retrieval.search") as traced:
            results = await self._search_each(requests, context, traced)
            if traced is not None:
                tell_search(traced, self.tenant_id, self.collection, results)
            return results

    async def _search_each(
        self, requests: Sequence[SearchRequest], context: Context, traced: Span | None
    ) -> list[SearchResult]:
        is_long = self._is_long(requests)
        with Stages(self.clock, traced) as stages:
            stages.begin("retrieval.embed", "embed")
            wordings = [wording for request in requests for wording in request.wordings]
            vectors = await query_vectors(self.collection, self.embedder, wordings)
            stages.begin("retrieval.plan", "embed")
            plan = partial(self._planned_each, requests, vectors)
            searches = await aside(plan, is_long=True) if is_long else plan()
            profile = searches[0].plan.profile  # all searches of a call have the same
            finding = stages.begin("retrieval.candidates", "candidates")
            each = await self._find_each(searches, is_long)
            if finding is not None:
                tell_candidates(finding, searches, each)
            if self.sampler is not None:
                for planned, found in zip(searches, each, strict=True):
                    self.sampler.offer(planned.plan.request, planned.query, found)
            stages.begin("retrieval.rank", "learn")
            if profile.signals or self.collection.has_expiring:
                each = await self._signalled(searches, each)
            rankings = [
                await self._ranked(search, found, is_long) for search, found in zip(searches, each, strict=True)
            ]
            if profile.rerank is not None:
                stages.begin("retrieval.rerank", "rerank")
                searches, rankings = await self._reranked(searches, rankings, profile.rerank)
            stages.begin("retrieval.learn", "learn")
            finals = await self._finals(searches, rankings, context)
            finals = [self._with_relevance(*pair) for pair in zip(searches, finals, strict=True)]
            stages.begin("retrieval.items", "items")
            rows = await self._rows(searches, finals)
            stages.begin("retrieval.record")
            timings = stages.timings()
            answer = partial(self._answers, searches, finals, rows.columns, context, timings)
            answers = await aside(answer, is_long=True) if is_long else answer()
            kept = await self._recorded(answers, searches, is_long)
        results = [
            self._result(
                *answer, first, final, rows=rows, is_kept=is_kept, is_missed=search.is_recorded and not is_kept
            )
            for search, answer, first, is_kept, final in zip(searches, answers, each, kept, finals, strict=True)
        ]
        if self.observer is not None:
            self.observer.searched(results)
        return results

    async def leg_rankings(self, request: SearchRequest) -> dict[str, list[Candidate]]:
        """Each leg's candidates before fusion: what tuning starts from."""
        vectors = await query_vectors(self.collection, self.embedder, [request])
        [vector] = vectors.vectors
        plan = self._plan(request, vectors.why_none if vector is None else None)
        query = _query(request, vector, self._now(), plan.profile)
        legs = plan.request.legs
        bare = replace(
            plan.request, with_items=False, with_vectors=False, with_both_scores=SCORED_BOTH_WAYS.issubset(legs)
        )
        return (await find_candidates_of_each(self.database, self.tenant_id, bare, [query]))[0].rankings

    def _is_long(self, requests: Sequence[SearchRequest]) -> bool:
        """True if Python has so much to do for them that it leaves the event loop."""
        things = 0
        for request in requests:
            profile = request.profile or self.collection.profile
            rankings = len(profile.legs) * (1 + len(request.rewrites)) * (1 + len(request.preferred))
            things += rankings * max(profile.depth, request.limit)
            if request.condition is not None or request.preferred:
                filters = (request.condition, *request.preferred)
                things += sum(extent(wanted).values for wanted in filters if wanted is not None)
        return things >= LONG

    def _planned_each(self, requests: Sequence[SearchRequest], vectors: QueryVectors) -> list[PlannedSearch]:
        given = iter(vectors.vectors)
        return [
            self._planned(request, [next(given) for _ in request.wordings], vectors.why_none) for request in requests
        ]

    def _planned(self, request: SearchRequest, vectors: Sequence[Vector | None], why_none: str | None) -> PlannedSearch:
        now = self._now()
        why_no_vector = why_none if vectors[0] is None else None
        plan = self._plan(request, why_no_vector)
        queries: tuple[Query, ...] = (_query(request, vectors[0], now, plan.profile),)
        if request.rewrites:
            rewritten = zip(request.wordings[1:], vectors[1:], strict=True)
            queries += tuple(_query(wording, vector, now, plan.profile) for wording, vector in rewritten)
            if LegName.DENSE in plan.request.legs and not all(query.vector is not None for query in queries):
                # Every wording runs the same legs.
                queries = tuple(query for query in queries if query.vector is not None)
                plan = replace(plan, notes=(*plan.notes, _FEWER_REWRITES.format(why_none)))
        is_recorded = self.recorder is not None and self._is_wanted(plan.profile.recording)
        preferred: tuple[CandidateRequest, ...] = ()
        if request.preferred:
            preferred = tuple(self._planned_preferred(wanted, why_no_vector, plan) for wanted in request.narrowed)
        return PlannedSearch(request, plan, queries, self.chance.getrandbits(63), is_recorded, preferred)

    def _plan(self, request: SearchRequest, why_no_vector: str | None) -> SearchPlan:
        check_calibrated(self.collection, request)
        profile = request.profile or self.collection.profile
        key: Hashable = None
        if not request.preferred:
            shape = (request.limit, request.group_by, bool(request.query), request.vector is None, why_no_vector)
            given = (bool(request.rewrites), bool(request.entities), bool(request.tags))
            key = (id(profile), id(request.condition), *shape, *given)
            if (kept := self._plans.get(key)) is not None:
                return kept
        self._check(request)
        is_final = self.decider is None or not may_decide(self.collection, profile)
        plan = make_plan(self.collection, request, why_no_vector, is_final=is_final)
        if key is not None and is_small(request.condition):
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan  # which keeps profile and filter alive, so that no others get their id()
        return plan

    def _planned_preferred(
        self, narrowed: SearchRequest, why_no_vector: str | None, plan: SearchPlan
    ) -> CandidateRequest:
        check_calibrated(self.collection, narrowed)
        self._check(narrowed)
        return plan_preferred(self.collection, narrowed, why_no_vector, plan)

    def _check(self, request: SearchRequest) -> None:
        if request.condition is None and request.group_by is None:
            return
        if self.collection.documents:  # of an empty collection no field is known yet, and every filter finds nothing
            check_fields(request.condition, self.collection.attributes, also=request.group_by)
            check_orders(request.condition, self.collection.attributes)
        check_filter(request.condition, self.collection.filterable)

    async def _find(
        self,
        planned: PlannedSearch,
        requests: Sequence[CandidateRequest],
        is_long: bool,  # noqa: FBT001 - of one call
    ) -> Found:
        if len(requests) == len(planned.queries) == 1:
            [found] = await find_candidates_of_each(self.database, self.tenant_id, requests[0], planned.queries)
            return found
        each = [
            await find_candidates_of_each(self.database, self.tenant_id, request, planned.queries)
            for request in requests
        ]
        return await aside(partial(merged, *each), is_long=True) if is_long else merged(*each)

    async def _find_each(self, searches: Sequence[PlannedSearch], is_long: bool) -> list[Found]:  # noqa: FBT001 - of one call
        """Finds candidates: searches with the same plan share a round trip; the plan depends on words and vector."""
        if len(searches) == 1:
            return [await self._find(searches[0], searches[0].requests, is_long)]
        answers: list[list[list[Found]]] = [[] for _ in searches]
        for request in dict.fromkeys(request for search in searches for request in search.requests):
            places = [place for place, search in enumerate(searches) if request in search.requests]
            queries = [query for place in places for query in searches[place].queries]
            found = iter(await find_candidates_of_each(self.database, self.tenant_id, request, queries))
            for place in places:
                answers[place].append([next(found) for _ in searches[place].queries])
        return await aside(lambda: [merged(*each) for each in answers], is_long=is_long)

    async def _signalled(self, searches: Sequence[PlannedSearch], each: list[Found]) -> list[Found]:
        """The candidates that have not expired, with the profile's signals; the searches of one call have one."""
        profile = searches[0].plan.profile
        signaller, now = Signaller(self.database, self.tenant_id, self.collection), self._now()
        if profile.signals:
            return await signaller.signalled(each, profile, [search.query for search in searches], now)
        return await signaller.unexpired(each, now)

    def _now(self) -> datetime:
        return moment(self.wall_clock())

    async def _ranked(self, planned: PlannedSearch, found: Found, is_long: bool) -> RankedSearch:  # noqa: FBT001 - of one call
        """Ranks the candidates; the legs go deeper until there are enough hits, or no more candidates."""
        requests, profile, limit = planned.requests, planned.plan.profile, planned.request.limit
        is_diverse, pool = planned.plan.is_diverse, planned.plan.pool
        # Signals are computed for every candidate.
        deepest = MAX_DEPTH if is_diverse or profile.signals else _DEEPEST
        # Without diversity, ranking beyond the shown hits is not needed.
        wanted = None if is_diverse or planned.request.group_by is not None else pool
        while True:
            found = with_refining(found, profile)
            in_order = partial(_in_order, planned, found, wanted)
            ranked = await aside(in_order, is_long=True) if is_long else in_order()
            shown = _diverse(profile.diversity, found, ranked, limit) if is_diverse else ranked[:limit]
            request = requests[0]
            is_full = len(shown) >= limit or _is_exhausted(planned, found, request.depth)
            may_rise = _could_rise(planned, found, shown) and request.least_depth < MAX_DEPTH
            if (is_full and not may_rise) or request.least_depth >= deepest:
                return RankedSearch(shown, ranked[:pool], found)
            most = MAX_DEPTH if is_full else deepest
            requests = tuple(each.deeper(_DEEPER, most) for each in requests)
            found = await self._find(planned, requests, is_long)
            if profile.signals or self.collection.has_expiring:
                [found] = await self._signalled([planned], [found])

    async def _reranked(
        self, searches: Sequence[PlannedSearch], rankings: Sequence[RankedSearch], rerank: Rerank
    ) -> tuple[list[PlannedSearch], list[RankedSearch]]:
        """The searches and their rankings after reranking; one whose reranking failed has a note and is as it was."""
        best = [[candidate.item_id for candidate in ranked.pool[: rerank.candidates]] for ranked in rankings]
        collection_id, set_already = self.collection.collection_id, settings(searches[0].plan.request)
        item_ids = list(dict.fromkeys(item_id for some in best for item_id in some))
        rows = (await read_hit_rows(self.database, self.tenant_id, collection_id, item_ids, set_already)).columns
        # An item that was removed meanwhile has a row without values.
        texts = {item_id: text_for_reranker(*row[:2]) for item_id, row in rows.items() if row[0] is not None}
        scored = await asyncio.gather(
            *(
                self._scored(search, rerank, {item_id: texts[item_id] for item_id in some if item_id in texts})
                for search, some in zip(searches, best, strict=True)
            )
        )
        after = [_after_reranking(*each, rerank) for each in zip(searches, rankings, scored, strict=True)]
        return [search for search, _ in after], [ranked for _, ranked in after]

    async def _scored(self, planned: PlannedSearch, rerank: Rerank, texts: Mapping[str, str]) -> Scored:
        if not texts:
            return Scored()
        if self.reranker is None or not planned.request.query:
            return Scored(note=_NO_RERANKER if self.reranker is None else _NO_WORDS)
        return await self.reranker.scored(rerank, planned.request.query, texts)

    async def _finals(
        self, searches: Sequence[PlannedSearch], rankings: Sequence[RankedSearch], context: Context
    ) -> list[DecidedSearch]:
        """Chooses the hits by what was learned and by exploration."""
        has_clusters = self.collection.clustered_at is not None
        if self.decider is None or not (
            has_clusters
            or any(not search.plan.is_final and may_decide(self.collection, search.profile) for search in searches)
        ):
            return [_as_ranked(ranked) for ranked in rankings]
        undecided = [
            Undecided(
                profile=search.profile,
                context=context,
                vector=search.query.vector,
                about=search.query.vector if search.request.about is None else search.request.about,
                ranked=ranked.pool,
                found=ranked.found,
                is_reranked=ranked.reranked is not None,
            )
            for search, ranked in zip(searches, rankings, strict=True)
        ]
        set_already = settings(searches[0].plan.request)
        decisions = await self.decider.decide(self.collection, undecided, moment(self.wall_clock()), set_already)
        return [_final(*parts) for parts in zip(searches, rankings, decisions, strict=True)]

    def _with_relevance(self, planned: PlannedSearch, final: DecidedSearch) -> DecidedSearch:
        """The hits that the request lets through, with how sure they are."""
        found, shown = final.ranked.found, final.shown
        relevance = relevance_by_id(self.collection, planned.plan, planned.query.words, found, shown)
        places, why_none = good_enough(planned.request, shown, relevance)
        kept = shown if places is None else [shown[place] for place in places]
        return DecidedSearch(final.ranked, final.slate, final.decided, kept, relevance, why_none)

    async def _rows(self, searches: Sequence[PlannedSearch], finals: Sequence[DecidedSearch]) -> HitRows:
        """The columns of all hits; read once for all of them, unless they came with the candidates."""
        columns: dict[str, tuple[Any, ...]] = {}
        missing: dict[str, None] = {}
        space_id = size = 0
        for search, final in zip(searches, finals, strict=True):
            request = search.plan.request
            if request.with_items:
                columns |= final.ranked.found.rows
            else:
                missing |= dict.fromkeys(map(_ITEM_ID, final.shown))
            if SCORED_BOTH_WAYS.issubset(request.legs):  # the words may have found items without a vector
                space_id, size = request.space_id, request.dimensions
        if not missing:
            return HitRows(columns)
        set_already, collection_id = settings(searches[0].plan.request), self.collection.collection_id
        rows = await read_hit_rows(
            self.database, self.tenant_id, collection_id, list(missing), set_already, space_id=space_id, dimensions=size
        )
        return HitRows({**columns, **rows.columns}, rows.without_vector) if columns else rows

    def _answers(
        self,
        searches: Sequence[PlannedSearch],
        finals: Sequence[DecidedSearch],
        columns: Columns,
        context: Context,
        timings: Mapping[str, float],
    ) -> list[tuple[Answered, tuple[Hit, ...]]]:
        return [self._answer(*pair, columns, context, timings) for pair in zip(searches, finals, strict=True)]

    def _answer(
        self,
        planned: PlannedSearch,
        final: DecidedSearch,
        columns: Columns,
        context: Context,
        timings: Mapping[str, float],
    ) -> tuple[Answered, tuple[Hit, ...]]:
        """Gives the record of the search, and its hits without their texts."""
        found, shown = final.ranked.found, present(final.shown, columns)
        fusion = fusion_name(found, planned.plan.profile)
        if final.ranked.reranked is not None:
            fusion = f"{fusion}, reranked by {final.ranked.reranked.reranker}"
        if final.decided.model_version:
            fusion = f"{fusion}, learned {planned.plan.profile.learned.combination}"
        answered = Answered(
            retrieval_id=uuid7(int(self.wall_clock() * 1000), self.chance),
            collection_id=self.collection.collection_id,
            profile_version=self.collection.profile_version if planned.request.profile is None else None,
            request=planned.request,
            context=context,
            plan=planned.plan,
            query=planned.query,
            found=replace(found, rows={}),  # a record waits, and texts may be large
            shown=shown,
            slate=final.slate,
            timings_ms=timings,
            seed=planned.seed,
            decided=final.decided,
            reranked=final.ranked.reranked,
        )
        return answered, hits(shown, columns, fusion, final.slate, final.relevance)

    async def _recorded(
        self,
        answers: Sequence[tuple[Answered, tuple[Hit, ...]]],
        searches: Sequence[PlannedSearch],
        is_long: bool,  # noqa: FBT001 - of one call
    ) -> list[bool]:
        """Records the searches that are to be recorded; gives True for each that is, or will be after its answer."""
        recorder = self.recorder
        wanted = [answered for (answered, _), search in zip(answers, searches, strict=True) if search.is_recorded]
        if recorder is None or not wanted:
            return [False] * len(answers)
        ready: Sequence[Recordable | WrittenDown] = wanted
        if is_long:
            ready = await aside(lambda: [recorder.ready(answer) for answer in wanted], is_long=True)
        if wanted[0].plan.profile.recording.wait:  # all searches of a call have the same profile
            kept = iter(await recorder.store(ready))
        else:
            kept = iter([recorder.offer(record) for record in ready])
        return [search.is_recorded and next(kept) for search in searches]

    def _is_wanted(self, recording: Recording) -> bool:
        return recording.rate >= 1 or (recording.rate > 0 and self.chance.random() < recording.rate)

    def _result(
        self,
        answer: Answered,
        shown: tuple[Hit, ...],
        first: Found,
        final: DecidedSearch,
        *,
        rows: HitRows,
        is_kept: bool,
        is_missed: bool,
    ) -> SearchResult:
        weighed, why = account(self.collection, first, is_filtered=answer.request.condition is not None)
        notes, why_none = answer.plan.notes, final.why_none
        if is_missed and answer.plan.profile.recording.wait:
            notes = (*notes, NOT_RECORDED)
        after, following = answer.request.after, None
        if after is not None:
            shown, following = after.next_page(shown, answer.request.limit - len(after.shown))
        if rows.without_vector and LegName.DENSE in answer.plan.request.legs:
            waiting = sum(hit.item_id in rows.without_vector for hit in shown)
            notes = (*notes, _WITHOUT_VECTOR.format(waiting, len(shown), self.collection.name)) if waiting else notes
        if answer.request.wordless_note and self._has_no_word(answer, first):
            which = "" if answer.request.condition is None else " that passes the filter"
            wordless = answer.request.wordless_note.format(which)
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
            retrieval_id=answer.retrieval_id if is_kept else None,
            next=following,
        )

    def _has_no_word(self, answer: Answered, first: Found) -> bool:
        """Whether the lexical leg ran and found nothing; empty collections and empty filters have their own notes."""
        lexical = [found for leg, found in first.rankings.items() if leg.startswith(LegName.LEXICAL)]
        return (
            LegName.LEXICAL in answer.plan.request.legs
            and not any(lexical)
            and bool(tokens(answer.query.words) and self.collection.documents)
            and (answer.request.condition is None or any(first.rankings.values()))
        )


def _after_reranking(
    planned: PlannedSearch, ranked: RankedSearch, scored: Scored, rerank: Rerank
) -> tuple[PlannedSearch, RankedSearch]:
    if scored.note:
        notes = (*planned.plan.notes, _NOT_RERANKED.format(scored.note))
        return replace(planned, plan=replace(planned.plan, notes=notes)), ranked
    if not scored.scores:
        return planned, ranked
    profile, found = planned.plan.profile, ranked.found
    pool = reranked(ranked.pool, found, profile, rerank, scored.scores)
    return planned, RankedSearch(_diverse(profile.diversity, found, pool, planned.request.limit), pool, found, scored)


def _final(planned: PlannedSearch, ranked: RankedSearch, decision: Decision) -> DecidedSearch:
    if not decision.is_open:
        return replace(_as_ranked(ranked), decided=decision.decided)
    profile, limit = planned.profile, planned.request.limit
    first = _diverse(profile.diversity, ranked.found, decision.ranked, limit)
    names = {candidate.item_id for candidate in first}
    # A diverse page may be short on purpose: near-duplicates are not explored either.
    rest = (
        [candidate for candidate in decision.ranked if candidate.item_id not in names]
        if decision.candidates and profile.diversity.is_off
        else []
    )
    placed, decided = slate(decision, [*first, *rest], profile, limit, planned.seed)
    return DecidedSearch(ranked, placed, decided, [decision.explained(candidate.item_id) for candidate in placed])


def _diverse(wanted: Diversity, found: Found, ranked: Sequence[Fused], limit: int) -> list[Fused]:
    """The best that are not alike; of a larger pool where near-duplicates leave too few."""
    if wanted.is_off or not found.vectors.places:
        return list(ranked[:limit])
    shown = _diverse_of(wanted, found, ranked[: diverse_pool(limit)], limit)
    if len(shown) < limit < len(ranked):
        shown = _diverse_of(wanted, found, ranked[:MAX_DEPTH], limit)
    return shown


def _diverse_of(wanted: Diversity, found: Found, pool: Sequence[Fused], limit: int) -> list[Fused]:
    similarities = PairSimilarities([candidate.item_id for candidate in pool], found.vectors)
    return [pool[place] for place in diversified([candidate.score for candidate in pool], similarities, wanted, limit)]


def _in_order(planned: PlannedSearch, found: Found, wanted: int | None) -> list[Fused]:
    """The candidates, best first; of each group its best, where groups were asked for."""
    ranked = ranking(found, planned.plan.profile, wanted, _explained(planned))
    if planned.request.group_by is None:
        return ranked
    return best_of_groups(ranked, {item_id: row[0] for item_id, row in found.rows.items()})


def _explained(planned: PlannedSearch) -> int | None:
    """The number of candidates whose scores need their parts: a stack explains its hits by parts of its own."""
    profile = planned.plan.profile
    may_be_hits = profile.diversity.is_off and profile.exploration.is_off and planned.request.group_by is None
    is_stack = profile.learned.combination is Combination.LOGIT_STACK and profile.rerank is None
    return planned.request.limit if is_stack and may_be_hits else None


def _query(request: SearchRequest, vector: Vector | None, now: datetime, profile: Profile) -> Query:
    words = with_synonyms(request.query, profile.synonyms) if profile.synonyms else request.query
    entities = tuple(sorted(request.entities)) if request.entities else ()
    tags = tuple(sorted(request.tags)) if request.tags else ()
    return Query(words, vector, request.prefixes, entities, tags, request.as_of or now, now)


def _is_exhausted(planned: PlannedSearch, found: Found, depth: int) -> bool:
    """True if more candidates would not fill the page.

    With signals, a leg that brings as many candidates as the page has hits is enough: hits that are missing then have
    a score below the least one, and further candidates are no better.
    """
    legs = {name: some for name, some in found.rankings.items() if leg_of(name) in planned.plan.request.legs}
    is_through = all(found.brought.get(name, len(some)) < depth for name, some in legs.items())
    if (
        planned.plan.profile.signals
        and max(map(len, legs.values()), default=0) >= planned.request.limit
        and planned.request.group_by is None
    ):
        return not planned.plan.is_diverse or is_through
    return is_through


def _could_rise(planned: PlannedSearch, found: Found, shown: Sequence[Fused]) -> bool:
    """Whether a candidate that did not stay can score more than the last of a page, or fill it (Fagin et al., 2003)."""
    if found.left_out is None:
        return False
    least = planned.plan.profile.min_score or 0.0
    return found.left_out > (shown[-1].score if len(shown) >= planned.request.limit else least)


def _as_ranked(ranked: RankedSearch) -> DecidedSearch:
    """The hits as relevance has them."""
    return DecidedSearch(ranked, (), _UNDECIDED, ranked.shown)
