"""The state of collections: pending items, numbers of items by value, and results of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.installation.queue import JobRun
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.conditions import any_matching
from retrieval.adapters.store.round_trip import Row
from retrieval.adapters.store.search.indexes import IndexStatus, index_status, indexes_statement
from retrieval.adapters.store.search.recall import Measurement
from retrieval.adapters.store.search.terms import weights_off
from retrieval.adapters.store.search.vectors import JOINS_ALL, StoredSpace, for_table
from retrieval.adapters.store.tables import embeddings_table, is_searchable, item_tags, items, literal
from retrieval.domain.items.collection import ValueCount
from retrieval.domain.search.filters import Field, Filter
from retrieval.domain.serialization import Serializable

_PENDING = """
    SELECT item.collection_id, count(*) {waiting}
        AND item.collection_id = ANY(%(ids)s)
    GROUP BY item.collection_id
"""


async def count_pending_each(
    database: Database, tenant_id: int | None, collections: Sequence[StoredCollection]
) -> Mapping[int, int]:
    """Count the items that wait for their vector, by collection number, in one round trip; zeros are left out."""
    ids: dict[StoredSpace, list[int]] = {}
    for collection in collections:
        if collection.space is not None:
            ids.setdefault(collection.space, []).append(collection.collection_id)
    if not ids:
        return {}
    statements = [for_table(_PENDING, space.table_name).bind(ids=its_ids) for space, its_ids in ids.items()]
    answers = await database.read_each(tenant_id, statements, JOINS_ALL)
    return {row[0]: int(row[1]) for rows in answers for row in rows}


_COUNT_VECTORS = "SELECT count(*) FROM {table} AS known WHERE known.collection_id = %(collection_id)s"


async def value_counts(
    database: Database, tenant_id: int, collection: StoredCollection, field: Field, filter_: Filter | None
) -> list[ValueCount]:
    """The counts by value, the most frequent first, in one statement; archived items are left out.

    An item counts once for each of its tags, and for each element of a list.
    """
    found = _held(collection, field, filter_).subquery("found")
    rows_: sa.FromClause = found
    vectors: sa.ColumnElement[int] = sa.literal_column("0")
    if collection.space is not None:
        table = embeddings_table(collection.space.space_id, collection.space.space.dimensions)
        is_its = sa.and_(table.c.collection_id == literal(collection.collection_id), table.c.item_id == found.c.item_id)
        rows_, vectors = found.outerjoin(table, is_its), sa.func.count(table.c.item_id)
    counts = sa.select(found.c.held, sa.func.count().label("number"), vectors.label("vectors")).select_from(rows_)
    groups = counts.group_by(found.c.held).cte("groups")
    values = _values(groups, field)
    value, number = values.c.value, _total(values.c.number)
    statement = (
        sa.select(value, number, _total(values.c.vectors)).group_by(value).order_by(*_most_frequent(number, value))
    )
    # The few items of a filter are looked up by nested loops.
    rows = await database.read(tenant_id, compiled(statement), JOINS_ALL if filter_ is None else {})
    return [ValueCount(value=row[0], items=row[1], vectors=row[2]) for row in rows]


FACET_VALUES = 50
"""The most values of a facet that are returned, the most frequent first."""

FACET_ROWS = 100_000
"""The most items, or tags of items, that a facet counts."""


async def facet_counts(
    database: Database, tenant_id: int, collection: StoredCollection, fields: Sequence[Field], filter_: Filter | None
) -> list[tuple[dict[str, int], bool]]:
    """Count each field's values, the most frequent first, and return whether all items of the filter were counted.

    It takes one round trip. Archived items, and those without a value, are left out.
    """
    rows = await database.read_each(tenant_id, [_facet(collection, field, filter_) for field in fields])
    return [
        (dict([row[:2] for row in each if row[0]][:FACET_VALUES]), not each or each[0][2] <= FACET_ROWS)
        for each in rows
    ]


def _facet(collection: StoredCollection, field: Field, filter_: Filter | None) -> Compiled:
    held = _held(collection, field, filter_).limit(FACET_ROWS + 1).subquery("found").c.held
    groups = sa.select(held, sa.func.count().label("number")).group_by(held).cte("groups")
    values, counted = _values(groups, field), sa.select(sa.func.sum(groups.c.number)).scalar_subquery()
    value, number = values.c.value, _total(values.c.number)
    statement = sa.select(value, number, counted).group_by(value)
    # One more, because items without a value are a group too.
    return compiled(statement.order_by(*_most_frequent(number, value)).limit(FACET_VALUES + 1))


def _most_frequent(number: sa.ColumnElement[int], value: sa.ColumnElement[str]) -> tuple[sa.ColumnElement[Any], ...]:
    """The order by count, and of equal counts by code point: databases have different alphabets."""
    return number.desc(), sa.collate(value, "C")


def _total(counts: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return sa.cast(sa.func.sum(counts), sa.BigInteger())


def _held(collection: StoredCollection, field: Field, filter_: Filter | None) -> sa.Select[Any]:
    """Rows of (what the item holds in the field, as text or JSON; item_id)."""
    table = item_tags if field.name == "tags" and not field.is_attribute else items
    if field.is_attribute:
        name: sa.BindParameter[Any] = sa.bindparam("attribute", [field.name, *field.path], type_=sa.ARRAY(sa.Text()))
        attributes = sa.type_coerce(items.c.attributes, sa.types.NullType())
        held: sa.ColumnElement[Any] = attributes.op("#>", return_type=sa.types.NullType())(name)
    else:
        held = item_tags.c.tag if table is item_tags else items.c[field.name]
    statement = sa.select(held.label("held"), table.c.item_id)
    statement = statement.where(table.c.collection_id == literal(collection.collection_id))
    if table is items:
        statement = statement.where(is_searchable)
    if filter_ is not None:
        matches = any_matching(collection.collection_id, filter_, collection.filterable)
        statement = statement.where(table.c.item_id == matches)
    return statement


def _values(groups: sa.CTE, field: Field) -> sa.Subquery:
    """Each value as text, with the counts of ``groups``, which has a row for what items hold.

    A list has a row for each different element, because a filter finds the item by each.
    """
    held, *counts = groups.c
    if not field.is_attribute:
        return sa.select(held.label("value"), *counts).subquery("texts")
    is_list = sa.func.jsonb_typeof(held) == sa.literal_column("'array'")
    none_for_empty = sa.func.coalesce(sa.func.nullif(held, sa.literal_column("'[]'")), sa.literal_column("'[null]'"))
    elements = sa.case((is_list, none_for_empty), else_=sa.func.jsonb_build_array(held))
    element = sa.func.jsonb_array_elements(elements, type_=sa.types.NullType()).column_valued("element")
    texts = sa.func.array(sa.select(_text(element)).distinct().scalar_subquery())
    return sa.select(sa.func.unnest(texts, type_=sa.Text()).label("value"), *counts).subquery("texts")


def _text(value: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
    """A JSON value as text, or empty; 1 and 1.0 are one number, as they are for a filter."""
    number = sa.cast(sa.func.trim_scale(sa.cast(value, sa.Numeric())), sa.Text())
    text = value.op("#>>", return_type=sa.Text())(sa.literal_column("'{}'"))
    is_number = sa.func.jsonb_typeof(value) == sa.literal_column("'number'")
    return sa.func.coalesce(sa.case((is_number, number), else_=text), sa.literal_column("''"))


async def count_vectors(at: CollectionPlace, space: StoredSpace | None) -> int:
    """The number of items with a vector in the space."""
    if space is None:
        return 0
    return int((await at.read(for_table(_COUNT_VECTORS, space.table_name)))[0][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionStatus(Serializable):
    """One collection."""

    name: str
    items: int
    """Items that a search can find."""
    space: str | None
    """The embedding space's name; None: lexical search only."""
    pending: int
    """Items that wait for their vector."""
    weights_pending: bool
    """Whether BM25 weights have to be computed again."""
    indexes: tuple[IndexStatus, ...]
    runs: tuple[JobRun, ...]
    """The last run of each job."""
    recall: tuple[Measurement, ...]
    """The last run's measurements."""
    unrecorded: Mapping[str, int]
    """Searches that should have been recorded and were not, by reason."""
    chosen_model: int | None = None
    """The version of the learned model that a caller chose, 0: none of them; None: no caller chose."""

    @property
    def mean_recall(self) -> tuple[float, int] | None:
        """The mean of the last run's measurements over all samples, and their number; None: nothing was measured."""
        samples = sum(each.samples for each in self.recall)
        return (sum(each.recall * each.samples for each in self.recall) / samples, samples) if samples else None


_RUNS = Compiled("""
    SELECT DISTINCT ON (r.collection_id, r.job)
        r.collection_id, r.job, r.started_at, r.finished_at, r.outcome, r.details
    FROM job_runs r
    WHERE r.collection_id = ANY(%(ids)s)
    ORDER BY r.collection_id, r.job, r.run_id DESC
""")
_RECALL = Compiled("""
    SELECT m.collection_id, m.bucket, m.samples, m.recall, m.short_pages, m.effort, m.measured_at
    FROM recall_measurements m JOIN collections c ON c.collection_id = m.collection_id AND c.space_id = m.space_id
    WHERE m.collection_id = ANY(%(ids)s) AND m.measured_at = (
        SELECT max(l.measured_at) FROM recall_measurements l
        WHERE l.collection_id = m.collection_id AND l.space_id = m.space_id)
    ORDER BY m.collection_id, m.bucket
""")
_LOSSES = Compiled("""
    SELECT l.collection_id, l.reason, sum(l.retrievals)::bigint FROM recording_losses l
    WHERE l.collection_id = ANY(%(ids)s) GROUP BY l.collection_id, l.reason ORDER BY l.collection_id, l.reason
""")
_CHOSEN = Compiled("""
    SELECT l.collection_id, l.model_version FROM learning_states l
    WHERE l.collection_id = ANY(%(ids)s) AND l.model_is_chosen
""")


async def collection_statuses(
    database: Database, tenant_id: int | None, collections: Sequence[StoredCollection]
) -> list[CollectionStatus]:
    """The state of these collections of the tenant, read in two round trips."""
    ids = [collection.collection_id for collection in collections]
    several = [statement.bind(ids=ids) for statement in (_RUNS, _RECALL, _LOSSES, _CHOSEN)]
    indexes_of = indexes_statement(ids, is_distributed=database.facts.is_distributed)
    answers = await database.read_each(tenant_id, [weights_off(ids), indexes_of, *several])
    weights, indexes, runs, recall, losses, chosen = map(_group, answers)
    pending = await count_pending_each(database, tenant_id, collections)
    return [
        CollectionStatus(
            name=collection.name,
            items=collection.documents,
            space=collection.space.space.name if collection.space else None,
            pending=pending.get(number, 0),
            weights_pending=number in weights,
            indexes=tuple(map(index_status, indexes.get(number, ()))),
            runs=tuple(JobRun(**dict(zip(JobRun.__slots__, row, strict=True))) for row in runs.get(number, ())),
            recall=tuple(
                Measurement(**dict(zip(Measurement.__slots__, row, strict=True))) for row in recall.get(number, ())
            ),
            unrecorded=dict(losses.get(number, ())),
            chosen_model=chosen[number][0][0] if number in chosen else None,
        )
        for number, collection in zip(ids, collections, strict=True)
    ]


def _group(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """The rest of each row by the collection's number, the rows' first column and order."""
    return {key: [row[1:] for row in group] for key, group in groupby(rows, key=lambda row: row[0])}
