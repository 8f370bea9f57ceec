"""Embeddings between LangChain and the platform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings, FakeEmbeddings

from retrieval.adapters.embedders.batching import all_of, prepared
from retrieval.collection import Collection
from retrieval.domain import errors
from retrieval.domain.checks import is_whole
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, Vectors, checked_vectors
from retrieval.surfaces.langchain.bridge import Bridge, blocking
from retrieval.sync import SyncCollection


class RetrievalEmbeddings(Embeddings):
    """The vectors of a collection's searches and items, of unit length. A text is embedded once and cached.

    Raises ``InvalidRequestError`` for a collection without an embedder, and the embedder's errors.
    """

    def __init__(self, collection: Collection | SyncCollection) -> None:
        self._bridge: Bridge[Collection] = Bridge(collection)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text, as of stored items with these texts."""
        return await self._bridge.arun(self._embed, texts, TextRole.DOCUMENT)

    embed_documents = blocking(aembed_documents)

    async def aembed_query(self, text: str) -> list[float]:
        """The query vector of a search for the text."""
        return (await self._bridge.arun(self._embed, [text], TextRole.QUERY))[0]

    embed_query = blocking(aembed_query)

    def space(self) -> EmbeddingSpace:
        """The collection's embedding space."""
        return self._bridge.run(self._space)

    async def _space(self) -> EmbeddingSpace:
        space = await self._bridge.twin.space()
        if space is None:
            raise errors.InvalidRequestError(
                f"collection {self._bridge.twin.name!r} has no vectors; configure an embedder, RETRIEVAL_EMBEDDER"
            )
        return space

    async def _embed(self, texts: list[str], role: TextRole) -> list[list[float]]:
        vectors: Vectors = await self._bridge.twin.vectors_of(texts, role=role)
        return [[float(number) for number in vector] for vector in vectors]


PROVIDER = "langchain"

_MODEL_NAMES = ("model", "model_name", "model_id", "deployment", "repo_id", "model_path", "model_url")
_WITHOUT_MODEL = (FakeEmbeddings, DeterministicFakeEmbedding)
_QUERIES_AT_ONCE = 8
_MAY_WORK_LATER = frozenset({408, 409, 425, 429})


class LangChainEmbedder:
    """Embeds with ``Embeddings`` of LangChain: ``connect(embedder=LangChainEmbedder(embeddings, dimensions=1536))``.

    ``space`` is the space of the vectors, for a model that also fills a collection in another way; otherwise the space
    is named after the class and its model, and has ``dimensions`` dimensions. ``of`` determines the number
    of dimensions by a call of the model, or takes the space of ``RetrievalEmbeddings``. Raises ``InvalidRequestError``
    without either, and for embeddings whose model is unknown.
    """

    def __init__(
        self, embeddings: Embeddings, *, dimensions: int | None = None, space: EmbeddingSpace | None = None
    ) -> None:
        length = dimensions or _number(getattr(embeddings, "dimensions", None))
        if space is None and length is None:
            raise errors.InvalidRequestError(
                "the length of the vectors is unknown; give dimensions=..., or let LangChainEmbedder.of ask the model"
            )
        self.embeddings = embeddings
        self._space = space or EmbeddingSpace(
            provider=PROVIDER, model=model_name(embeddings), revision="", dimensions=length or 0
        )

    @classmethod
    def of(cls, embeddings: Embeddings) -> LangChainEmbedder:
        """The embedder; if the object has no number of dimensions, it is that of a word's vector."""
        if isinstance(embeddings, RetrievalEmbeddings):
            return cls(embeddings, space=embeddings.space())
        length = _number(getattr(embeddings, "dimensions", None))
        return cls(embeddings, dimensions=length or len(embeddings.embed_query("length")))

    @property
    def space(self) -> EmbeddingSpace:
        """The space that the vectors belong to."""
        return self._space

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """One vector per text, in order: shape (len(texts), dimensions), float32, unit length.

        Raises ``EmbedderRejectedError`` for a refusal and for unusable vectors, otherwise ``EmbedderUnavailableError``.
        """
        # Services refuse empty texts.
        ready = [text or " " for text in prepared(texts, role, self._space)]
        if not ready:
            return np.zeros((0, self._space.dimensions), dtype=np.float32)
        try:
            vectors = await self._embed(ready, role)
        except Exception as error:
            raise _embedder_error(error) from error
        try:
            return checked_vectors(vectors, self._space, [f"text {number}" for number in range(1, len(ready) + 1)])
        except errors.InvalidVectorError as error:
            raise errors.EmbedderRejectedError(f"the vectors of {self._space.name} cannot be used: {error}") from error

    async def _embed(self, texts: list[str], role: TextRole) -> list[list[float]]:
        if role is TextRole.DOCUMENT:
            return await self.embeddings.aembed_documents(texts)
        found: list[list[float]] = []
        for start in range(0, len(texts), _QUERIES_AT_ONCE):
            part = texts[start : start + _QUERIES_AT_ONCE]
            found += await all_of(self.embeddings.aembed_query(text) for text in part)
        return found

    async def aclose(self) -> None:
        """Does nothing: the embeddings belong to the caller."""


def model_name(embeddings: Embeddings) -> str:
    """The class and its model: ``OpenAIEmbeddings/text-embedding-3-small``.

    Embeddings that wrap others, such as a cache, are named after the inner ones. Raises ``InvalidRequestError`` for a
    class without the name of its model, because different models could not be told apart.
    """
    while isinstance(inner := getattr(embeddings, "underlying_embeddings", None), Embeddings):
        embeddings = inner
    kind = type(embeddings).__name__
    names = (getattr(embeddings, name, None) for name in _MODEL_NAMES)
    model = next((name for name in names if isinstance(name, str) and name), None)
    if model is not None:
        return f"{kind}/{model}"
    if isinstance(embeddings, _WITHOUT_MODEL):
        return kind
    raise errors.InvalidRequestError(
        f"{kind} does not name its model; name it: "
        f'LangChainEmbedder(embeddings, space=EmbeddingSpace(provider="{PROVIDER}", model="...", dimensions=...))'
    )


def _number(value: object) -> int | None:
    return value if is_whole(value) and value > 0 else None


def _embedder_error(error: Exception) -> errors.EmbedderError:
    """The platform's error for a library's error: a rejection if the text or the call is at fault."""
    if isinstance(error, errors.EmbedderError):
        return error
    status = getattr(error, "status_code", None)
    is_refused = isinstance(status, int) and 400 <= status < 500 and status not in _MAY_WORK_LATER
    kind = (
        errors.EmbedderRejectedError
        if is_refused or isinstance(error, TypeError | ValueError)
        else errors.EmbedderUnavailableError
    )
    return kind(f"the embeddings failed with {type(error).__name__}: {' '.join(str(error).split())[:300]}")
