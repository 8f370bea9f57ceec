"""The plan of a search: which legs run, how the dense one goes about it, and why. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.adapters.store.candidates import CandidateRequest, match_budget
from retrieval.adapters.store.collections import StoredCollection
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.filters import Filter
from retrieval.domain.hit import Path
from retrieval.domain.profile import LegName, Profile

NO_SPACE = (
    "the dense leg did not run: no embedder is configured for this collection; "
    "set OPENAI_API_KEY, or pip install 'retrieval-platform[local]'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will run."""

    request: CandidateRequest
    budget: int
    """Items that the lexical leg may look at."""
    profile: Profile
    path: Path
    why: str
    notes: tuple[str, ...]


def make_plan(
    collection: StoredCollection,
    profile: Profile,
    *,
    has_words: bool,
    vector_note: str | None,
    condition: Filter | None,
    limit: int,
) -> Plan:
    """Choose the legs that can run and the dense leg's path.

    ``vector_note`` is None when there is a query vector, else why there is none. Raises ``InvalidRequestError`` when no
    leg of the profile can run.
    """
    notes = []
    legs = []
    for leg in (LegName(name) for name, weight in profile.legs.items() if weight):
        if leg is LegName.DENSE and vector_note is not None:
            notes.append(vector_note)
        elif leg is LegName.LEXICAL and not has_words:
            notes.append("the lexical leg did not run: the search has a vector and no words")
        else:
            legs.append(leg)
    if not legs:
        raise InvalidRequestError("; ".join(notes))
    path, why = choose_path(collection, legs, condition)
    space = collection.space
    request = CandidateRequest(
        collection_id=collection.collection_id,
        legs=tuple(legs),
        depth=max(profile.depth, limit),
        condition=condition,
        path=path,
        space_id=space.space_id if space else 0,
        dimensions=space.space.dimensions if space else 0,
    )
    return Plan(
        request=request,
        budget=match_budget(collection.documents),
        profile=profile,
        path=path,
        why=why,
        notes=tuple(notes),
    )


def choose_path(collection: StoredCollection, legs: list[LegName], condition: Filter | None) -> tuple[Path, str]:
    """Exact unless an HNSW index can answer the whole question."""
    if LegName.DENSE not in legs:
        return Path.NONE, "no dense leg"
    if condition is not None:
        return Path.EXACT, "filtered: every matching vector is compared"
    if not collection.has_hnsw:
        return Path.EXACT, f"no HNSW index: {collection.documents} items are few enough to compare all"
    return Path.APPROXIMATE, f"unfiltered among {collection.documents} items: the HNSW index is walked"
