"""langchain-postgres: ``PGVectorStore``, asynchronous, with attributes as columns and every index it knows of."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from corpora import Corpus, Vectors, Where
from langchain_postgres import Column, PGEngine, PGVectorStore
from langchain_postgres.v2.hybrid_search_config import (
    HybridSearchConfig,
    reciprocal_rank_fusion,
    weighted_sum_ranking,
)
from langchain_postgres.v2.indexes import DistanceStrategy, HNSWIndex
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import create_async_engine

from peers.contract import EFFORTS, TUNINGS, engine_url

TABLE = "documents"
_FUSIONS = {"weighted sum": weighted_sum_ranking, "RRF": reciprocal_rank_fusion}
_DEPTHS = (20, 100)


class NoEmbedder:
    """All vectors are given."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Never called."""
        raise NotImplementedError

    embed_query = embed_documents


class LangchainStore:
    """A store for each variant on one table. What a connection is set to costs no statement of its own."""

    plain = EFFORTS
    filtered = ("default", "relaxed", "relaxed, wide")
    fusions = tuple(f"{name}, depth {depth}" for name in _FUSIONS for depth in _DEPTHS)

    def __init__(self) -> None:
        self._url = ""
        self._names: tuple[str, ...] = ()
        self._engines: list[Any] = []
        self._stores: dict[str, Any] = {}

    async def load(self, url: str, corpus: Corpus) -> Mapping[str, float]:
        """``aadd_embeddings``, then the HNSW and the text search index; attributes get B-tree indexes."""
        self._url, self._names = url, corpus.names
        engine = self._engine({})
        columns = [Column(name, "TEXT") for name in corpus.names]
        await engine.ainit_vectorstore_table(
            TABLE,
            corpus.dimensions,
            id_column=Column("langchain_id", "TEXT", nullable=False),
            metadata_columns=columns,
            hybrid_search_config=_config(weighted_sum_ranking, 20),
        )
        store = await self._store(engine, _config(weighted_sum_ranking, 20))
        vectors, metadatas = corpus.vectors.tolist(), list(map(dict, corpus.attributes))
        marks = [time.perf_counter()]
        await store.aadd_embeddings(list(corpus.texts), vectors, metadatas=metadatas, ids=list(corpus.ids))
        marks.append(time.perf_counter())
        await store.aapply_vector_index(HNSWIndex(distance_strategy=DistanceStrategy.COSINE_DISTANCE))
        marks.append(time.perf_counter())
        await store.aapply_hybrid_search_index()
        await self._index_attributes(engine)
        marks.append(time.perf_counter())
        return {"add": marks[1] - marks[0], "hnsw": marks[2] - marks[1], "gin": marks[3] - marks[2]}

    async def open(self) -> None:
        """A store a variant, each with an engine of its own."""
        for variant in {*self.plain, *self.filtered}:
            self._stores[variant] = await self._store(self._engine(TUNINGS[variant].settings()), None)
        for name, fusion in _FUSIONS.items():
            for depth in _DEPTHS:
                engine = self._engine({"hnsw.ef_search": str(max(40, depth))})
                self._stores[f"{name}, depth {depth}"] = await self._store(engine, _config(fusion, depth))

    async def dense(self, variant: str, vector: Vectors, k: int, where: Where) -> list[str]:
        """By vector."""
        documents = await self._stores[variant].asimilarity_search_by_vector(
            vector.tolist(), k=k, filter=dict(where) or None
        )
        return [document.id for document in documents]

    async def hybrid(self, variant: str, text: str, vector: Vectors, k: int) -> list[str]:
        """By vector and words."""
        documents = await self._stores[variant].asimilarity_search_by_vector(vector.tolist(), k=k, fts_query=text)
        return [document.id for document in documents]

    async def close(self) -> None:
        """Close every engine."""
        for engine in self._engines:
            await engine.close()

    def _engine(self, settings: Mapping[str, str]) -> Any:
        engine = PGEngine.from_engine(
            create_async_engine(
                engine_url(self._url, "asyncpg"),
                pool_size=2,
                connect_args={"server_settings": dict(settings)} if settings else {},
            )
        )
        self._engines.append(engine)
        return engine

    async def _store(self, engine: Any, config: HybridSearchConfig | None) -> Any:
        return await PGVectorStore.create(
            engine,
            NoEmbedder(),
            TABLE,
            metadata_columns=list(self._names),
            hybrid_search_config=config,
        )

    async def _index_attributes(self, engine: Any) -> None:
        # The store creates no indexes on columns; users who filter by them would.
        async with engine._pool.begin() as connection:  # noqa: SLF001 - the engine shows its pool to its stores only
            for name in self._names:
                await connection.execute(sql(f'CREATE INDEX ON {TABLE} ("{name}")'))


def _config(fusion: Any, depth: int) -> HybridSearchConfig:
    parameters: dict[str, Any] = {}
    return HybridSearchConfig(
        tsv_column="content_tsv",
        tsv_lang="pg_catalog.english",
        fusion_function=fusion,
        fusion_function_parameters=parameters,
        primary_top_k=depth,
        secondary_top_k=depth,
    )
