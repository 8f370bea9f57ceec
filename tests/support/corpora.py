"""Corpora with known nearest neighbours: NumPy computes the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval import Collection, EmbeddingSpace, Platform
from retrieval.domain.search.hit import SearchResult

Vectors = NDArray[np.float32]
Mask = NDArray[np.bool_]

START = datetime(2024, 1, 1, tzinfo=UTC)
TOLERANCE = 1e-5
"""The greatest difference between two scores of the same pair: sums have another order."""

_NOISE = 0.6


@dataclass(frozen=True)
class Corpus:
    """A collection, and its truth."""

    platform: Platform
    collection: Collection
    vectors: Vectors
    """Shape (n, dimensions), as the database keeps them."""
    shares: NDArray[np.int64]
    """0 to 999, evenly, whatever the vector: ``share`` below 5 is half a percent."""
    ranks: NDArray[np.int64]
    """0 to 999, evenly: 0 the farthest from the pole."""
    queries: Vectors
    """Near stored vectors of all sorts."""
    polar: Vectors
    """Near the pole, so that what is far from it is far from them."""

    @property
    def size(self) -> int:
        """The number of items."""
        return len(self.vectors)

    def true_scores(self, query: Vectors, mask: Mask, limit: int) -> NDArray[np.float64]:
        """The scores of the nearest that match, best first."""
        scores = self.vectors[mask].astype(np.float64) @ as_stored(query[None])[0].astype(np.float64)
        nearest: NDArray[np.float64] = np.sort(scores)[::-1][:limit]
        return nearest

    async def found(self, queries: Vectors, where: dict[str, Any] | None, limit: int) -> list[SearchResult]:
        """The result of a dense search for each query."""
        return await self.collection.search_each(
            [""] * len(queries), vectors=list(queries), where=where, limit=limit, legs=["dense"]
        )

    def recalls(self, queries: Vectors, mask: Mask, limit: int, results: Sequence[SearchResult]) -> list[float]:
        """The share of the true nearest on each page. Every page must be full, and hold matching items only."""
        shares = []
        for query, result in zip(queries, results, strict=True):
            true = self.true_scores(query, mask, limit)
            places = [int(hit.item_id) for hit in result]
            assert len(set(places)) == len(result) == min(limit, int(mask.sum()))
            assert mask[places].all()
            shares.append(recall([hit.score for hit in result], true))
        return shares


def as_stored(vectors: Vectors) -> Vectors:
    """The vectors as the database keeps them: of unit length, in half precision."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    halved: Vectors = unit.astype(np.float16).astype(np.float32)
    return halved


def recall(scores: Iterable[float], true: NDArray[np.float64]) -> float:
    """The share of the true nearest that was found, by their scores; equally near items are interchangeable."""
    worst = float(true[-1]) - TOLERANCE
    return sum(score >= worst for score in scores) / len(true)


def clustered(chance: np.random.Generator, number: int, dimensions: int, clusters: int) -> Vectors:
    """Points around centres, as texts of many subjects are."""
    centres = chance.normal(size=(clusters, dimensions)).astype(np.float32)
    noise = chance.normal(size=(number, dimensions)).astype(np.float32)
    points: Vectors = centres[chance.integers(clusters, size=number)] + np.float32(_NOISE) * noise
    return points


async def make_corpus(
    platform: Platform, vectors: Vectors, *, queries: int, texts: Sequence[str] | None = None, seed: int = 3
) -> Corpus:
    """Store the vectors with attributes, tags, times and texts; the collection keeps its indexes as it sees fit."""
    chance = np.random.default_rng(seed)
    size, dimensions = vectors.shape
    space = EmbeddingSpace(provider="test", model=f"{platform.tenant_id}", dimensions=dimensions)
    halved = as_stored(vectors)
    pole = halved[0]
    shares = chance.permutation(size) * 1000 // size
    ranks = np.empty(size, dtype=np.int64)
    ranks[np.argsort(halved @ pole, kind="stable")] = np.arange(size) * 1000 // size
    collection = await platform.collection("corpus", space=space)
    items = [
        item(place, int(shares[place]), int(ranks[place])) | {"text": text}
        for place, text in enumerate(texts or [""] * size)
    ]
    await collection.add(items, embeddings=vectors)
    near = vectors[chance.integers(size, size=queries)]
    away = chance.normal(size=(2 * queries, dimensions)).astype(np.float32)
    return Corpus(
        platform,
        collection,
        halved,
        shares,
        ranks,
        queries=near + np.float32(_NOISE / 2) * away[:queries],
        polar=vectors[:1] + np.float32(_NOISE / 2) * away[queries:],
    )


def item(place: int, share: int, rank: int) -> dict[str, Any]:
    """An item of a corpus; what filters ask for follows from its place."""
    return {
        "_id": f"{place:06}",
        "text": "",
        "kind": f"kind{place % 4}",
        "tags": [f"a{place % 5}", f"b{place % 7}"],
        "occurred_at": (START + timedelta(hours=place)).isoformat(),
        "metadata": {
            "share": share,
            "rank": rank,
            "colour": f"c{place % 10}",
            "even": place % 2 == 0,
            "decile": rank // 100,
        },
    }
