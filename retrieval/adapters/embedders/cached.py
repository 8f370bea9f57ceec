"""An embedder with a cache in PostgreSQL: each tenant pays for a text once."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from math import ceil, inf

import numpy as np

from retrieval.adapters.embedders.batching import measure_of
from retrieval.adapters.endpoints.breaker import Guard, before_deadline
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.deadline import seconds_left
from retrieval.adapters.store.search.vectors import StoredSpace, cache_vectors, cached_vectors
from retrieval.domain import errors
from retrieval.domain.errors import EmbedderError
from retrieval.domain.items import embedding
from retrieval.domain.items.embedding import TextRole, Vector, Vectors

_log = logging.getLogger(__name__)

KEPT_QUERIES = 2048
"""The number of query vectors that one process keeps in memory."""

TEXTS_A_BUDGET = 25
"""The number of texts that one budget covers: a call with more texts has several budgets."""

LOADING_SECONDS = 10.0
"""The extra time that a search gives a local model which has to be loaded first."""

_IS_PATIENT: ContextVar[bool] = ContextVar("retrieval_is_patient", default=False)


@contextmanager
def patiently() -> Iterator[None]:
    """Embed, and rerank, without a time budget and without the breaker: for jobs and measurements, not for searches.
    The call waits as long as embedder and reranker try.
    """  # noqa: D205 - one sentence
    token = _IS_PATIENT.set(True)
    try:
        yield
    finally:
        _IS_PATIENT.reset(token)


def is_patient() -> bool:
    """Whether the call is made ``patiently``."""
    return _IS_PATIENT.get()


@dataclass(eq=False)
class CachedEmbedder:
    """Embeds the texts that neither the cache nor an earlier text of the same call has.

    Vectors come back as the database keeps them (half precision), so that a cached text and a fresh one rank alike.
    """

    embedder: embedding.Embedder
    database: Database
    tenant_id: int
    stored_space: StoredSpace
    _: KW_ONLY
    guard: Guard
    budget_seconds: float
    """How long a search waits for the embedder."""
    _queries: OrderedDict[str, Vector] = field(default_factory=OrderedDict, init=False)

    async def measure(self) -> embedding.TokenMeasure:
        """The measure of texts by the embedder's model, which is loaded in a thread if it must be."""
        return await asyncio.to_thread(measure_of, self.embedder)

    async def embed_documents(
        self, texts: Sequence[str], keys: Sequence[str], *, seconds: float | None = inf
    ) -> Vectors:
        """One vector a text, shape (len(texts), dimensions); ``keys`` name the texts in messages (``checked_vectors``).

        Waits at most for ``seconds`` or for the time that a search would wait for so many, whichever is longer, and not
        beyond a deadline. None: no longer than a search, and through the breaker. Raises ``EmbedderUnavailableError``,
        ``EmbedderRejectedError``, and ``WrongDimensionError`` or ``InvalidVectorError`` with the key.
        """
        if not texts:
            return np.zeros((0, self.embedder.space.dimensions), dtype=np.float32)
        return np.stack(_all(*await self._embed(texts, keys, TextRole.DOCUMENT, seconds)))

    async def uncached(self, texts: Sequence[str], role: TextRole) -> list[str]:
        """The distinct texts that are not cached, in order."""
        hashes = {embedding.cache_key(self.embedder.space, role, text): text for text in reversed(texts)}
        cached = await cached_vectors(self.database, self.tenant_id, self.stored_space, list(hashes))
        return [text for hash_, text in reversed(hashes.items()) if hash_ not in cached]

    async def embed_query(self, text: str) -> Vector:
        """The query's vector, shape (dimensions,). Raises as ``embed_queries``."""
        return (await self.embed_queries([text]))[0]

    def at_hand(self, text: str) -> Vector | None:
        """The query's vector, shape (dimensions,), if this process has it in memory."""
        return self._queries.get(text)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each query, shape (dimensions,). Raises the error that ``try_queries`` returns."""
        return _all(*await self.try_queries(texts))

    async def try_queries(self, texts: Sequence[str]) -> tuple[list[Vector | None], EmbedderError | None]:
        """One vector for each query, shape (dimensions,), and the embedder's error if some are missing.

        Vectors that are neither in memory nor cached are requested in one call, within the budget (see ``patiently``).
        Unusable vectors are an ``EmbedderRejectedError``, because the caller gave none.
        """
        vectors = {text: self._queries[text] for text in texts if text in self._queries}
        fresh = [text for text in dict.fromkeys(texts) if text not in vectors]
        error: EmbedderError | None = None
        if fresh:
            keys = ["the query"] if len(texts) == 1 else [f"query {texts.index(text) + 1}" for text in fresh]
            made, error = await self._embed(fresh, keys, TextRole.QUERY, inf if is_patient() else None)
            vectors |= {text: vector for text, vector in zip(fresh, made, strict=True) if vector is not None}
        for text in dict.fromkeys(text for text in texts if text in vectors):
            self._queries[text] = vectors[text]
            self._queries.move_to_end(text)
        while len(self._queries) > KEPT_QUERIES:
            self._queries.popitem(last=False)
        return [vectors.get(text) for text in texts], error

    async def try_out(self) -> None:
        """Ask the embedder itself for a vector, without the cache. Raises as ``embed_documents``."""
        vectors = await self._ask(["retrieval"], TextRole.QUERY, inf)
        embedding.checked_vectors(vectors, self.embedder.space, ["a test word"])

    async def answers(self) -> bool:
        """Whether the embedder makes a vector of a test word in the time that a search waits; False near a deadline."""
        if seconds_left() < 2 * self.budget_seconds:
            return False
        try:
            await self._ask(["retrieval"], TextRole.QUERY, None)
        except EmbedderError:
            return False
        return True

    async def _embed(
        self, texts: Sequence[str], keys: Sequence[str], role: TextRole, seconds: float | None
    ) -> tuple[list[Vector | None], EmbedderError | None]:
        hashes = [embedding.cache_key(self.embedder.space, role, text) for text in texts]
        stored = await cached_vectors(self.database, self.tenant_id, self.stored_space, list(set(hashes)))
        fresh = {hash_: index for index, hash_ in reversed(list(enumerate(hashes))) if hash_ not in stored}
        failure: EmbedderError | None = None
        if fresh:
            indexes = sorted(fresh.values())
            try:
                vectors = await self._ask([texts[index] for index in indexes], role, seconds)
                vectors = embedding.checked_vectors(vectors, self.embedder.space, [keys[index] for index in indexes])
            except EmbedderError as error:
                failure = error
            except errors.InvalidVectorError as error:
                if role is TextRole.DOCUMENT:
                    raise
                failure = embedder_fault(error)
            else:
                as_stored = vectors.astype(np.float16).astype(np.float32)
                fresh_vectors = {hashes[index]: vector for index, vector in zip(indexes, as_stored, strict=True)}
                await self._cache(fresh_vectors)
                stored |= fresh_vectors
        return [stored.get(hash_) for hash_ in hashes], failure

    async def _cache(self, vectors: Mapping[bytes, Vector]) -> None:
        try:
            await cache_vectors(self.database, self.tenant_id, self.stored_space, vectors)
        except errors.DatabaseError as error:
            # The vectors exist: a search can go on, and storing them raises its own error.
            _log.info("vectors were not cached: %s", error)

    async def _ask(self, texts: Sequence[str], role: TextRole, seconds: float | None) -> Vectors:
        """The embedder's vectors, as they are. ``seconds``: as in ``embed_documents``."""
        ask = partial(self.embedder.embed, texts, role)
        budget = wait_seconds(self.embedder, self.budget_seconds, len(texts))
        try:
            if seconds is None:
                return await self.guard.in_time(ask, budget)
            return await before_deadline(ask, errors.EmbedderUnavailableError, max(seconds, budget))
        except errors.RetrievalError:
            raise
        except Exception as error:  # an embedder of the application may raise anything
            _log.warning("the embedder failed", exc_info=error)
            raise errors.EmbedderUnavailableError(f"the embedder failed: {type(error).__name__}: {error}") from error


def embedder_fault(error: errors.InvalidVectorError) -> EmbedderError:
    """The error for unusable vectors of an embedder, to a caller who gave none."""
    return errors.EmbedderRejectedError(f"the embedder is at fault: {error}")


def wait_seconds(embedder: embedding.Embedder, budget_seconds: float, texts: int = 1) -> float:
    """The seconds that searches wait for the vectors of that number of texts."""
    loading = LOADING_SECONDS if getattr(embedder, "needs_loading", False) else 0.0
    return budget_seconds * ceil(texts / TEXTS_A_BUDGET) + loading


def _all(vectors: Sequence[Vector | None], error: EmbedderError | None) -> list[Vector]:
    if error is not None:
        raise error
    return [vector for vector in vectors if vector is not None]
