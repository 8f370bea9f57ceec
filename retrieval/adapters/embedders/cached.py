"""Any embedder, with a cache in PostgreSQL in front: a text is paid for once by each tenant."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.embeddings import cache_vectors, cached_vectors
from retrieval.adapters.store.spaces import StoredSpace
from retrieval.domain.embedding import Embedder, TextRole, Vector, Vectors, cache_key, checked_vectors
from retrieval.domain.errors import DatabaseUnreachableError, EmbedderRejectedError

_log = logging.getLogger(__name__)

KEPT_QUERIES = 2048
"""Query vectors that one process keeps at hand."""


class CachedEmbedder:
    """Embeds what neither the cache nor an earlier text of the same call has.

    Vectors come back as the database keeps them (half precision), so that a cached text and a fresh one rank alike.
    """

    def __init__(self, embedder: Embedder, database: Database, tenant_id: int, space: StoredSpace) -> None:
        self._embedder = embedder
        self._database = database
        self._tenant_id = tenant_id
        self.stored_space = space
        self._queries: OrderedDict[str, Vector] = OrderedDict()

    async def embed_documents(self, texts: Sequence[str], keys: Sequence[str]) -> Vectors:
        """One vector a text, shape (len(texts), dimensions); ``keys`` name the texts in messages.

        Raises ``EmbedderUnavailableError``, ``EmbedderRejectedError``, ``WrongDimensionError`` or
        ``InvalidVectorError`` with the key.
        """
        return await self._embed(texts, keys, TextRole.DOCUMENT)

    async def embed_query(self, text: str) -> Vector:
        """The query's vector, shape (dimensions,)."""
        return (await self.embed_queries([text]))[0]

    def at_hand(self, text: str) -> Vector | None:
        """The query's vector, shape (dimensions,), if this process embedded or read it lately: without any wait."""
        return self._queries.get(text)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """One vector a query, shape (dimensions,); those not at hand are asked for in one call."""
        known = {text: self._queries[text] for text in texts if text in self._queries}
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        if fresh:
            keys = ["the query"] if len(texts) == 1 else [f"query {texts.index(text) + 1}" for text in fresh]
            known |= zip(fresh, await self._embed(fresh, keys, TextRole.QUERY), strict=True)
        for text in dict.fromkeys(texts):
            self._queries[text] = known[text]
            self._queries.move_to_end(text)
        while len(self._queries) > KEPT_QUERIES:
            self._queries.popitem(last=False)
        return [known[text] for text in texts]

    async def try_out(self) -> None:
        """Ask the embedder itself for a vector, past the cache, and keep nothing. Raises as ``embed_documents``."""
        vectors = await self._ask(["retrieval"], ["a word to try it out"], TextRole.QUERY)
        checked_vectors(vectors, self._embedder.space, ["a word to try it out"])

    async def _embed(self, texts: Sequence[str], keys: Sequence[str], role: TextRole) -> Vectors:
        hashes = [cache_key(self._embedder.space, role, text) for text in texts]
        known = await cached_vectors(self._database, self._tenant_id, self.stored_space, list(set(hashes)))
        fresh = {hash_: place for place, hash_ in reversed(list(enumerate(hashes))) if hash_ not in known}
        if fresh:
            places = sorted(fresh.values())
            vectors = await self._ask([texts[place] for place in places], [keys[place] for place in places], role)
            vectors = checked_vectors(vectors, self._embedder.space, [keys[place] for place in places])
            made = {hashes[place]: _as_stored(vector) for place, vector in zip(places, vectors, strict=True)}
            try:
                await cache_vectors(self._database, self._tenant_id, self.stored_space, made)
            except DatabaseUnreachableError as error:
                # The vectors are at hand; what comes next reaches the database again, or says that it cannot.
                _log.info("vectors were not cached: %s", error)
            known |= made
        if not hashes:
            return np.zeros((0, self._embedder.space.dimensions), dtype=np.float32)
        return np.stack([known[hash_] for hash_ in hashes])

    async def _ask(self, texts: Sequence[str], keys: Sequence[str], role: TextRole) -> Vectors:
        try:
            return await self._embedder.embed(texts, role)
        except EmbedderRejectedError as error:
            span = f"{keys[0]!r}" if len(keys) == 1 else f"{len(keys)} items, from {keys[0]!r} to {keys[-1]!r}"
            raise EmbedderRejectedError(f"{error} (embedding {span})") from error


def _as_stored(vector: Vector) -> Vector:
    return vector.astype(np.float16).astype(np.float32)
