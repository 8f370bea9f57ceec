"""The plan of a search: which legs run, how deep, how the dense one starts, and what the caller must know. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Standing
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.profile import MAX_DEPTH, FusionKind, LegName, Profile
from retrieval.domain.signals.base_relevance import BaseRelevance
from retrieval.domain.signals.entity import EntityOverlap
from retrieval.domain.signals.keyword import KeywordOverlap
from retrieval.domain.signals.popularity import Popularity
from retrieval.domain.signals.recency import Recency
from retrieval.domain.signals.vector_similarity import VectorSimilarity
from retrieval.engine.query_vectors import weighs_vectors
from retrieval.engine.request import SearchRequest
from retrieval.engine.way import choose_way, share_by_facets


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will run."""

    request: CandidateRequest
    profile: Profile
    notes: tuple[str, ...]


SCORED_BOTH_WAYS = frozenset({LegName.DENSE, LegName.LEXICAL})
"""The legs whose score of any item can be looked up."""


def make_plan(
    collection: StoredCollection, request: SearchRequest, why_no_vector: str | None = None, *, is_final: bool = True
) -> Plan:
    """Choose the legs that can run and the way of the dense one.

    ``why_no_vector``: None when there is a query vector. ``is_final``: whether relevance alone makes the order. Raises
    ``InvalidRequestError`` when no leg of the profile can run.
    """
    profile = request.profile or collection.profile
    legs, notes = _legs(profile, request, why_no_vector)
    # What one leg brings are the hits already, unless some of them will be passed over.
    is_one_ranking = len(legs) == 1 and not request.rewrites and not request.preferred and not profile.signals
    are_hits = is_final and is_one_ranking and request.group_by is None and profile.diversity.is_off
    refines = not profile.refining.is_off and LegName.DENSE in legs and not is_one_ranking
    depth = request.limit if are_hits else max(profile.depth, request.limit)
    is_filtered = request.condition is not None
    by_facets = share_by_facets(collection, request.condition)
    way = choose_way(collection, legs, depth=depth, limit=request.limit, is_filtered=is_filtered, by_facets=by_facets)
    space = collection.space
    standing = standing_of(profile, legs)
    return Plan(
        request=CandidateRequest(
            collection_id=collection.collection_id,
            legs=legs,
            depth=depth if standing is None else min(_DEEPER_IN_STANDING * depth, MAX_DEPTH),
            enough=None if standing is None else depth,
            standing=standing,
            condition=request.condition,
            filterable=collection.filterable,
            path=way.path,
            space_id=space.space_id if space else 0,
            dimensions=space.space.dimensions if space else 0,
            documents=collection.documents,
            few=way.few,
            reach=way.reach,
            effort=way.effort,
            fields=() if request.group_by is None else (request.group_by,),
            with_items=are_hits,
            with_both_scores=profile.fusion.kind is FusionKind.WEIGHTED_SUM and SCORED_BOTH_WAYS.issubset(legs),
            with_vectors=space is not None and (refines or not profile.diversity.is_off),
        ),
        profile=profile,
        notes=notes,
    )


def plan_preferred(
    collection: StoredCollection, narrowed: SearchRequest, why_no_vector: str | None, plan: Plan
) -> CandidateRequest:
    """The request for the preferred items alone. It goes as deep as the main request, whose candidates it joins."""
    request = make_plan(collection, narrowed, why_no_vector, is_final=False).request
    return replace(request, depth=plan.request.depth, with_vectors=plan.request.with_vectors)


def standing_of(profile: Profile, legs: Sequence[LegName]) -> Standing | None:
    """How candidates are weighed before they are sent: where several signals that are stored make the score.

    None where some signal of the profile cannot be told of a row, or no leg is one of memories.
    """
    weights = {signal.key: signal.weight for signal in profile.signals if signal.weight}
    stored = [weights.get(signal.name, 0.0) for signal in (BaseRelevance, Recency, Popularity)]
    if not {LegName.POPULAR, LegName.RELEVANT}.intersection(legs) or not weights.keys() <= _WEIGHED:
        return None
    if sum(weight > 0 for weight in stored) < _SEVERAL:
        return None
    decay = next((signal.decay_days for signal in profile.signals if isinstance(signal, Recency)), 14.0)
    return Standing(
        relevance=weights.get(BaseRelevance.name, 0.0),
        recency=weights.get(Recency.name, 0.0),
        decay_days=decay,
        use=weights.get(Popularity.name, 0.0),
        words=weights.get(KeywordOverlap.name, 0.0),
        entities=weights.get(EntityOverlap.name, 0.0),
        vectors=weights.get(VectorSimilarity.name, 0.0),
    )


_SEVERAL = 2
_DEEPER_IN_STANDING = 4
"""How many times the depth each leg brings, of which the depth stays."""

_WEIGHED = {one.name for one in (BaseRelevance, Recency, Popularity, KeywordOverlap, EntityOverlap, VectorSimilarity)}


def _legs(
    profile: Profile, request: SearchRequest, why_no_vector: str | None
) -> tuple[tuple[LegName, ...], tuple[str, ...]]:
    """The profile's legs that can run, and why the others do not, where that could surprise."""
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
        raise InvalidRequestError("; ".join(notes) or _nothing_asked(profile))
    return tuple(legs), tuple(notes) if has_question else ()


def _nothing_asked(profile: Profile) -> str:
    """What the profile's legs wait for, where nothing of it was given."""
    waiting = [leg for leg in _GIVEN if profile.legs.get(leg)]
    needs = " and ".join(f"the {leg} leg needs {_GIVEN[leg][0]}" for leg in waiting)
    return f"{needs}; give {' or '.join(_GIVEN[leg][1] for leg in waiting)}, or words with other legs"


_GIVEN = {LegName.LINKED: ("entities", "entities={...}"), LegName.TAGGED: ("tags", "tags=[...]")}
"""What the legs that need neither words nor a vector need, and how it is given."""
_NO_WORDS = "the lexical leg did not run: the search has a vector and no words"
_NO_QUESTION = "the {} leg needs words; give some, or a profile with other legs"
