"""Keeps HNSW indexes by the size of collections; measures the effort that they need and the cost of their steps.

The measurement uses the collection's own vectors, without assumptions about the machine or the data.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain, zip_longest
from statistics import fmean, median, median_low
from typing import Any

import numpy as np
import psycopg

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection, Database
from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.items import BULK_ITEMS, flush_terms
from retrieval.adapters.store.search import indexes as store
from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import bound, find_candidates_of_each, settings
from retrieval.adapters.store.search.dense_leg import MAX_EFFORT, least_effort
from retrieval.adapters.store.search.indexes import BEYOND, AnnIndex, IndexForm, IndexStatus
from retrieval.adapters.store.search.recall import recall_of
from retrieval.adapters.store.search.vectors import StoredSpace, compare_by_key, own_vectors, sample_vectors
from retrieval.domain.errors import MissingPrivilegeError
from retrieval.domain.items.collection import MAX_PARTS, IndexKind
from retrieval.domain.items.embedding import Vector
from retrieval.domain.search.filters import Field, OneOf
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName

RECALL_PROMISED = 0.99
"""The share of the true nearest items that a search promises to find, on average."""

LEAST_SAMPLES = 10
"""The fewest sampled searches whose recall is acted on."""

RECALL_WANTED = 0.995
"""Above the promise (0.99), because queries that were not measured must reach it too."""

_USUAL = 50
_EFFORTS = (_USUAL, 70, 100, 140, 200, 300, 450, 700, MAX_EFFORT)
_EFFORTS_OF_PARTS = (15, 20, 30, *_EFFORTS)
"""Each part has to find its share of the nearest alone."""
_AWAY = 1.0
"""The distance between a query and the text that it is made from, at a right angle: their cosine is .71. Questions are
often farther from the items than the items are from each other, and the farther a query is, the more a walk misses."""
_QUERIES = {10: 64, 100: 24, 200: 24}
"""The number of queries that determine the effort of a depth; at a greater depth each query is more informative."""
_SOURCES = 500
"""The number of queries whose walk must also find the item that they are made from, or one that is as near. A walk that
ends in a wrong neighbourhood misses the whole page: so rarely that the queries with a known page do not show it."""
_COPIES, _COPY_SHARE, _COPY_EFFORT = 24, 0.05, 100
"""The number of items whose copies are counted; the greatest distance of a copy, as a share of the mean distance; the
effort for each copy. A walk continues from as many of the nearest as its effort, and copies crowd out other items: so
each copy needs the effort again, and more than the usual one for queries that are farther away than ``_AWAY``."""
ROWS_OF_EFFORT = 16
"""Comparing all vectors replaces a walk with more than a unit of effort for this many of them: it takes about as long,
and misses none. The usual effort is kept at any size."""
_ROUNDED = 1e-3
"""The most by which half precision changes a score."""
_ORPHAN_CHECKS, _ORPHAN_PAUSE = 50, 0.1
"""Checks for a killed process's build, and the seconds between them; the server checks its client each second."""
_COMPARED, _WALKED, _TIMES = 1000, 1000, 5

_Scores = Sequence[Sequence[float]]
"""By query: the scores of the items that it has to find, best first."""


@dataclass(frozen=True, slots=True)
class _Index:
    """A collection's HNSW index of one form, whether it exists or not."""

    at: CollectionPlace
    collection: StoredCollection
    space: StoredSpace
    form: IndexForm

    @property
    def names(self) -> list[str]:
        return self.form.names(self.space.space_id, self.at.collection_id)

    @property
    def worthwhile(self) -> float:
        """The greatest effort with which a walk is cheaper than comparing all vectors, or the usual one."""
        return max(self.collection.documents / (ROWS_OF_EFFORT * self.form.parts), _USUAL)

    async def existing(self) -> dict[str, IndexStatus]:
        """The collection's indexes in the space, of every form, by name."""
        return await store.hnsw_indexes(self.at.database, self.space.space_id, self.at.collection_id)

    def request(self, path: Path, **changes: Any) -> CandidateRequest:
        return CandidateRequest(
            collection_id=self.at.collection_id,
            legs=(LegName.DENSE,),
            path=path,
            space_id=self.space.space_id,
            dimensions=self.space.space.dimensions,
            is_quantised=self.form.is_quantised,
            parts=self.form.parts,
            **changes,
        )

    async def nearest(self, vectors: Sequence[Vector], request: CandidateRequest) -> list[list[float]]:
        queries = [Query(vector=vector) for vector in vectors]
        # Two processes of PostgreSQL share the work.
        halves = queries[::2], queries[1::2]
        ask = partial(find_candidates_of_each, self.at.database, self.at.tenant_id, request)
        each = chain.from_iterable(zip_longest(*await asyncio.gather(*map(ask, halves))))
        return [[hit.score for hit in result.rankings[LegName.DENSE]] for result in each if result is not None]

    async def milliseconds(self, statement: Compiled, parameters: dict[str, str]) -> float:
        """The server's execution time, without the round trip."""
        explained = Compiled("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + statement.text, statement.parameters)
        times = [await self.at.database.read(self.at.tenant_id, explained, parameters) for _ in range(_TIMES)]
        return median(float(rows[0][0][0]["Execution Time"]) for rows in times)


async def measure_index(
    database: Database, tenant_id: int, collection: StoredCollection, *, form: IndexForm | None = None
) -> AnnIndex | None:
    """Measure the collection's index and store the result; None without an index.

    An index of fewer than two vectors, such as one of items without text, gets the typical numbers. ``form``: the form
    of a new index that now replaces the one that searches walk. Without it, the effort is at least the former one,
    because live searches may have raised that.
    """
    space, known, least = collection.space, collection.ann_index, 0
    if form is None and known is not None:
        form = known.form
        least = known.effort_10 if known.is_measured and known.effort_10 <= MAX_EFFORT else 0
    if space is None or form is None:
        return None
    index = _Index(CollectionPlace(database, tenant_id, collection.collection_id), collection, space, form)
    whole = store.all_parts(index.names, await index.existing())
    if whole is None:
        return None
    numbers = AnnIndex(
        rows=max(collection.documents, 1), index_bytes=whole.bytes, is_quantised=form.is_quantised, parts=form.parts
    )
    sample = await sample_vectors(index.at, space, _QUERIES[10] + _COMPARED)
    measured = await _measured(index, sample, numbers, least) if len(sample) > 1 else numbers
    async with database.transaction(tenant_id) as connection:
        await store.keep_measured(connection, collection.collection_id, space.space_id, measured)
    await store.keep_common_facets(index.at, space.space_id)
    return measured


async def _measured(index: _Index, sample: Sequence[tuple[str, Vector]], numbers: AnnIndex, least: int) -> AnnIndex:
    chosen = dict(sample[:_SOURCES])
    # A query is like the text of one item, not like the mean with its neighbours that is indexed.
    texts = chosen | await own_vectors(index.at, index.space, list(chosen))
    queries = _queries(list(texts.values()), np.random.default_rng(0))
    sources = [[float(query @ vector) - _ROUNDED] for query, vector in zip(queries, chosen.values(), strict=True)]
    truth = await index.nearest(queries[: _QUERIES[10]], index.request(Path.EXACT, depth=max(_QUERIES)))
    efforts: list[int] = [await _effort_of_copies(index, [vector for _, vector in sample])]
    recalls: list[float] = []
    for depth, number in _QUERIES.items():
        true = [scores[:depth] for scores in truth[:number]]
        enough = least_effort(index.request(Path.APPROXIMATE, depth=depth))
        # A greater depth has at least the same effort, which finds the sources.
        effort, recall = await _effort(index, queries, true, [] if recalls else sources, least=max(enough, efforts[-1]))
        efforts.append(effort)
        recalls.append(recall)
    ids = [item_id for item_id, _ in sample]
    compared = await index.milliseconds(compare_by_key(index.at.collection_id, index.space, queries[0], ids), {})
    return replace(
        numbers,
        effort_10=max(efforts[1], least),
        effort_100=max(efforts[2], least),
        effort_200=max(efforts[3], least),
        recall=recalls[0],
        exact_row_us=max(compared * 1e3 / len(ids), 0.05),
        walk_row_us=await _walk_row_us(index, queries[0]),
    )


def _queries(vectors: Sequence[Vector], chance: np.random.Generator) -> list[Vector]:
    """Each vector moved in a random direction; towards another vector would be too easy to find."""
    directions = [chance.normal(size=vector.shape) for vector in vectors]
    moved = [vector + _AWAY * far / np.linalg.norm(far) for vector, far in zip(vectors, directions, strict=True)]
    return [(vector / np.linalg.norm(vector)).astype(np.float32) for vector in moved]


async def _effort_of_copies(index: _Index, sample: Sequence[Vector]) -> int:
    """The effort that the copies of a typical item need; 0 if it has none."""
    near = (1 - float(np.square(np.mean(sample, axis=0)).sum())) * _COPY_SHARE
    nearest = await index.nearest(sample[:_COPIES], index.request(Path.EXACT, depth=MAX_EFFORT // _COPY_EFFORT))
    number = median_low([sum(1 - score <= near for score in scores) for scores in nearest])
    return math.ceil(number * _COPY_EFFORT / index.form.parts) if number > 1 else 0


async def _effort(
    index: _Index, queries: Sequence[Vector], truth: _Scores, sources: _Scores, *, least: int
) -> tuple[int, float]:
    """The least effort that finds enough of the nearest, and its recall; beyond the maximum where no effort does.

    Where no effort reaches the wanted recall, the least effort that keeps the promised recall is taken. With
    ``sources``, that is for ten hits, a walk must also be cheaper than comparing all vectors.
    """
    recall = 1.0
    depth, acceptable = max(map(len, truth), default=0), None
    efforts = _EFFORTS if index.form.parts == 1 or index.form.is_quantised else _EFFORTS_OF_PARTS
    most = MAX_EFFORT if index.form.is_quantised or not sources else index.worthwhile
    for effort in (effort for effort in efforts if least <= effort <= most):
        request = index.request(Path.APPROXIMATE, depth=depth, effort=effort)
        recall = await _recall(index, queries, truth, request)
        if recall >= RECALL_PROMISED and sources:
            share = await _recall(index, queries, sources, request)
            recall = recall if share >= RECALL_PROMISED else share
        if recall >= RECALL_WANTED:
            return effort, recall
        if recall >= RECALL_PROMISED and acceptable is None:
            acceptable = effort, recall
    return acceptable or (BEYOND, recall)


async def _recall(index: _Index, queries: Sequence[Vector], wanted: _Scores, request: CandidateRequest) -> float:
    """The share of the wanted that the first queries find."""
    found = await index.nearest(queries[: len(wanted)], request)
    return fmean(map(recall_of, found, wanted))


async def _walk_row_us(index: _Index, query: Vector) -> float:
    """The time of a step of a walk. A walk that no item satisfies goes to its limit; facets do not index sources."""
    nothing = OneOf(Field("source", is_attribute=False), ("\x01",))
    request = index.request(Path.APPROXIMATE, depth=10, condition=nothing, few=-1, reach=_WALKED, effort=40)
    longer = await index.milliseconds(bound(request, Query(vector=query)), dict(settings(request)))
    shorter = replace(request, reach=_WALKED // 10)
    start = await index.milliseconds(bound(shorter, Query(vector=query)), dict(settings(shorter)))
    return max((longer - start) * 1e3 / (_WALKED - _WALKED // 10), 0.1)


_log = logging.getLogger(__name__)

EXACT_SCAN_US = 1_500
"""A collection gets an index when comparing all of its vectors takes longer than this time."""

KEPT_ABOVE = 0.5
"""A collection loses its index when it shrinks below this share of the size at which it would get one."""

MOVED = 2.0
"""An index is measured again when its collection has grown or shrunk by this factor since the last measurement; it is
rebuilt when it takes this many times the bytes for each row."""

_ROW_US, _DIMENSION_US = 0.15, 0.0007
GRAPH_BYTES = 400
"""The memory that the graph takes for each row while it is built, beside the vector."""
_LEAST_MEMORY, _MOST_MEMORY = 64 << 20, 1 << 30


class IndexOutcome(StrEnum):
    """The outcome of keeping an index."""

    NOT_NEEDED = "not needed"
    PRESENT = "present"
    BUILT = "built"
    MEASURED = "measured again"
    REBUILT = "rebuilt"
    REPLACED = "replaced by one of another kind, or in other parts"
    DROPPED = "dropped: comparing all is fast enough by now"
    BEING_BUILT = "another process is building on the same table; the next run builds what is missing"
    NOT_ALLOWED = "not allowed: the login does not own the table; run a worker, or the next ingest, as the owner"


LARGE_ROWS = 50_000
"""The number of rows from which the graph of an index, or of a part, is built with more effort."""


def ef_construction(form: IndexForm, documents: int) -> int:
    """The effort with which the index of that many documents is built. Pure.

    With 64, pgvector's default, walks in a large graph need many times the effort, or miss whole neighbourhoods
    whatever their effort (docs/decisions/0048); a small graph is built faster, and finds as much. Many vectors share
    their distance in bits, so a quantised index always has 128.
    """
    return 128 if form.is_quantised or documents // form.parts >= LARGE_ROWS else 64


def index_rows(dimensions: int) -> int:
    """The number of vectors from which a collection has an HNSW index; below, comparing all is fast and exact.

    Comparing one takes 0.15 µs and 0.0007 µs a dimension (halfvec, stored plain): about 3,580 rows of 384 dimensions
    take 1.5 ms, or 650 of 3072.
    """
    return round(EXACT_SCAN_US / (_ROW_US + _DIMENSION_US * dimensions))


async def keep_index(
    database: Database, tenant_id: int, collection: StoredCollection, rows: int | None = None
) -> IndexOutcome:
    """Make, measure, rebuild or drop the collection's HNSW index, as its size requires.

    ``rows`` replaces ``index_rows``. Leftovers of interrupted builds and rebuilds are removed.
    """
    if collection.space is None:
        return IndexOutcome.NOT_NEEDED
    threshold = index_rows(collection.space.space.dimensions) if rows is None else rows
    wanted = _wanted(database, tenant_id, collection, collection.space)
    existing, index = await wanted.existing(), collection.ann_index
    present = None if index is None else replace(wanted, form=index.form)
    usable = None if present is None else store.all_parts(present.names, existing)
    if usable is None or not usable.valid:
        index, present, usable = None, None, store.all_parts(wanted.names, existing)
    # Also the parts of the wanted index, because its build continues with them.
    kept = {*wanted.names, *(present.names if present else ())}
    failed = await store.failed_builds(database, store.hnsw_name(wanted.space.space_id, collection.collection_id))
    leftovers = {*existing, *failed} - kept
    is_there, index_bytes = not kept.isdisjoint(existing), usable.bytes if usable else 0
    outcome = wanted_outcome(collection, threshold, index, index_bytes, is_there=is_there)
    if not leftovers and outcome not in _WORK:
        return outcome

    async def work(index: _Index) -> IndexOutcome:
        await _clear(index, leftovers)
        return await _WORK[outcome](index) if outcome in _WORK else outcome

    return await _exclusively(wanted, work)


def _wanted(database: Database, tenant_id: int, collection: StoredCollection, space: StoredSpace) -> _Index:
    place = CollectionPlace(database, tenant_id, collection.collection_id)
    return _Index(place, collection, space, wanted_form(collection))


def is_index_off(collection: StoredCollection) -> bool:
    """Whether the collection's size requires another index, as far as the catalogue shows."""
    if collection.space is None:
        return False
    index, threshold = collection.ann_index, index_rows(collection.space.space.dimensions)
    return wanted_outcome(collection, threshold, index, 0, is_there=index is not None) in _WORK


async def flush_lexical(database: Database, written: int) -> None:
    """Merge the lexical index's pending list after many writes; searches would otherwise read all of it.

    A login without that privilege leaves it to the next writers and to autovacuum.
    """
    if written < BULK_ITEMS:
        return
    try:
        async with database.maintenance() as connection:
            await flush_terms(connection, database.names.schema)
    except MissingPrivilegeError:
        _log.info("the lexical index is left to autovacuum: the login does not own it")


async def drop_indexes(at: CollectionPlace, space: StoredSpace | None = None) -> bool:
    """Drop every HNSW index of a collection, invalid ones too; False without the privilege, or during a build.

    ``space``: only the indexes of that space. Afterwards searches compare all vectors.
    """
    dropped = True
    for index in await store.collection_indexes(at):
        if space is not None and not index.name.startswith(f"{space.table_name}_"):
            continue
        # The same lock as that of a build, which would make it again.
        async with _only_one(at.database, "_".join(index.name.split("_")[:2])) as alone:
            try:
                dropped &= alone
                if alone:
                    async with at.database.maintenance() as connection:
                        await connection.execute(store.drop_statement(index.name, at.database.names.schema).encode())
            except MissingPrivilegeError:
                dropped = False
    return dropped


async def rebuild_index(database: Database, tenant_id: int, collection: StoredCollection) -> IndexOutcome:
    """Rebuild the collection's index beside the old one and measure it; without a valid one, ``keep_index``."""
    space, index = collection.space, collection.ann_index
    if space is None or index is None or index.form != wanted_form(collection):
        return await keep_index(database, tenant_id, collection)
    return await _exclusively(_wanted(database, tenant_id, collection, space), _rebuild)


def wanted_outcome(
    collection: StoredCollection, threshold: int, index: AnnIndex | None, index_bytes: int, *, is_there: bool
) -> IndexOutcome:
    """The work that the collection's index needs. Pure.

    ``index`` is the existing valid index; ``is_there`` is true also for one that a failed build left.
    """
    documents, form = collection.documents, wanted_form(collection)
    if documents < threshold * KEPT_ABOVE:
        return IndexOutcome.DROPPED if is_there else IndexOutcome.NOT_NEEDED
    if index is None:
        return IndexOutcome.BUILT if documents >= threshold or is_there else IndexOutcome.NOT_NEEDED
    if index.form != form:
        return IndexOutcome.REPLACED
    if not index.is_measured:
        return IndexOutcome.REBUILT  # all of its vectors were replaced, or it was never measured
    if ef_construction(form, index.rows) < ef_construction(form, documents):
        return IndexOutcome.REBUILT
    if index.index_bytes and index_bytes / max(documents, 1) > MOVED * index.index_bytes / index.rows:
        return IndexOutcome.REBUILT
    return IndexOutcome.PRESENT if 1 / MOVED < documents / index.rows < MOVED else IndexOutcome.MEASURED


def wanted_form(collection: StoredCollection) -> IndexForm:
    """The form that the collection's index should have. Pure."""
    return IndexForm(collection.index_kind is IndexKind.QUANTISED, collection.parts)


@asynccontextmanager
async def _only_one(database: Database, table: str) -> AsyncIterator[bool]:
    """True if this process alone builds or drops indexes of that table of vectors meanwhile; else False.

    Two concurrent builds on one table wait for each other until the server ends one of them. The build of a killed
    process outlives its lock; the server ends it soon, and this call waits for that.
    """
    async with database.only_one(f"indexes of {table}") as alone:
        yield alone and await _has_no_orphan(database, table)


async def _has_no_orphan(database: Database, table: str) -> bool:
    async with database.maintenance() as connection:
        for _ in range(_ORPHAN_CHECKS):
            if not await store.is_built_now(connection, database.names.schema, table):
                return True
            await asyncio.sleep(_ORPHAN_PAUSE)
    return False


async def _exclusively(index: _Index, work: Callable[[_Index], Awaitable[IndexOutcome]]) -> IndexOutcome:
    async with _only_one(index.at.database, index.space.table_name) as alone:
        if not alone:
            return IndexOutcome.BEING_BUILT
        try:
            return await work(index)
        except MissingPrivilegeError:
            _log.warning("no HNSW index for %s: %s", index.collection.name, IndexOutcome.NOT_ALLOWED.value)
            return IndexOutcome.NOT_ALLOWED


async def _build(index: _Index) -> IndexOutcome:
    """Build what is missing of the wanted index; another index answers until this one is complete and measured.

    An interrupted build resumes with its unfinished part.
    """
    database, collection, form = index.at.database, index.collection, index.form
    is_another_there = collection.ann_index is not None and collection.ann_index.form != form
    names, existing = index.names, await index.existing()
    missing = [part for part, name in enumerate(names, 1) if name not in existing or not existing[name].valid]
    if not missing and not is_another_there:
        return IndexOutcome.PRESENT  # another process has built it meanwhile
    bits = index.space.space.dimensions if form.is_quantised else None
    effort = ef_construction(form, collection.documents)
    vector_schema = database.facts.vector_schema or "public"
    async with _builder(index) as connection:
        schema, table, of_collection = database.names.schema, index.space.table_name, collection.collection_id
        for part in missing:
            definition = store.hnsw_definition(of_collection, vector_schema, effort, bits, part=part, parts=form.parts)
            name = names[part - 1]
            await _run_build(connection, schema, name, store.build_statement(name, schema, table, definition))
        if not is_another_there:
            await _settle(connection, schema, table)
    whole = store.all_parts(index.names, await index.existing())
    if whole is None or not whole.valid:
        return IndexOutcome.BEING_BUILT  # by a process of the server whose client was killed
    await measure_index(database, index.at.tenant_id, collection, form=form)
    await _clear(index, existing.keys() - set(names))
    return IndexOutcome.REPLACED if is_another_there else IndexOutcome.BUILT


async def _rebuild(index: _Index) -> IndexOutcome:
    schema, effort = index.at.database.names.schema, ef_construction(index.form, index.collection.documents)
    async with _builder(index) as connection:
        for name in index.names:
            await connection.execute(store.ef_construction_statement(name, schema, effort).encode())
            await _run_build(connection, schema, name, store.rebuild_statement(name, schema))
    await measure_index(index.at.database, index.at.tenant_id, index.collection)
    return IndexOutcome.REBUILT


async def _measure(index: _Index) -> IndexOutcome:
    async with index.at.database.maintenance() as connection:
        await _settle(connection, index.at.database.names.schema, index.space.table_name)
    await measure_index(index.at.database, index.at.tenant_id, index.collection)
    return IndexOutcome.MEASURED


async def _drop(index: _Index) -> IndexOutcome:
    await _clear(index, await index.existing())
    await store.forget_measured(index.at, index.space.space_id)
    return IndexOutcome.DROPPED


_WORK = {
    IndexOutcome.BUILT: _build,
    IndexOutcome.MEASURED: _measure,
    IndexOutcome.REBUILT: _rebuild,
    IndexOutcome.REPLACED: _build,
    IndexOutcome.DROPPED: _drop,
}


@asynccontextmanager
async def _builder(index: _Index) -> AsyncIterator[Connection]:
    """A connection with memory for the whole graph, up to a bound: a build that does not fit takes far longer."""
    rows = index.collection.documents // index.form.parts
    memory = rows * (2 * index.space.space.dimensions + GRAPH_BYTES)
    memory = min(max(memory, _LEAST_MEMORY), _MOST_MEMORY)
    async with index.at.database.maintenance({"maintenance_work_mem": f"{memory >> 10}kB"}) as connection:
        yield connection


async def _run_build(connection: Connection, schema: str, name: str, statement: str) -> None:
    """Run a build; once more with a single process where the container has too little shared memory for several.

    Leftovers of earlier builds are removed first: a build skips an index that exists, even an invalid one, and a
    rebuild makes one more beside it.
    """
    await store.drop_failed_builds(connection, schema, name)
    try:
        await connection.execute(statement.encode())
    except psycopg.errors.DiskFull as error:
        # Where it is the disk that is full, the second build says so.
        _log.warning("%s; building with one process, which needs no shared memory", str(error).partition("\n")[0])
        await store.drop_failed_builds(connection, schema, name)
        await connection.execute("SET max_parallel_maintenance_workers = 0")
        await connection.execute(statement.encode())


def parts_to_build(documents: int, dimensions: int) -> int:
    """The least number of parts whose graphs fit into the memory of a build, or the most that there may be. Pure."""
    return min(max(math.ceil(documents * (2 * dimensions + GRAPH_BYTES) / _MOST_MEMORY), 1), MAX_PARTS)


async def _clear(index: _Index, names: Collection[str]) -> None:
    if not names:
        return
    database = index.at.database
    async with database.maintenance() as connection:
        for name in names:
            await connection.execute(store.drop_statement(name, database.names.schema).encode())


async def _settle(connection: Connection, schema: str, vectors: str) -> None:
    """Do what the server would do by itself a minute later: renew statistics, and mark pages as visible.

    The planner then knows the present sizes, and indexes can answer without reading the table. The server removes
    dead rows.
    """
    tables = ", ".join(f"{quote_identifier(schema)}.{quote_identifier(name)}" for name in _FILLED)
    await connection.execute(f"VACUUM (ANALYZE, INDEX_CLEANUP off) {tables}".encode())
    await connection.execute(f"ANALYZE {quote_identifier(schema)}.{quote_identifier(vectors)}".encode())


_FILLED = ("items", "item_terms", "term_statistics", "item_tags", "attribute_values")
