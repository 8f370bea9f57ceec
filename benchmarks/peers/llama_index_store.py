"""LlamaIndex: ``PGVectorStore`` with half precision, JSONB, attribute indexes, HNSW made after loading.

Hybrid search in its two documented forms: the store's own mode, and two retrievers fused by ``QueryFusionRetriever``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from corpora import Corpus, Vectors, Where
from llama_index.core import QueryBundle, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.vector_stores.postgres import PGVectorStore
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from peers.contract import EFFORTS, TUNINGS, Tuning, engine_url

_BATCH = 2048
_OWN = "its hybrid mode"
_FUSIONS = {"retrievers, RRF": "reciprocal_rerank", "retrievers, relative score": "relative_score"}
_DEPTH = 100


class LlamaIndexStore:
    """A store for each variant on one table; the synchronous door, which is the faster one here."""

    plain = EFFORTS
    filtered = ("default", "relaxed", "relaxed, wide")
    fusions = (_OWN, *_FUSIONS)

    def __init__(self) -> None:
        self._url = ""
        self._dimensions = 0
        self._names: tuple[str, ...] = ()
        self._stores: dict[str, Any] = {}
        self._retrievers: dict[str, Any] = {}

    async def load(self, url: str, corpus: Corpus) -> Mapping[str, float]:
        """``add`` in batches of its default size, then the HNSW index; the text search index is kept meanwhile."""
        self._url, self._dimensions, self._names = url, corpus.dimensions, corpus.names
        nodes = [
            TextNode(id_=key, text=text, metadata=dict(attributes), embedding=vector)
            for key, text, attributes, vector in zip(
                corpus.ids, corpus.texts, corpus.attributes, corpus.vectors.tolist(), strict=True
            )
        ]
        started = time.perf_counter()
        store = self._store(Tuning(), None)
        for start in range(0, len(nodes), _BATCH):
            store.add(nodes[start : start + _BATCH])
        added = time.perf_counter()
        indexed = self._store(
            Tuning(), {"hnsw_m": 16, "hnsw_ef_construction": 64, "hnsw_dist_method": "halfvec_cosine_ops"}
        )
        indexed._initialize()  # noqa: SLF001 - it is what makes the index, at the first query otherwise
        return {"add": added - started, "hnsw": time.perf_counter() - added}

    async def open(self) -> None:
        """Stores and retrievers."""
        for variant in {*self.plain, *self.filtered}:
            tuning = TUNINGS[variant]
            self._stores[variant] = self._store(tuning, {"hnsw_ef_search": tuning.ef_search})
        self._stores[_OWN] = self._store(Tuning(), {"hnsw_ef_search": 40})
        for variant, mode in _FUSIONS.items():
            self._retrievers[variant] = self._fused(self._store(Tuning(), {"hnsw_ef_search": _DEPTH}), mode)

    async def dense(self, variant: str, vector: Vectors, k: int, where: Where) -> list[str]:
        """By vector."""
        filters = [MetadataFilter(key=name, value=value) for name, value in where.items()]
        query = VectorStoreQuery(
            query_embedding=vector.tolist(),
            similarity_top_k=k,
            filters=MetadataFilters(filters=filters) if filters else None,
        )
        return list(self._stores[variant].query(query).ids)

    async def hybrid(self, variant: str, text: str, vector: Vectors, k: int) -> list[str]:
        """By vector and words."""
        if variant in self._retrievers:
            answer = self._retrievers[variant].retrieve(QueryBundle(text, embedding=vector.tolist()))
            return [match.node.node_id for match in answer][:k]
        query = VectorStoreQuery(
            query_embedding=vector.tolist(),
            query_str=text,
            similarity_top_k=k,
            sparse_top_k=k,
            mode=VectorStoreQueryMode.HYBRID,
        )
        # Its hybrid mode only concatenates both lists.
        return list(self._stores[variant].query(query).ids)[:k]

    async def close(self) -> None:
        """Close every store."""
        for store in self._stores.values():
            await store.close()

    def _store(self, tuning: Tuning, hnsw: dict[str, Any] | None) -> Any:
        settings = {name: value for name, value in tuning.settings().items() if name != "hnsw.ef_search"}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        return PGVectorStore(
            connection_string=engine_url(self._url, "psycopg2"),
            async_connection_string=engine_url(self._url, "asyncpg"),
            engine=create_engine(engine_url(self._url, "psycopg2"), connect_args={"options": options}),
            async_engine=create_async_engine(
                engine_url(self._url, "asyncpg"), connect_args={"server_settings": settings}
            ),
            table_name="documents",
            embed_dim=self._dimensions,
            hybrid_search=True,
            text_search_config="english",
            use_halfvec=True,
            use_jsonb=True,
            cache_ok=True,
            indexed_metadata_keys={(name, "text") for name in self._names},
            hnsw_kwargs=hnsw,
            perform_setup=hnsw is None or "hnsw_m" in hnsw,
            initialization_fail_on_error=True,
        )

    def _fused(self, store: Any, mode: str) -> Any:
        index = VectorStoreIndex.from_vector_store(store, embed_model=MockEmbedding(embed_dim=self._dimensions))
        return QueryFusionRetriever(
            [
                index.as_retriever(vector_store_query_mode="default", similarity_top_k=_DEPTH),
                index.as_retriever(vector_store_query_mode="sparse", similarity_top_k=_DEPTH, sparse_top_k=_DEPTH),
            ],
            llm=MockLLM(),
            similarity_top_k=10,
            num_queries=1,
            mode=mode,
            use_async=False,
        )
