"""Chroma, embedded: its HNSW index in a folder of its own. It ranks nothing by words."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

import chromadb
from corpora import Corpus, Vectors, Where

_BATCH = 5000
"""Below the most that one call takes."""

_HNSW: Any = {"space": "ip", "ef_construction": 100, "ef_search": 100, "max_neighbors": 16}
"""Its defaults; the effort of a search is the collection's, not the call's."""


class ChromaStore:
    """One collection."""

    plain = ("default",)
    filtered = ("default",)
    fusions = ()

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()

    async def load(self, url: str, corpus: Corpus) -> Mapping[str, float]:  # noqa: ARG002
        """In batches; the index follows along."""
        client = chromadb.PersistentClient(self._folder.name, chromadb.Settings(anonymized_telemetry=False))
        self._documents = client.create_collection("documents", embedding_function=None, configuration={"hnsw": _HNSW})
        for start in range(0, len(corpus), _BATCH):
            part = slice(start, start + _BATCH)
            metadatas: list[Any] = [dict(attribute) for attribute in corpus.attributes[part]]
            self._documents.add(
                ids=list(corpus.ids[part]),
                embeddings=corpus.vectors[part],
                documents=list(corpus.texts[part]),
                metadatas=metadatas,
            )
        return {}

    async def open(self) -> None:
        """Nothing to do."""

    async def dense(self, variant: str, vector: Vectors, k: int, where: Where) -> list[str]:  # noqa: ARG002
        """One query, with the documents and their attributes."""
        conditions: list[Any] = [{name: value} for name, value in where.items()]
        answer = self._documents.query(
            query_embeddings=[vector],
            n_results=k,
            where=conditions[0] if len(conditions) == 1 else {"$and": conditions} if conditions else None,
            include=["documents", "metadatas", "distances"],
        )
        return [str(item_id) for item_id in answer["ids"][0]]

    async def hybrid(self, variant: str, text: str, vector: Vectors, k: int) -> list[str]:
        """There is none."""
        raise NotImplementedError("Chroma does not rank by words")

    async def close(self) -> None:
        """Give back the folder."""
        self._folder.cleanup()
