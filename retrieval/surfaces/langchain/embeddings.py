"""A collection's embedder as embeddings of LangChain."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from retrieval.collection import Collection
from retrieval.domain.embedding import EmbeddingSpace, TextRole, Vectors
from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.langchain.bridge import Bridge
from retrieval.sync import SyncCollection


class RetrievalEmbeddings(Embeddings):
    """The vectors that a collection's searches and items have, of unit length. A text is embedded once and kept.

    Raises ``InvalidRequestError`` for a collection without an embedder, and the embedder's errors.
    """

    def __init__(self, collection: Collection | SyncCollection) -> None:
        self._bridge: Bridge[Collection] = Bridge(collection)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector a text, as stored items of these texts have."""
        return self._bridge.run(self._embedded, texts, TextRole.DOCUMENT)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """As ``embed_documents``."""
        return await self._bridge.arun(self._embedded, texts, TextRole.DOCUMENT)

    def embed_query(self, text: str) -> list[float]:
        """The vector that a search for the text looks for."""
        return self._bridge.run(self._embedded, [text], TextRole.QUERY)[0]

    async def aembed_query(self, text: str) -> list[float]:
        """As ``embed_query``."""
        return (await self._bridge.arun(self._embedded, [text], TextRole.QUERY))[0]

    def space(self) -> EmbeddingSpace:
        """The collection's embedding space."""
        return self._bridge.run(self._space)

    async def aspace(self) -> EmbeddingSpace:
        """As ``space``."""
        return await self._bridge.arun(self._space)

    async def _space(self) -> EmbeddingSpace:
        space = await self._bridge.twin.space()
        if space is None:
            raise InvalidRequestError(
                f"collection {self._bridge.twin.name!r} has no vectors; configure an embedder, RETRIEVAL_EMBEDDER"
            )
        return space

    async def _embedded(self, texts: list[str], role: TextRole) -> list[list[float]]:
        vectors: Vectors = await self._bridge.twin.vectors_of(texts, role=role)
        return [[float(number) for number in vector] for vector in vectors]
