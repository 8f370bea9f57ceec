"""The plan of a search: the legs that run, their depth, and the path of the dense leg. Pure.

With N vectors of which m match and a depth of d, comparing all matches costs m × r, where r is the time of one
comparison; walking the index until it has met d matches costs d × N / m × w, where w is the time of a step. The costs
are equal at m = sqrt(d × N × w / r). With fewer matches a search is exact, which is also where a walk would miss most.
r and w are measured on the machine when an index is built.

A walk that keeps k of m matches has to rank the k × N / m nearest vectors correctly, not only the k nearest. Its effort
is chosen for the smallest m at which the index is walked. If no effort is enough, the threshold is raised.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.composed import Share, facet_share
from retrieval.adapters.store.search.candidate_request import CandidateRequest, LikelyHits, SignalWeights
from retrieval.adapters.store.search.candidates import LegResults
from retrieval.adapters.store.search.dense_leg import MAX_EFFORT, SPARE
from retrieval.adapters.store.search.indexes import AnnIndex
from retrieval.adapters.store.search.ordered_legs import ORDERED_LEGS
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.domain.search.diversity import Refining
from retrieval.domain.search.filters import Filter
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import MAX_DEPTH, Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.domain.search.relevance import SHIPPED, Calibration
from retrieval.domain.search.signals import (
    BaseRelevance,
    EntityOverlap,
    KeywordOverlap,
    Popularity,
    Recency,
    VectorSimilarity,
)
from retrieval.engine.request import SearchRequest, weighs_vectors

_UNTUNED = Profile(legs={"dense": 1.0, "lexical": 1.0}, depth=20, learned=Learned(combination=Combination.LOGIT_STACK))
"""By the logit stack, because the sum hardly ever passes its trial (docs/decisions/0055)."""

# Measured with benchmarks/default_weights.py; docs/decisions explains the choice.
_TUNED = {
    ("minilm", "all-MiniLM-L6-v2"): replace(
        _UNTUNED,
        legs={"dense": 0.65, "lexical": 0.35},
        fusion=Fusion(kind=FusionKind.WEIGHTED_SUM),
        refining=Refining(share=0.25),
    )
}

_NOT_ENGLISH = replace(_UNTUNED, legs={"dense": 0.2, "lexical": 0.8}, fusion=Fusion(kind=FusionKind.WEIGHTED_SUM))
"""For texts that the model was not trained on: likeness to the best hit says nothing there, so nothing is refined."""


def default_profile(space: EmbeddingSpace | None, language: str = "english") -> Profile:
    """The space's tuned profile; for any other space both legs have the same weight, by rank (RRF, k = 60).

    ``language``: the collection's text search configuration; the tuned model is trained on English only.
    """
    if space is None or (tuned := _TUNED.get((space.provider, space.model))) is None:
        return _UNTUNED
    return tuned if "english" in language or "simple" in language else _NOT_ENGLISH


_LEAST_LIMIT = 10
"""A filtered search for fewer hits is planned as one for ten, because one missed hit may be the whole page."""

STEP_TO_LOOK_UP = 0.25
"""The cost of a step in an ordered walk, including the look-up of its item, relative to the look-up of a match."""

LEAST_PASSING = 20
"""The lexical leg finds this many times the wanted items before filtering: a rarer match leaves too few of them."""

MOST_RANKED = 2_500
"""The most matches that are ranked by words one by one: so many take as long as the search that would find too few."""

COMPARED_BY_FACETS = 0.35
"""The cost of comparing a vector that the facet index found, relative to ``exact_row_us``."""

EFFORT_BY_FACETS = 0.5
"""The cost of a unit of a walk's effort, relative to ``walk_row_us``. In a quantised index a unit is a row."""

_RELIABLE_SHARE = 0.8
"""The part of the matches predicted by the sample that a plan relies on."""


@dataclass(frozen=True, slots=True)
class Way:
    """The path on which the dense leg starts; its result may still lead to comparing every matching vector."""

    path: Path
    few: int = 0
    """Up to this many matches are compared exactly; -1: there are certainly more, so matches are not counted."""
    reach: int = 0
    """The most rows that a filtered walk may read."""
    effort: int = 0
    """``hnsw.ef_search``."""


def choose_way(
    collection: StoredCollection,
    legs: Collection[LegName],
    *,
    depth: int,
    limit: int,
    is_filtered: bool,
    by_facets: Share | None = None,
) -> Way:
    """The way for ``depth`` candidates, of which the first ``limit`` are shown.

    ``by_facets``: the share of items that pass a filter answered by facets; None: a filter that facets do not answer.
    Without a dense leg, ``APPROXIMATE`` means that matches are counted up to ``few`` only.
    """
    index = collection.ann_index
    if LegName.DENSE not in legs:
        if not is_filtered:
            return Way(Path.EXACT)
        way = _way_of_orders(Path.APPROXIMATE, depth, collection.documents)
        least = by_facets.least if by_facets else 0.0
        return _way_by_words(way, collection.documents, least) if LegName.LEXICAL in legs else way
    if index is None or effort_for(index, limit) > MAX_EFFORT:
        if is_filtered and not ORDERED_LEGS.isdisjoint(legs):
            return _way_of_orders(Path.EXACT, depth, collection.documents)
        return Way(Path.EXACT)
    if not is_filtered:
        return Way(Path.APPROXIMATE, effort=effort_for(index, limit))
    depth, limit = max(depth, _LEAST_LIMIT), max(limit, _LEAST_LIMIT)
    if by_facets is not None:
        is_dense_alone = set(legs) == {LegName.DENSE}
        return _way_by_facets(index, depth, limit, collection.documents, by_facets, may_be_exact=is_dense_alone)
    few = few_matches(index, depth, limit, collection.documents)
    effort, less = (effort_for(index, _walk_depth(limit, collection.documents, some)) for some in (few, 2 * few))
    if effort > 2 * less:
        # Some searches make twice the comparisons, but all others need less than half the effort.
        few, effort = min(2 * few, max(collection.documents, 1)), less
    # A longer walk would find matches only far from the query, where it would miss too many.
    reach = math.ceil(SPARE * _at_most(depth) * collection.documents / few)
    return Way(Path.APPROXIMATE, few=few, reach=reach, effort=min(effort, MAX_EFFORT))


def _way_by_facets(index: AnnIndex, depth: int, limit: int, documents: int, share: Share, *, may_be_exact: bool) -> Way:
    """The way under a filter answered by facets. Where few items certainly match, the statement has no walk.

    Matches are not counted where many items certainly match.
    """
    few = few_by_facets(index, limit, documents)
    if may_be_exact and share.most * documents <= few * _RELIABLE_SHARE:
        return Way(Path.EXACT)
    expected = math.floor(share.least * _RELIABLE_SHARE * documents)
    matches = max(few, expected)
    return Way(
        Path.APPROXIMATE,
        few=few if expected <= few else -1,
        reach=math.ceil(SPARE * _at_most(depth) * max(documents, 1) / matches),
        effort=min(effort_for(index, _walk_depth(limit, documents, matches)), MAX_EFFORT),
    )


@lru_cache(maxsize=1024)
def few_by_facets(index: AnnIndex, limit: int, documents: int) -> int:
    """The most matches, found by facets, for which comparing all of them is as cheap as a walk, or safer.

    Compares m × r × COMPARED_BY_FACETS with effort × w × EFFORT_BY_FACETS per part, with the effort for m matches. With
    more matches comparing costs more and walking less. At least 1, at most ``documents``.
    """
    price = index.walk_row_us * (1.0 if index.is_quantised else EFFORT_BY_FACETS * index.parts)

    def is_dearer(matches: int) -> bool:
        effort = effort_for(index, _walk_depth(limit, documents, matches))
        compared = matches * index.exact_row_us * COMPARED_BY_FACETS
        return effort <= MAX_EFFORT and compared >= effort * price

    return 1 + bisect_left(range(1, max(documents, 1)), True, key=is_dearer)  # noqa: FBT003 - the value to find


def share_by_facets(collection: StoredCollection, condition: Filter | None) -> Share | None:
    """The ``by_facets`` of ``choose_way``. None if facets do not answer the filter, or without an index."""
    if condition is None or collection.ann_index is None:
        return None
    common = collection.ann_index.common_facets
    return facet_share(condition, collection.filterable, collection.collection_id, common)


def few_to_look_up(depth: int, documents: int) -> int:
    """The most matches for which looking all of them up is as cheap as walking an order to ``depth`` matches.

    With N items of which m match and a depth of d, looking up costs m × r and walking SPARE × d × N / m × w; the costs
    are equal at m = sqrt(SPARE × d × N × w / r). At least 1, at most ``documents``.
    """
    return max(min(math.ceil(math.sqrt(SPARE * depth * documents * STEP_TO_LOOK_UP)), documents), 1)


def _way_by_words(way: Way, documents: int, share: float) -> Way:
    """The way with the matches that are ranked by words one by one; ``share``: the least share of items that match."""
    few = max(way.few, min(documents // LEAST_PASSING, MOST_RANKED))
    return replace(way, few=-1 if share * _RELIABLE_SHARE * documents > few else few)


def _way_of_orders(path: Path, depth: int, documents: int) -> Way:
    depth = max(depth, _LEAST_LIMIT)
    few = few_to_look_up(depth, documents)
    return Way(path, few=few, reach=math.ceil(SPARE * _at_most(depth) * max(documents, 1) / few))


def effort_for(index: AnnIndex, nearest: int) -> int:
    """The search effort that ranks the ``nearest`` vectors correctly: measured for 10, 100 and 200, interpolated."""
    if nearest <= 100:
        return math.ceil(index.effort_10 + (index.effort_100 - index.effort_10) * max(nearest - 10, 0) / 90)
    return math.ceil(index.effort_100 + _step(index) * (nearest - 100))


def most_nearest(index: AnnIndex) -> int:
    """The number of nearest vectors that the greatest effort ranks correctly."""
    if effort_for(index, 100) <= MAX_EFFORT:
        return 100 + math.floor((MAX_EFFORT - index.effort_100) / _step(index))
    return next((nearest for nearest in range(100, 10, -1) if effort_for(index, nearest) <= MAX_EFFORT), 10)


def few_matches(index: AnnIndex, depth: int, limit: int, documents: int) -> int:
    """The most matches for which comparing all is as cheap as a walk, or for which a walk would miss too many."""
    ratio = index.walk_row_us / max(index.exact_row_us, 0.01)
    cheaper = math.sqrt(SPARE * depth * documents * ratio)
    safer = _at_most(limit) * documents / most_nearest(index)
    return max(min(math.ceil(max(cheaper, safer)), documents), 1)


def _step(index: AnnIndex) -> float:
    """The additional effort for each further neighbour beyond the 100 nearest."""
    return max((index.effort_200 - index.effort_100) / 100, 1.0)


def _walk_depth(limit: int, documents: int, matches: int) -> int:
    """The number of nearest vectors that a walk has to rank to keep ``limit`` hits if ``matches`` items match."""
    return math.ceil(_at_most(limit) * documents / matches)


def _at_most(limit: int) -> float:
    """The number n such that n / share random items nearly always include ``limit`` matches."""
    return limit + 2 * math.sqrt(limit) + 1


def account(collection: StoredCollection, leg_results: LegResults, *, is_filtered: bool) -> tuple[int, str]:
    """The number of vectors that the dense leg compared, and the reason for its path, in words."""
    index, documents, weighed = collection.ann_index, collection.documents, leg_results.weighed
    if leg_results.path is Path.NONE:
        return 0, "no dense leg"
    if leg_results.path is Path.APPROXIMATE:
        why = f"many of {documents} items match" if is_filtered else f"unfiltered among {documents} items"
        return weighed, f"{why}: the HNSW index was walked"
    if leg_results.fell_short and index is not None:
        return weighed, "the index found too few matches: every matching vector was compared"
    if is_filtered and index is None:
        return weighed, f"no HNSW index: the {weighed} matching vectors were compared"
    if is_filtered:
        why = f"{weighed} of {documents} items match: comparing them all costs less than walking the HNSW index"
        return weighed, why
    if index is None:
        few = "1 item is" if documents == 1 else f"{documents} items are"
        return documents, f"no HNSW index: {few} few enough to compare all"
    if index.effort_10 > MAX_EFFORT:
        return documents, "no cheaper walk of the HNSW index finds 99 % of the nearest: all vectors were compared"
    return documents, "the limit is so high that comparing all vectors is safer than walking the HNSW index"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """The plan of a search."""

    request: CandidateRequest
    profile: Profile
    notes: tuple[str, ...]
    is_final: bool = True
    """Whether relevance alone decides the order: neither a learned model nor exploration changes it."""
    is_diverse: bool = False
    """Whether near-duplicates among the candidates are left out."""
    pool: int = 0
    """The number of candidates that later stages rank again."""


def calibration_of(collection: StoredCollection, profile: Profile) -> Calibration | None:
    """The calibration of the profile, else of the collection, if it is for the active space; else the shipped one."""
    space = None if collection.space is None else collection.space.space
    fitted = profile.calibration or collection.profile.calibration
    if fitted is not None and fitted.space == (space.name if space else ""):
        return fitted
    return SHIPPED.get((space.provider, space.model)) if space else None


SCORED_BOTH_WAYS = frozenset({LegName.DENSE, LegName.LEXICAL})
"""The legs whose score of any item can be looked up."""


def make_plan(
    collection: StoredCollection, request: SearchRequest, why_no_vector: str | None = None, *, is_final: bool = True
) -> SearchPlan:
    """Choose the legs that can run and the way of the dense leg. Raises ``InvalidRequestError`` if no leg can run.

    ``why_no_vector``: None if there is a query vector. ``is_final``: as in the plan.
    """
    profile = request.profile or collection.profile
    legs, notes = _legs(profile, request, why_no_vector)
    rerank, is_one_question = profile.rerank, not request.rewrites and not request.preferred
    is_one_ranking = len(legs) == 1 and is_one_question and not profile.signals
    # The best candidates are the hits, unless grouping, diversity or reranking leaves some out.
    are_best = is_final and request.group_by is None and profile.diversity.is_off and rerank is None
    are_hits = is_one_ranking and are_best
    refines = not profile.refining.is_off and LegName.DENSE in legs and not is_one_ranking
    depth = request.limit if are_hits else leg_depth(profile, request.limit)
    is_filtered = request.condition is not None
    by_facets = share_by_facets(collection, request.condition)
    way = choose_way(collection, legs, depth=depth, limit=request.limit, is_filtered=is_filtered, by_facets=by_facets)
    space = collection.space
    signal_weights = signal_weights_of(profile, legs)
    sums_scores = profile.fusion.kind is FusionKind.WEIGHTED_SUM
    return SearchPlan(
        request=CandidateRequest(
            collection_id=collection.collection_id,
            legs=legs,
            depth=depth if signal_weights is None else min(_DEEPER_BY_SIGNALS * depth, MAX_DEPTH),
            enough=None if signal_weights is None else depth,
            signal_weights=signal_weights,
            condition=request.condition,
            filterable=collection.filterable,
            path=way.path,
            space_id=space.space_id if space else 0,
            dimensions=space.space.dimensions if space else 0,
            documents=collection.documents,
            few=way.few,
            share=by_facets.least if by_facets else 0.0,
            reach=way.reach,
            effort=way.effort,
            is_quantised=collection.ann_index is not None and collection.ann_index.is_quantised,
            parts=1 if collection.ann_index is None else collection.ann_index.parts,
            fields=() if request.group_by is None else (request.group_by,),
            with_items=are_hits,
            likely=_likely_hits(profile, legs, request.limit) if are_best and is_one_question else None,
            with_both_scores=SCORED_BOTH_WAYS.issubset(legs)
            and (sums_scores or (signal_weights is None and calibration_of(collection, profile) is not None)),
            ranks_both_scores=sums_scores,
            with_vectors=space is not None and (refines or not profile.diversity.is_off),
            checks_space=space is not None and collection.is_in_use and (LegName.DENSE in legs or refines),
        ),
        profile=profile,
        notes=notes,
        is_final=is_final,
        is_diverse=not profile.diversity.is_off,
        pool=pool_size(profile, request.limit, is_final=is_final),
    )


def leg_depth(profile: Profile, limit: int) -> int:
    """The number of candidates that each leg brings for ``limit`` hits, unless those of a single leg are the hits."""
    depth = max(profile.depth, limit)
    if profile.rerank is not None:
        depth = max(depth, profile.rerank.candidates)
    return depth if profile.diversity.relevance_share is None else max(depth, diverse_pool(limit))


_SPARE_LIKELY = 10
"""The most likely hits beyond the limit where refining changes the order; in 19 of 20 searches they have all hits."""

_PLACES = 30
"""The decimal places of a weight in the guess."""


def _likely_hits(profile: Profile, legs: Sequence[LegName], limit: int) -> LikelyHits | None:
    """How to guess the hits of a fusion that the legs alone decide, apart from refining; None for any other."""
    if len(legs) == 1 or profile.signals:
        return None
    # Only the ratios matter. PostgreSQL refuses a product too small for a number, which Python makes 0.
    total = sum(profile.legs[leg] for leg in legs)
    weights = tuple((leg, round(profile.legs[leg] / total, _PLACES)) for leg in legs)
    # Texts may be large, so few hits are not read with many others. One more, because sums may differ in the last bit.
    spare = 1 if profile.refining.is_off else min(limit + 2, _SPARE_LIKELY)
    return LikelyHits(items=limit + spare, weights=weights, fusion=profile.fusion)


_POOL_OF_A_HIT = 4
"""Candidates per requested hit, from which diverse ones are chosen."""

_LARGEST_POOL = 300


def diverse_pool(limit: int) -> int:
    """The number of candidates from which ``limit`` diverse ones are chosen."""
    return max(limit, min(_POOL_OF_A_HIT * limit, _LARGEST_POOL))


_LEARNED_POOL = 100
"""The least number of candidates that a learned model reorders."""


def pool_size(profile: Profile, limit: int, *, is_final: bool) -> int:
    """The number of the best candidates from which ``limit`` hits are made; ``is_final``: as in the plan."""
    pool = limit
    if profile.rerank is not None:
        pool = max(limit if profile.diversity.is_off else diverse_pool(limit), profile.rerank.candidates)
    if is_final:
        return pool
    # A sum may make any candidate the best: with a smaller pool, the order would depend on the limit.
    return max(pool, _LEARNED_POOL, profile.depth if profile.learned.combination is Combination.SUM else 0)


def plan_preferred(
    collection: StoredCollection, narrowed: SearchRequest, why_no_vector: str | None, plan: SearchPlan
) -> CandidateRequest:
    """The request for the preferred items alone, as deep as the main request, whose candidates it joins."""
    request = make_plan(collection, narrowed, why_no_vector, is_final=False).request
    return replace(request, depth=plan.request.depth, with_vectors=plan.request.with_vectors)


def signal_weights_of(profile: Profile, legs: Sequence[LegName]) -> SignalWeights | None:
    """The weights by which the database scores candidates, for profiles with several stored signals.

    None if a signal of the profile cannot be computed from a row, or if no leg ranks memories.
    """
    weights = {signal.key: signal.weight for signal in profile.signals if signal.weight}
    stored = [weights.get(signal.name, 0.0) for signal in (BaseRelevance, Recency, Popularity)]
    if not {LegName.POPULAR, LegName.RELEVANT}.intersection(legs) or not weights.keys() <= _WEIGHED:
        return None
    if sum(weight > 0 for weight in stored) <= 1:
        return None
    decay = next((signal.decay_days for signal in profile.signals if isinstance(signal, Recency)), 14.0)
    return SignalWeights(
        relevance=weights.get(BaseRelevance.name, 0.0),
        recency=weights.get(Recency.name, 0.0),
        decay_days=decay,
        use=weights.get(Popularity.name, 0.0),
        words=weights.get(KeywordOverlap.name, 0.0),
        entities=weights.get(EntityOverlap.name, 0.0),
        vectors=weights.get(VectorSimilarity.name, 0.0),
    )


_DEEPER_BY_SIGNALS = 4
"""The ratio of each leg's depth to the number of candidates that are kept of all legs."""

_WEIGHED = {kind.name for kind in (BaseRelevance, Recency, Popularity, KeywordOverlap, EntityOverlap, VectorSimilarity)}


def _legs(
    profile: Profile, request: SearchRequest, why_no_vector: str | None
) -> tuple[tuple[LegName, ...], tuple[str, ...]]:
    """The profile's legs that can run, and notes on others whose absence could surprise."""
    legs, notes = [], []
    has_question = bool(request.query) or request.vector is not None
    for leg in (LegName(name) for name, weight in profile.legs.items() if weight):
        if leg is LegName.DENSE and why_no_vector is not None:
            notes.append(why_no_vector if has_question else _NO_QUESTION.format(leg))
        elif leg is LegName.LEXICAL and not request.query:
            notes.append(_NO_WORDS if has_question else _NO_QUESTION.format(leg))
        elif (leg is LegName.LINKED and not request.entities) or (leg is LegName.TAGGED and not request.tags):
            continue
        else:
            legs.append(leg)
    if why_no_vector is not None and weighs_vectors(profile) and not profile.legs.get(LegName.DENSE):
        notes.append(why_no_vector)
    if not legs:
        raise InvalidRequestError("; ".join(notes) or _missing_inputs(profile))
    return tuple(legs), tuple(notes) if has_question else ()


def _missing_inputs(profile: Profile) -> str:
    """The error message for a question without any input that the profile's legs need."""
    legs = [leg for leg in _INPUTS if profile.legs.get(leg)]
    needs = " and ".join(f"the {leg} leg needs {_INPUTS[leg][0]}" for leg in legs)
    return f"{needs}; give {' or '.join(_INPUTS[leg][1] for leg in legs)}, or words with other legs"


_INPUTS = {LegName.LINKED: ("entities", "entities={...}"), LegName.TAGGED: ("tags", "tags=[...]")}
"""The inputs of the legs that need neither words nor a vector, with the argument for each."""
_NO_WORDS = "the lexical leg did not run: the search has a vector and no words"
_NO_QUESTION = "the {} leg needs words; give some, or a profile with other legs"
