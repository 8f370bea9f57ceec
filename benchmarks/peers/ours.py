"""The platform, through its public API."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AsyncExitStack

from corpora import Corpus, Question, Vectors, Where

from retrieval import Collection, Item, Platform, connect
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.domain.search.profile import Profile
from retrieval.engine.plan import default_profile
from retrieval.settings import Settings

COLLECTION = "bench"
TENANT = "bench"


PROFILES: Mapping[str, Profile] = {
    "RRF": default_profile(None),
    "weighted sum, MiniLM's default": default_profile(
        EmbeddingSpace(provider="minilm", model="all-MiniLM-L6-v2", dimensions=384)
    ),
}
"""The profiles of new collections: for an untuned space, and for the local model (tuned on train queries)."""


class Ours:
    """One collection; nothing is declared."""

    plain = ("as it is",)
    filtered = ("as it is",)
    fusions = tuple(PROFILES)

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._collection: Collection | None = None

    async def load(self, url: str, corpus: Corpus) -> Mapping[str, float]:
        """``add`` with precomputed vectors; it builds both indexes."""
        platform = await self._stack.enter_async_context(platform_at(url))
        started = time.perf_counter()
        collection = await make_collection(platform, COLLECTION, corpus.dimensions)
        await collection.add(items(corpus), embeddings=corpus.vectors)
        self._collection = collection
        return {"add": time.perf_counter() - started}

    async def open(self) -> None:
        """Nothing more to do: the handle searches."""

    async def dense(self, variant: str, vector: Vectors, k: int, where: Where) -> list[str]:  # noqa: ARG002
        """The dense leg alone, by vector."""
        hits = await self._made.search(vector=vector, where=dict(where) or None, limit=k, legs=["dense"])
        return [hit.item_id for hit in hits]

    async def hybrid(self, variant: str, text: str, vector: Vectors, k: int) -> list[str]:
        """Both legs, fused by the variant's profile."""
        hits = await self._made.search(text, vector=vector, limit=k, profile=PROFILES[variant])
        return [hit.item_id for hit in hits]

    async def close(self) -> None:
        """Close the platform."""
        await self._stack.aclose()

    @property
    def _made(self) -> Collection:
        if self._collection is None:
            raise RuntimeError("nothing is loaded; call load first")
        return self._collection


def platform_at(url: str, tenant: str = TENANT, pool_size: int = 4) -> Platform:
    """The platform, to be opened, without an embedder: all vectors are given."""
    settings = Settings(embedder="none", tenant=tenant, pool_size=pool_size, database_schema="retrieval")
    return connect(url, settings=settings)


async def make_collection(
    platform: Platform, name: str, dimensions: int, space: EmbeddingSpace | None = None
) -> Collection:
    """A collection for vectors of that many dimensions."""
    space = space or EmbeddingSpace(provider="bench", model="clustered", dimensions=dimensions)
    return await platform.collection(name, space=space)


async def ask(collection: Collection, question: Question, kind: str) -> None:
    """Search ten hits: ``dense`` by the vector alone, ``hybrid`` by words and vector."""
    if kind == "dense":
        await collection.search(vector=question.vector, limit=10, legs=["dense"])
    else:
        await collection.search(question.text, vector=question.vector, limit=10)


def items(corpus: Corpus) -> list[Item]:
    """The corpus as items: the text is the body."""
    return [
        Item(item_id=key, body=text, attributes=attributes)
        for key, text, attributes in zip(corpus.ids, corpus.texts, corpus.attributes, strict=True)
    ]
