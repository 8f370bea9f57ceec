"""How an HNSW index does on this machine and on these vectors: the effort that it needs, and what its steps cost.

Measured on the collection's own vectors, so that neither a guess about the machine nor one about the data is needed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest
from statistics import median
from typing import Any

import numpy as np

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import bound, find_candidates_of_each, settings
from retrieval.adapters.store.search.dense_leg import MAX_EFFORT
from retrieval.adapters.store.search.indexes import (
    AnnIndex,
    hnsw_name,
    index_state,
    keep_common_facets,
    keep_measured,
)
from retrieval.adapters.store.search.vectors import StoredSpace, compare_by_key, sample_vectors
from retrieval.domain.embedding import Vector
from retrieval.domain.filters import Field, OneOf
from retrieval.domain.hit import Path
from retrieval.domain.profile import LegName

RECALL_PROMISED = 0.99
"""What the recall contract says of the nearest that a search finds, on average."""

RECALL_WANTED = 0.995
"""Above what is promised (0.99): other queries than the measured ones must do as well."""

_EFFORTS = (40, 60, 90, 130, 200, 300, 450, 700, MAX_EFFORT)
_NEAR_EFFORT = 100
_DEPTHS = (10, 100, 200)
_QUERIES = 64
_PART = 8
_LEAST_AWAY, _MOST_AWAY = 0.3, 1.0
_COMPARED, _WALKED, _TIMES = 1000, 1000, 5


@dataclass(frozen=True, slots=True)
class _Bench:
    database: Database
    tenant_id: int
    collection: StoredCollection
    space: StoredSpace

    def request(self, path: Path, **changes: Any) -> CandidateRequest:
        """A search for the nearest vectors."""
        return CandidateRequest(
            collection_id=self.collection.collection_id,
            legs=(LegName.DENSE,),
            path=path,
            space_id=self.space.space_id,
            dimensions=self.space.space.dimensions,
            **changes,
        )

    async def nearest(self, vectors: Sequence[Vector], request: CandidateRequest) -> list[list[float]]:
        """The scores of what each query finds, best first."""
        queries = [Query(vector=vector) for vector in vectors]
        # Two processes of PostgreSQL share the work.
        halves = queries[::2], queries[1::2]
        ask = partial(find_candidates_of_each, self.database, self.tenant_id, request)
        each = chain.from_iterable(zip_longest(*await asyncio.gather(*map(ask, halves))))
        return [[one.score for one in found.rankings[LegName.DENSE]] for found in each if found is not None]

    async def milliseconds(self, statement: Compiled, wanted: dict[str, str]) -> float:
        """What the server takes to run it, without the way there and back."""
        explained = Compiled("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + statement.text, statement.parameters)
        times = [await self.database.read(self.tenant_id, explained, wanted) for _ in range(_TIMES)]
        return median(float(rows[0][0][0]["Execution Time"]) for rows in times)


async def measure_index(
    database: Database,
    tenant_id: int,
    collection: StoredCollection,
    chance: np.random.Generator | None = None,
    *,
    least: int = 0,
) -> AnnIndex | None:
    """Measure the collection's index and store what was found; None where there is nothing to measure.

    ``least`` is the least effort to store: what live searches have shown to be needed.
    """
    space = collection.space
    if space is None:
        return None
    bench = _Bench(database, tenant_id, collection, space)
    sample = await sample_vectors(database, tenant_id, collection.collection_id, space, _QUERIES + _COMPARED)
    state = await index_state(database, hnsw_name(space.space_id, collection.collection_id))
    if len(sample) < 2 or state is None:
        return None
    vectors = [vector for _, vector in sample[:_QUERIES]]
    # Nearly the nearest will do: what is wanted is how far that is.
    near = await bench.nearest(vectors, bench.request(Path.APPROXIMATE, depth=2, effort=_NEAR_EFFORT))
    away = _away(near)
    queries = _queries(vectors, away, chance or np.random.default_rng(0))
    truth = await bench.nearest(queries, bench.request(Path.EXACT, depth=_DEPTHS[-1]))
    efforts, recalls = [_EFFORTS[0]], []
    for depth in _DEPTHS:
        effort, recall = await _effort(bench, queries, [true[:depth] for true in truth], least=max(depth, efforts[-1]))
        efforts.append(effort)
        recalls.append(recall)
    measured = AnnIndex(
        rows=max(collection.documents, 1),
        index_bytes=state[0],
        effort_10=max(efforts[1], least),
        effort_100=max(efforts[2], least),
        effort_200=max(efforts[3], least),
        recall=recalls[0],
        exact_row_us=await _exact_row_us(bench, queries[0], [item_id for item_id, _ in sample]),
        walk_row_us=await _walk_row_us(bench, queries[0]),
    )
    async with database.transaction(tenant_id) as connection:
        await keep_measured(connection, collection.collection_id, space.space_id, measured)
    await keep_common_facets(database, tenant_id, collection.collection_id, space.space_id)
    return measured


def _away(nearest: Sequence[Sequence[float]]) -> float:
    """How far a query of the same kind lies from what it should find: as far as the vectors from their nearest others.

    A unit vector moved by a, at a right angle, has the similarity 1 / √(1 + a²) to where it was.
    """
    similarity = median([scores[-1] for scores in nearest])
    return _LEAST_AWAY if similarity <= 0 else min(max(math.sqrt(1 / similarity**2 - 1), _LEAST_AWAY), _MOST_AWAY)


def _queries(vectors: Sequence[Vector], away: float, chance: np.random.Generator) -> list[Vector]:
    """Each moved a little. Towards another vector would be too easy: that one's neighbours are quickly found."""
    directions = [chance.normal(size=vector.shape) for vector in vectors]
    moved = [vector + away * far / np.linalg.norm(far) for vector, far in zip(vectors, directions, strict=True)]
    return [(vector / np.linalg.norm(vector)).astype(np.float32) for vector in moved]


async def _effort(
    bench: _Bench, queries: Sequence[Vector], truth: Sequence[Sequence[float]], *, least: int
) -> tuple[int, float]:
    """The least effort that finds enough of the nearest, and the recall it has; beyond the most, where none does.

    Where no effort finds as much as is wanted, the least that keeps the promise will do.
    """
    recall = 0.0
    depth, will_do = max(map(len, truth), default=0), None
    for effort in (effort for effort in _EFFORTS if effort >= least):
        recall = await _recall(bench, queries, truth, bench.request(Path.APPROXIMATE, depth=depth, effort=effort))
        if recall >= RECALL_WANTED:
            return effort, recall
        if recall >= RECALL_PROMISED and will_do is None:
            will_do = effort, recall
    return will_do or (MAX_EFFORT + 1, recall)


async def _recall(
    bench: _Bench, queries: Sequence[Vector], truth: Sequence[Sequence[float]], request: CandidateRequest
) -> float:
    """The recall that an effort has; the most that it can have, where the first queries show that it is too little."""
    missed = 0.0
    for start in range(0, len(queries), _PART):
        part = slice(start, start + _PART)
        found = await bench.nearest(queries[part], request)
        missed += sum(1 - recall_of(scores, true) for scores, true in zip(found, truth[part], strict=True))
        if missed > (1 - RECALL_PROMISED) * len(queries) and request.effort < MAX_EFFORT:
            break
    return 1 - missed / len(queries)


def recall_of(found: Sequence[float], true: Sequence[float]) -> float:
    """The share of the true nearest that was found, by their scores: of equally near ones any will do. Pure."""
    if not true:
        return 1.0
    return sum(score >= true[-1] for score in found) / len(true)


async def _exact_row_us(bench: _Bench, query: Vector, item_ids: Sequence[str]) -> float:
    statement = compare_by_key(bench.collection.collection_id, bench.space, query, item_ids)
    return max(await bench.milliseconds(statement, {}) * 1e3 / len(item_ids), 0.05)


async def _walk_row_us(bench: _Bench, query: Vector) -> float:
    """A walk that no item satisfies goes as far as it may; facets do not tell what source an item has."""
    nothing = OneOf(Field("source", is_attribute=False), ("\x01",))
    request = bench.request(Path.APPROXIMATE, depth=10, condition=nothing, few=-1, reach=_WALKED, effort=40)
    longer = await bench.milliseconds(bound(request, Query(vector=query)), dict(settings(request)))
    shorter = replace(request, reach=_WALKED // 10)
    start = await bench.milliseconds(bound(shorter, Query(vector=query)), dict(settings(shorter)))
    return max((longer - start) * 1e3 / (_WALKED - _WALKED // 10), 0.1)
