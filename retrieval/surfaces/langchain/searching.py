"""The searches of LangChain's vector stores, said as searches of a collection."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any, Protocol

from retrieval.collection import Collection
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.filters import And, Filter, Where, parse_where
from retrieval.domain.hit import SearchResult
from retrieval.domain.learned import Combination, Learned
from retrieval.domain.profile import MAX_DEPTH, Fusion, FusionKind, LegName, Profile
from retrieval.domain.signals.vector_similarity import VectorSimilarity

Condition = Where | Filter | None


_OPTIONS = frozenset(signature(Collection.search).parameters) - {"self", "query", "vector", "limit"}


class Search(Protocol):
    """One of the searches here."""

    async def __call__(
        self, collection: Collection, question: object, k: int, condition: Condition, **options: Any
    ) -> SearchResult:
        """The hits for words or a vector."""


async def by_profile(
    collection: Collection, question: object, k: int, condition: Condition, **options: Any
) -> SearchResult:
    """The best hits of the collection's profile for words, or for a vector of shape (dimensions,).

    ``options`` are those of ``Collection.search``. Words are taken as they stand, unless ``syntax=True``. Raises
    ``InvalidRequestError`` for an option that there is not.
    """
    if foreign := sorted(options.keys() - _OPTIONS):
        raise InvalidRequestError(
            f"there is no option {foreign[0]!r}; there are: k, filter, {', '.join(sorted(_OPTIONS))}"
        )
    where = _either(condition, options.pop("where", None))
    asked = {"query": question} if isinstance(question, str) else {"vector": question}
    return await collection.search(**asked, where=where, limit=k, **{"syntax": False} | options)


async def by_similarity(
    collection: Collection, question: object, k: int, condition: Condition, **options: Any
) -> SearchResult:
    """The nearest hits, whose scores are the cosine, 0 where it is negative. They are not what the profile would rank.

    Raises ``InvalidRequestError`` for a collection without vectors, and for a ``profile``, which would rank otherwise.
    """
    if options.get("profile") is not None:
        raise InvalidRequestError(
            "relevance from 0 to 1 is the cosine, whatever a profile says; leave the profile out, "
            "or use search_type='similarity'"
        )
    if await collection.space() is None:
        raise InvalidRequestError(
            f"collection {collection.name!r} has no vectors, so no relevance from 0 to 1; use search_type='similarity'"
        )
    profile = Profile(
        legs={LegName.DENSE.value: 1.0},
        fusion=Fusion(kind=FusionKind.UNION),
        signals=(VectorSimilarity(weight=1.0),),
        learned=Learned(combination=Combination.OFF),
    )
    return await by_profile(collection, question, k, condition, **options | {"profile": profile})


async def by_difference(
    collection: Collection, question: object, k: int, condition: Condition, **options: Any
) -> SearchResult:
    """The hits of the profile by maximal marginal relevance among the best ``fetch_k`` of each leg.

    ``lambda_mult``, 0 to 1, is the share of relevance: 1 ranks by it alone, 0 by difference alone.
    """
    fetch_k, share = options.pop("fetch_k", 20), options.pop("lambda_mult", 0.5)
    base: Profile = options.pop("profile", None) or collection.profile
    diversity = replace(base.diversity, relevance_share=share)
    profile = replace(base, depth=min(MAX_DEPTH, max(k, fetch_k)), diversity=diversity)
    return await by_profile(collection, question, k, condition, **options | {"profile": profile})


def every_of(*conditions: Condition) -> Condition:
    """What all of them let through. Raises ``InvalidFilterError``."""
    wanted = tuple(one for one in map(parse_where, conditions) if one is not None)
    return And(wanted) if wanted else None


def _either(condition: Condition, where: Condition) -> Condition:
    if condition is not None and where is not None:
        raise InvalidRequestError("filter and where are two names of the same; give one of them")
    return where if condition is None else condition
