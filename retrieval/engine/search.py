"""One search, in the order of its stages: embed, plan, candidates, signals, rank, rerank, decide, items, record."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from types import TracebackType
from typing import Any, Self

from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.clock import Clock
from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.items import HitRows, read_hit_rows
from retrieval.adapters.store.search import candidates as store
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import LegResults
from retrieval.adapters.tracing import SpanContext, span
from retrieval.domain.items.embedding import Vector
from retrieval.domain.learning.context import Context
from retrieval.domain.observer import Observer
from retrieval.domain.records.retrieval_id import uuid7
from retrieval.domain.search.filters import extent, is_small
from retrieval.domain.search.fusion import Candidate
from retrieval.domain.search.hit import SearchResult
from retrieval.domain.search.profile import MAX_DEPTH, LegName, Profile
from retrieval.domain.search.query import with_synonyms
from retrieval.domain.search.reranking import Rerank, Reranking, Scored, text_for_reranker
from retrieval.domain.search.signals import tokens
from retrieval.engine import ranking
from retrieval.engine.conditions import check_condition, order_notes
from retrieval.engine.decide import Decider, DecisionRequest, may_decide
from retrieval.engine.plan import SCORED_BOTH_WAYS, SearchPlan, account, make_plan, plan_preferred
from retrieval.engine.record import AnsweredSearch, Recordable
from retrieval.engine.recorder import Recorder, Sampler, is_sampled
from retrieval.engine.request import SearchRequest, query_vectors
from retrieval.engine.running_search import RunningSearch


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


_DEEPER = 4
"""The factor by which the depth grows when groups or near-duplicates leave too few candidates."""

_DEEPEST = 50_000
"""The greatest depth of a leg when groups leave too few candidates; larger groups may leave the page short."""

_FUSED_ID = itemgetter(0)
_NO_VALUES = (None,)

_MOST_PLANS = 200

_FEWER_REWRITES = "rewrites without a vector were left out: {}"

_NO_WORDS = "the search has no words"

NOT_RECORDED = "the search was not recorded; the statistics say how many were not, and why"
_WAITING = "{} of {} hits wait for the vector of their text, which the job embed makes"
_NO_VECTORS = "no item has a vector; the job embed makes the vectors of those with text"


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

    @property
    def place(self) -> CollectionPlace:
        """The collection, as functions of the store take it."""
        return CollectionPlace(self.database, self.tenant_id, self.collection.collection_id)

    async def search_each(self, requests: Sequence[SearchRequest], context: Context = Context()) -> list[SearchResult]:
        """The best hits of each request, each explained; the requests differ only in their words and vectors.

        All texts are embedded in one call; all candidates are read in one round trip, and all items in another, unless
        they came with the candidates. If the embedder fails, the searches run without the dense leg, and a note says
        so; if there is no other leg, the embedder's error is raised. Raises ``UnknownFieldError`` and the errors of
        ``checked_vectors``.
        """
        if not requests:
            return []
        is_long = self._is_long(requests)
        with span("retrieval.search") as search_span, Stages(self.clock, search_span) as stages:
            stages.begin("retrieval.embed", "embed")
            wordings = [wording for request in requests for wording in request.wordings]
            vectors, why_missing = await query_vectors(self.collection, self.embedder, wordings)
            stages.begin("retrieval.plan", "embed")
            remaining = iter(vectors)
            searches = await aside(
                lambda: [self._prepare(request, remaining, why_missing) for request in requests], is_long=is_long
            )
            profile = searches[0].plan.profile  # the same for all searches of a call
            leg_span = stages.begin("retrieval.candidates", "candidates")
            await self._find_each(searches, is_long=is_long)
            if leg_span is not None:
                _trace_candidates(leg_span, searches[0].plan.request, [search.leg_results for search in searches])
            stages.begin("retrieval.rank", "learn")
            if profile.signals or self.collection.has_expiring:
                await self._add_signals(searches)
            for search in searches:
                await self._rank(search, is_long=is_long)
            if profile.rerank is not None and self.reranker is not None:
                stages.begin("retrieval.rerank", "rerank")
                await self._rerank(searches, profile.rerank, self.reranker)
            stages.begin("retrieval.learn", "learn")
            await self._decide(searches, context)
            for search in searches:
                self._add_relevance(search)
            stages.begin("retrieval.items", "items")
            rows = await self._rows(searches)
            stages.begin("retrieval.record")
            timings = stages.timings()
            answers = await aside(
                lambda: [self._answer(search, rows.columns, context, timings) for search in searches], is_long=is_long
            )
            stored = await self._record(answers, searches, is_long=is_long)
            results = [
                self._result(search, answer, rows, is_stored=is_stored)
                for search, answer, is_stored in zip(searches, answers, stored, strict=True)
            ]
            if search_span is not None:
                _trace_search(search_span, self.tenant_id, self.collection, results)
        if self.observer is not None:
            self.observer.searched(results)
        return results

    async def leg_rankings(self, request: SearchRequest) -> dict[str, list[Candidate]]:
        """Each leg's candidates before fusion, without expired ones: for tuning and completions."""
        [vector], why_missing = await query_vectors(self.collection, self.embedder, [request])
        plan = self._plan(request, why_missing if vector is None else None)
        query = _query(request, vector, self._now(), plan.profile)
        bare = replace(plan.request, with_items=False, likely=None, with_vectors=False)
        bare = replace(bare, with_both_scores=SCORED_BOTH_WAYS.issubset(bare.legs), ranks_both_scores=True)
        found = await store.find_candidates(self.database, self.tenant_id, bare, query)
        if self.collection.has_expiring:
            [found] = await ranking.remove_expired(self.place, [found], self._now())
        return found.rankings

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

    def _prepare(
        self, request: SearchRequest, vectors: Iterator[Vector | None], why_missing: str | None
    ) -> RunningSearch:
        """The search; ``vectors`` begin with those of its wordings, ``why_missing`` says why some are None."""
        now, vector = self._now(), next(vectors)
        why_no_vector = why_missing if vector is None else None
        plan = self._plan(request, why_no_vector)
        queries: tuple[Query, ...] = (_query(request, vector, now, plan.profile),)
        if request.rewrites:
            queries += tuple(_query(wording, next(vectors), now, plan.profile) for wording in request.wordings[1:])
            if LegName.DENSE in plan.request.legs and not all(query.vector is not None for query in queries):
                # All wordings run the same legs.
                queries = tuple(query for query in queries if query.vector is not None)
                plan = replace(plan, notes=(*plan.notes, _FEWER_REWRITES.format(why_missing)))
        is_recorded = self.recorder is not None and is_sampled(plan.profile.recording, self.chance)
        requests: tuple[CandidateRequest, ...] = (plan.request,)
        if request.preferred:
            for narrowed in request.narrowed:
                check_condition(narrowed.condition, self.collection, also=narrowed.group_by)
                requests += (plan_preferred(self.collection, narrowed, why_no_vector, plan),)
        return RunningSearch(request, plan, queries[0], queries, self.chance.getrandbits(63), is_recorded, requests)

    def _plan(self, request: SearchRequest, why_no_vector: str | None) -> SearchPlan:
        if request.min_relevance is not None:
            ranking.check_calibrated(self.collection, request)
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

    async def _find(self, search: RunningSearch, requests: Sequence[CandidateRequest], *, is_long: bool) -> LegResults:
        """The candidates of a query and its rewrites, by each of the requests."""
        tenant = (self.database, self.tenant_id)
        each = [await store.find_candidates_of_each(*tenant, request, search.queries) for request in requests]
        return await aside(partial(ranking.merged, *each), is_long=is_long)

    async def _find_each(self, searches: Sequence[RunningSearch], *, is_long: bool) -> None:
        """Find the candidates of each search. Searches with equal requests to the store share a round trip."""
        if len(searches) == 1:
            [search] = searches
            search.leg_results = await self._find(search, search.requests, is_long=is_long)
        else:
            results: list[list[list[LegResults]]] = [[] for _ in searches]
            for request in dict.fromkeys(request for search in searches for request in search.requests):
                positions = [position for position, search in enumerate(searches) if request in search.requests]
                queries = [query for position in positions for query in searches[position].queries]
                # The hits of all searches are read together, each item once.
                bare = replace(request, likely=None)
                answers = iter(await store.find_candidates_of_each(self.database, self.tenant_id, bare, queries))
                for position in positions:
                    results[position].append([next(answers) for _ in searches[position].queries])
            each = await aside(lambda: [ranking.merged(*parts) for parts in results], is_long=is_long)
            for search, leg_results in zip(searches, each, strict=True):
                search.leg_results = leg_results
        if self.sampler is not None:
            self.sampler.offer([(search.plan.request, search.query, search.leg_results) for search in searches])

    async def _add_signals(self, searches: Sequence[RunningSearch]) -> None:
        """Leave out expired candidates, and add the signals of the profile, which all searches share."""
        profile, each = searches[0].plan.profile, [search.leg_results for search in searches]
        place, now = self.place, self._now()
        if profile.signals:
            queries = [search.query for search in searches]
            each = await ranking.add_signals(place, each, profile, queries, space=self.collection.space, now=now)
        else:
            each = await ranking.remove_expired(place, each, now)
        for search, leg_results in zip(searches, each, strict=True):
            search.leg_results = leg_results

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.wall_clock(), UTC)

    async def _rank(self, search: RunningSearch, *, is_long: bool) -> None:
        """Rank the candidates; the legs go deeper until there are enough hits, or no more candidates."""
        requests, profile = search.requests, search.plan.profile
        is_diverse, pool = search.plan.is_diverse, search.plan.pool
        # Signals are computed for every candidate, so their number stays small.
        deepest = MAX_DEPTH if is_diverse or profile.signals else _DEEPEST
        # Without diversity and groups, no ranking beyond the pool and the record is needed.
        recorded = profile.recording.pool if search.is_recorded else 0
        most_ranked = None if is_diverse or search.request.group_by is not None else max(pool, recorded)
        search.first = search.leg_results
        while True:
            ranked = await aside(partial(search.order, most_ranked), is_long=is_long)
            shown = search.page(ranked)
            request = requests[0]
            is_full = len(shown) >= search.wanted or search.is_exhausted(request.depth)
            may_rise = request.least_depth < MAX_DEPTH and search.could_rise(shown)
            if (is_full and not may_rise) or request.least_depth >= deepest:
                search.shown, search.pool = shown, ranked[:pool]
                return
            most = MAX_DEPTH if is_full else deepest
            requests = tuple(each.deeper(_DEEPER, most) for each in requests)
            search.leg_results = await self._find(search, requests, is_long=is_long)
            if profile.signals or self.collection.has_expiring:
                await self._add_signals([search])

    async def _rerank(self, searches: Sequence[RunningSearch], rerank: Rerank, reranker: Reranking) -> None:
        """Rerank the candidates; if that fails, a note is added and the ranking stays unchanged."""
        best = [[candidate.item_id for candidate in search.pool[: rerank.candidates]] for search in searches]
        collection_id, set_already = self.collection.collection_id, store.settings(searches[0].plan.request)
        item_ids = list(dict.fromkeys(item_id for some in best for item_id in some))
        rows = (await read_hit_rows(self.database, self.tenant_id, collection_id, item_ids, set_already)).columns
        # The row of an item that was removed meanwhile has no values.
        texts = {item_id: text_for_reranker(*row[:2]) for item_id, row in rows.items() if row[0] is not None}
        texts_of = [{item_id: texts[item_id] for item_id in some if item_id in texts} for some in best]
        scored = await asyncio.gather(*map(partial(_rerank_scores, reranker, rerank), searches, texts_of))
        for search, scores in zip(searches, scored, strict=True):
            search.order_by_reranker(scores, rerank)

    async def _decide(self, searches: Sequence[RunningSearch], context: Context) -> None:
        """Choose the hits by learned models and exploration."""
        is_final = searches[0].plan.is_final  # the same for all searches of a call
        # Where there are clusters, the record of a search has the cluster of its question.
        if self.decider is None or (is_final and self.collection.clustered_at is None):
            return
        requests = [
            DecisionRequest(
                profile=search.profile,
                context=context,
                vector=search.query.vector,
                about=search.query.vector if search.request.about is None else search.request.about,
                ranked=search.pool,
                leg_results=search.leg_results,
                is_reranked=search.reranked is not None,
            )
            for search in searches
        ]
        set_already = store.settings(searches[0].plan.request)
        decisions = await self.decider.decide(self.collection, requests, self._now(), set_already)
        for search, decision in zip(searches, decisions, strict=True):
            search.order_by_decision(decision)

    def _add_relevance(self, search: RunningSearch) -> None:
        """Add the hits' relevance, and leave out those below the request's least score and relevance."""
        search.passed = shown = search.shown
        words, found = search.query.words, search.leg_results
        search.relevance = ranking.relevance_by_id(self.collection, search.plan, words, found, shown)
        if search.request.min_score is not None or search.request.min_relevance is not None:
            search.shown, search.why_none = ranking.good_enough(search.request, shown, search.relevance)

    async def _rows(self, searches: Sequence[RunningSearch]) -> HitRows:
        """The columns of all hits, read in one statement, unless they came with the candidates."""
        columns: dict[str, tuple[Any, ...]] = {}
        waiting: frozenset[str] = frozenset()
        missing: dict[str, None] = {}
        space_id = size = 0
        for search in searches:
            request, found = search.plan.request, search.leg_results
            if request.with_items:
                columns |= found.rows
            else:
                columns |= found.likely.columns
                waiting |= found.likely.waiting
                missing |= dict.fromkeys(map(_FUSED_ID, search.shown))
            if LegName.DENSE in request.legs and request.legs[1:]:  # another leg may have found items without a vector
                space_id, size = request.space_id, request.dimensions
        item_ids = [item_id for item_id in missing if item_id not in columns]
        if not item_ids:
            return HitRows(columns, waiting)
        set_already, collection_id = store.settings(searches[0].plan.request), self.collection.collection_id
        rows = await read_hit_rows(
            self.database, self.tenant_id, collection_id, item_ids, set_already, space_id=space_id, dimensions=size
        )
        return HitRows({**columns, **rows.columns}, rows.waiting | waiting) if columns else rows

    def _answer(
        self, search: RunningSearch, columns: ranking.Columns, context: Context, timings: Mapping[str, float]
    ) -> AnsweredSearch:
        """The search with its hits, and what its record needs."""
        leg_results = search.leg_results
        # An item that was removed after a leg found it has no row, or a row without values.
        search.shown = shown = [hit for hit in search.shown if columns.get(hit.item_id, _NO_VALUES)[0] is not None]
        earlier = {candidate.item_id for candidate in search.passed[: search.earlier]}
        profile = search.plan.profile
        later = [] if search.reranked is None else [f"reranked by {search.reranked.reranker}"]
        if search.decision.model_version:
            later.append(f"learned {profile.learned.combination}")
        search.hits = ranking.hits(
            shown, columns, leg_results, profile, slate=search.slate, relevance=search.relevance, later=later
        )
        return AnsweredSearch(
            retrieval_id=uuid7(int(self.wall_clock() * 1000), self.chance),
            collection_id=self.collection.collection_id,
            profile_version=self.collection.profile_version if search.request.profile is None else None,
            request=search.request,
            context=context,
            plan=search.plan,
            query=search.query,
            leg_results=leg_results,
            ranked=search.ranked[: profile.recording.pool],
            shown=shown,
            slate=search.slate,
            timings_ms=timings,
            seed=search.seed,
            decision=search.decision,
            reranked=search.reranked,
            continued=sum(hit.item_id in earlier for hit in shown),
        )

    async def _record(
        self, answers: Sequence[AnsweredSearch], searches: Sequence[RunningSearch], *, is_long: bool
    ) -> list[bool]:
        """Record searches as planned; returns whether each is recorded, or will be after its answer."""
        recorder = self.recorder
        to_record = [answer for answer, search in zip(answers, searches, strict=True) if search.is_recorded]
        if recorder is None or not to_record:
            return [False] * len(searches)
        records: Sequence[Recordable] = to_record
        if is_long:
            records = await aside(lambda: list(map(recorder.ready, to_record)), is_long=True)
        if to_record[0].plan.profile.recording.wait:  # the same profile for all searches of a call
            successes = iter(await recorder.store(records))
        else:
            successes = map(recorder.offer, records)
        return [search.is_recorded and next(successes) for search in searches]

    def _result(
        self, search: RunningSearch, answered: AnsweredSearch, rows: HitRows, *, is_stored: bool
    ) -> SearchResult:
        request, plan, shown = search.request, search.plan, search.hits
        weighed, why = account(self.collection, search.first, is_filtered=request.condition is not None)
        notes, why_none = plan.notes, search.why_none
        if search.is_recorded and not is_stored and plan.profile.recording.wait:
            notes = (*notes, NOT_RECORDED)
        after, next_cursor = request.after, None
        if after is not None:
            size = request.limit - len(after.passed)
            shown, next_cursor = after.next_page(search.page_keys(search.passed), shown, size)
        if rows.waiting and LegName.DENSE in plan.request.legs:
            waiting = sum(hit.item_id in rows.waiting for hit in shown)
            notes = (*notes, _WAITING.format(waiting, len(shown))) if waiting else notes
        has_candidates = any(search.first.rankings.values())
        if not has_candidates and self._found_nothing(search, LegName.DENSE):
            why_none = (_NO_VECTORS,)
        if request.wordless_note and tokens(search.query.words) and self._found_nothing(search, LegName.LEXICAL):
            scope = "" if request.condition is None else " that passes the filter"
            wordless = request.wordless_note.format(scope)
            notes, why_none = ((*notes, wordless), why_none) if has_candidates else (notes, (*why_none, wordless))
        return SearchResult(
            hits=shown,
            path=search.first.path,
            why=why,
            weighed=weighed,
            profile_version=answered.profile_version,
            notes=notes,
            why_no_hits=why_none,
            timings_ms=answered.timings_ms,
            retrieval_id=answered.retrieval_id if is_stored else None,
            next=next_cursor,
        )

    def _found_nothing(self, search: RunningSearch, leg: LegName) -> bool:
        """Whether the leg found no candidate; empty collections and filters without matches have their own notes."""
        rankings = search.first.rankings
        return (
            leg in search.plan.request.legs
            and not any(ranking for name, ranking in rankings.items() if name.startswith(leg))
            and self.collection.documents > 0
            and (search.request.condition is None or any(rankings.values()))
        )


async def _rerank_scores(
    reranker: Reranking, rerank: Rerank, search: RunningSearch, texts: Mapping[str, str]
) -> Scored:
    if not texts:
        return Scored()
    if not search.request.query:
        return Scored(note=_NO_WORDS)
    return await reranker.scored(rerank, search.request.query, texts)


def _query(request: SearchRequest, vector: Vector | None, now: datetime, profile: Profile) -> Query:
    words = with_synonyms(request.query, profile.synonyms) if profile.synonyms else request.query
    entities = tuple(sorted(request.entities)) if request.entities else ()
    tags = tuple(sorted(request.tags)) if request.tags else ()
    return Query(words, vector, request.prefixes, entities, tags, request.as_of or now, now)


def _trace_search(root: Span, tenant_id: int, collection: StoredCollection, results: Sequence[SearchResult]) -> None:
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


def _trace_candidates(leg_span: Span, request: CandidateRequest, each: Sequence[LegResults]) -> None:
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
