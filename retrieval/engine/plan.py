"""The plan of a search: which legs run, how deep, how the dense one starts, and what the caller must know. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.adapters.store.candidate_request import CandidateRequest
from retrieval.adapters.store.collections import StoredCollection
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.profile import LegName, Profile
from retrieval.engine.request import SearchRequest
from retrieval.engine.way import choose_way


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will run."""

    request: CandidateRequest
    profile: Profile
    notes: tuple[str, ...]


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
    depth = request.limit if are_hits else max(profile.depth, request.limit)
    is_filtered = request.condition is not None
    way = choose_way(collection, legs, depth=depth, limit=request.limit, is_filtered=is_filtered)
    space = collection.space
    return Plan(
        request=CandidateRequest(
            collection_id=collection.collection_id,
            legs=legs,
            depth=depth,
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
        ),
        profile=profile,
        notes=notes,
    )


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
        elif leg is LegName.LINKED and not request.entities:
            continue
        else:
            legs.append(leg)
    if not legs:
        raise InvalidRequestError("; ".join(notes) or "the linked leg needs entities; give entities={...}, or words")
    return tuple(legs), tuple(notes) if has_question else ()


_NO_WORDS = "the lexical leg did not run: the search has a vector and no words"
_NO_QUESTION = "the {} leg needs words; give some, or a profile with other legs"
