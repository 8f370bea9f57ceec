"""The vectors that searches look for: given with them, or embedded in one call; or why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain.embedding import Vector
from retrieval.domain.errors import RetrievalError
from retrieval.domain.profile import LegName, Profile
from retrieval.domain.signals.vector_similarity import VectorSimilarity
from retrieval.engine.request import SearchRequest, unit_query_vector

NO_SPACE = (
    "no embedder is configured for this collection; set OPENAI_API_KEY, or pip install 'retrieval-platform[local]'"
)


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """One vector a request, each of shape (dimensions,) and unit length; None where there is none."""

    vectors: tuple[Vector | None, ...]
    why_none: str | None = None
    """Why there are not all of them."""


async def query_vectors(
    collection: StoredCollection, embedder: CachedEmbedder | None, requests: Sequence[SearchRequest]
) -> QueryVectors:
    """The requests' vectors. Requests of one call have the same profile.

    Raises ``InvalidRequestError`` for a vector in a collection without a space, the errors of ``checked_vectors``, and
    the embedder's when no other leg can answer.
    """
    vectors: list[Vector | None] = []
    for one in requests:
        try:
            vectors.append(None if one.vector is None else unit_query_vector(one.vector, collection))
        except RetrievalError as error:
            raise error if len(requests) == 1 else type(error)(f"query {len(vectors) + 1}: {error}") from None
    wanting = [place for place, one in enumerate(requests) if one.vector is None]
    made, why_none = await _made(collection, embedder, [requests[place] for place in wanting])
    for place, vector in zip(wanting, made, strict=True):
        vectors[place] = vector
    return QueryVectors(tuple(vectors), why_none)


async def _made(
    collection: StoredCollection, embedder: CachedEmbedder | None, requests: Sequence[SearchRequest]
) -> tuple[Sequence[Vector | None], str | None]:
    none: list[Vector | None] = [None] * len(requests)
    if not requests:
        return none, None
    profile = requests[0].profile or collection.profile
    why_none = _why_no_vectors(collection, embedder, profile)
    if not all(one.query for one in requests):
        why_none = why_none or f"{_lost(profile)}: there are no words to embed"
    if why_none is not None or embedder is None:
        return none, why_none
    vectors, error = await embedder.try_queries([one.query for one in requests])
    if error is None:
        return vectors, None
    if not any(weight for leg, weight in profile.legs.items() if leg != LegName.DENSE):
        raise error
    return vectors, f"{_lost(profile)}: {error}"


def _why_no_vectors(collection: StoredCollection, embedder: CachedEmbedder | None, profile: Profile) -> str | None:
    if not profile.legs.get(LegName.DENSE) and not weighs_vectors(profile):
        return "the dense leg is not part of this search"
    if collection.space is None:
        return f"{_lost(profile)}: {NO_SPACE}"
    if embedder is None:
        return f"{_lost(profile)}: no embedder for the space {collection.space.space.name} is configured"
    return None


def weighs_vectors(profile: Profile) -> bool:
    """Whether the score tells of the query's vector, whatever the legs are."""
    return any(isinstance(signal, VectorSimilarity) and signal.weight for signal in profile.signals)


def _lost(profile: Profile) -> str:
    """What a search without a vector does without."""
    return "the dense leg did not run" if profile.legs.get(LegName.DENSE) else "vector_similarity is 0"
