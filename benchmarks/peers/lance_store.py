"""LanceDB, embedded: an IVF_HNSW_SQ index with exact re-ranking, bitmap indexes for the attributes, its own BM25.

Filters come before the search, as its documentation advises.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

os.environ.setdefault("LANCEDB_LOG", "error")  # a warning for each search would be part of its time

import lancedb
import pyarrow as pa
from corpora import Corpus, Vectors, Where
from lancedb.index import FTS, Bitmap, HnswSq
from lancedb.query import MatchQuery
from lancedb.rerankers import RRFReranker

_COLUMNS = ["id", "body", "category", "region"]
_REFINED: Mapping[str, tuple[int | None, int]] = {"default": (None, 15), "refine 2": (2, 40), "refine 5": (5, 80)}
"""The factor of hits that are compared exactly, if any, and the length of the graph's candidate list."""


class LanceStore:
    """A table in a folder of its own."""

    plain = (*_REFINED, "exact")
    filtered = (*_REFINED, "exact")
    fusions = ("RRF",)

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()

    async def load(self, url: str, corpus: Corpus) -> Mapping[str, float]:  # noqa: ARG002
        """One write, then every index."""
        marks = [time.perf_counter()]
        self._base = await lancedb.connect_async(self._folder.name)
        self._table = await self._base.create_table("documents", _rows(corpus))
        marks.append(time.perf_counter())
        await self._table.create_index("vector", config=HnswSq(distance_type="dot"))
        marks.append(time.perf_counter())
        for name in ("category", "region"):
            await self._table.create_index(name, config=Bitmap())
        await self._table.create_index("body", config=FTS(with_position=False))
        marks.append(time.perf_counter())
        return dict(zip(("add", "hnsw", "words"), (b - a for a, b in pairwise(marks)), strict=True))

    async def open(self) -> None:
        """Every index is read once, and is used by the searches that follow."""
        for name in [each.name for each in await self._table.list_indices()]:
            await self._table.prewarm_index(name)

    async def dense(self, variant: str, vector: Vectors, k: int, where: Where) -> list[str]:
        """By the index and then exactly, or exactly alone."""
        search = self._table.query().nearest_to(vector).distance_type("dot").select(_COLUMNS).limit(k)
        if variant == "exact":
            search = search.bypass_vector_index()
        else:
            refined, ef = _REFINED[variant]
            search = search.ef(ef) if refined is None else search.refine_factor(refined).ef(ef)
        if where:
            search = search.where(" AND ".join(f"{name} = '{value}'" for name, value in where.items()))
        return _ids(await search.to_arrow())

    async def hybrid(self, variant: str, text: str, vector: Vectors, k: int) -> list[str]:  # noqa: ARG002
        """Both searches, fused by rank."""
        search = self._table.query().nearest_to(vector).distance_type("dot").refine_factor(2)
        both = search.nearest_to_text(MatchQuery(text, "body")).select(_COLUMNS).limit(k).rerank(RRFReranker())
        return _ids(await both.to_arrow())

    async def close(self) -> None:
        """Give back the folder."""
        self._folder.cleanup()


def _rows(corpus: Corpus) -> pa.Table:
    flat = pa.array(corpus.vectors.astype("float32").reshape(-1))
    columns: dict[str, Any] = {
        "id": corpus.ids,
        "body": corpus.texts,
        **{name: [attributes.get(name) for attributes in corpus.attributes] for name in ("category", "region")},
        "vector": pa.FixedSizeListArray.from_arrays(flat, corpus.dimensions),
    }
    strings = [(name, pa.string()) for name in _COLUMNS]
    schema = pa.schema([*strings, ("vector", pa.list_(pa.float32(), corpus.dimensions))])
    return pa.table(columns, schema=schema)


def _ids(table: pa.Table) -> list[str]:
    return [str(item_id) for item_id in table.column("id").to_pylist()]
