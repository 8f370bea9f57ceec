"""Reads of a collection without a search: items, lists, vectors, counts, recorded searches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import numpy as np

from retrieval.adapters.embedders.cached import embedder_fault
from retrieval.adapters.embedders.chosen import no_embedder
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items import collection_facts
from retrieval.adapters.store.items.collections import StoredCollection, collections_page
from retrieval.adapters.store.items.items import STORED_COLUMNS, item_from_row, stored_from_row
from retrieval.adapters.store.items.listing import all_rows, latest_items, lists_under, rows_after
from retrieval.adapters.store.records import retrievals as stored_retrievals
from retrieval.adapters.store.search.vectors import count_pending, read_embeddings
from retrieval.domain.checks import checked_limit, checked_list, checked_whole, written
from retrieval.domain.errors import EmptyQueryError, InvalidRequestError, InvalidVectorError
from retrieval.domain.items.collection import CollectionInfo, ValueCount, counted_field
from retrieval.domain.items.embedding import TextRole, Vector, Vectors
from retrieval.domain.items.item import ITEM_FIELDS, Item, StoredItem
from retrieval.domain.learning.context import Context
from retrieval.domain.records.recorded import RetrievalSummary
from retrieval.domain.records.retrieval_id import checked_id
from retrieval.domain.search.filters import Filter, Where, parse_field
from retrieval.domain.search.query import SearchBounds, wording
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.request import MAX_LIMIT, NO_SPACE, checked_item_ids, checked_words

MAX_PAGE, MAX_LISTED, MAX_BATCH = 1000, 10_000, 10_000
"""The most items on one page, on one of a listing, and on one of a scan."""

_LARGEST = 2**63 - 1


async def page(
    handle: CollectionHandle, where: Where | Filter | None, *, after: str = "", limit: int = 100
) -> list[StoredItem]:
    """See ``Collection.page``."""
    checked_limit(limit, MAX_PAGE)
    [start] = checked_item_ids([after])
    stored, condition = await handle.filtered(where)
    in_collection = (handle.database, handle.tenant_id, stored)
    rows = await rows_after(*in_collection, condition, STORED_COLUMNS, after=start, limit=limit)
    return list(map(stored_from_row, rows))


async def scan(handle: CollectionHandle, where: Where | Filter | None, *, batch: int) -> AsyncIterator[Item]:
    """See ``Collection.scan``."""
    checked_whole("batch", batch, 1, MAX_BATCH)
    stored, condition = await handle.filtered(where)
    async for row in all_rows(handle.database, handle.tenant_id, stored, condition, ITEM_FIELDS, at_a_time=batch):
        yield item_from_row(row)


async def latest(
    handle: CollectionHandle, where: Where | Filter | None = None, *, limit: int = 100, offset: int = 0
) -> list[StoredItem]:
    """The items that pass the filter, the last changed first, without archived items, from ``offset`` on.

    ``limit`` is 0 to 10,000; a page with fewer items is the last. Raises ``InvalidLimitError``, and the errors of
    filters.
    """
    _check_part(limit, offset)
    stored, condition = await handle.filtered(where)
    return await latest_items(handle.database, handle.tenant_id, stored, condition, limit=limit, offset=offset)


async def paths(
    handle: CollectionHandle,
    name: str,
    *,
    where: Where | Filter | None = None,
    depth: int | None = None,
    limit: int = 100,
    offset: int = 0,
) -> list[tuple[str, ...]]:
    """The distinct lists that items have as attribute ``name``, such as ``["docs", "2024"]``, in order.

    The order compares element by element, as texts; ``depth`` cuts each list to its first elements; ``where`` selects
    items; archived items are left out. ``limit`` is 0 to 10,000. Raises ``InvalidLimitError``, ``UnknownFieldError``
    for an attribute that no item has, and the errors of filters.
    """
    _check_part(limit, offset)
    if depth is not None:
        checked_limit(depth, _LARGEST, least=0, name="depth")
    field = parse_field(f"attributes.{name}")
    stored, condition = await handle.filtered(where, also=field)
    return await lists_under(
        handle.database, handle.tenant_id, stored, field.name, condition, depth=depth, limit=limit, offset=offset
    )


async def value_counts(
    handle: CollectionHandle, field: str, *, where: Where | Filter | None = None
) -> list[ValueCount]:
    """See ``Collection.value_counts``."""
    counted = counted_field(field)
    stored, condition = await handle.filtered(where, also=counted)
    return await collection_facts.value_counts(handle.database, handle.tenant_id, stored, counted, condition)


async def vectors_of(handle: CollectionHandle, queries: Sequence[str], role: TextRole) -> Vectors:
    """See ``Collection.vectors_of``."""
    if not isinstance(role, TextRole):
        raise InvalidRequestError(f"role is {written(role)}; it must be TextRole.QUERY or TextRole.DOCUMENT")
    stored = await handle.fresh()
    embedder = handle.embedder_of(stored)
    if stored.space is None or embedder is None:
        why = NO_SPACE if stored.space is None else no_embedder(stored.space.space)
        raise InvalidRequestError(f"collection {handle.name!r} has no embedder: {why}")
    words = _checked_queries("queries" if role is TextRole.QUERY else "texts", queries, handle.shared.bounds)
    if not words:
        return np.zeros((0, stored.space.space.dimensions), dtype=np.float32)
    if role is TextRole.DOCUMENT:
        try:
            return await embedder.embed_documents(words, [f"text {number}" for number in range(1, len(words) + 1)])
        except InvalidVectorError as error:
            raise embedder_fault(error) from error
    return np.stack(await embedder.embed_queries(words))


async def embeddings(handle: CollectionHandle, item_ids: Sequence[str]) -> dict[str, Vector]:
    """See ``Collection.embeddings``."""
    keys, stored = checked_item_ids(item_ids), await handle.fresh()
    if stored.space is None or not keys:
        return {}
    return await read_embeddings(handle.place_of(stored), stored.space, keys)


async def count_vectors(handle: CollectionHandle) -> int:
    """Count the items that have their vector in the active embedding space; 0 without a space."""
    stored = await handle.fresh()
    return await collection_facts.count_vectors(handle.place_of(stored), stored.space)


async def info(handle: CollectionHandle) -> CollectionInfo:
    """See ``Collection.info``."""
    stored = await handle.refresh()
    return info_of(stored, await count_pending(handle.place_of(stored), stored.space) if stored.space else 0)


def info_of(stored: StoredCollection, pending: int) -> CollectionInfo:
    """The collection's summary; ``pending``: the number of items that wait for their vector."""
    return CollectionInfo(
        name=stored.name,
        items=stored.documents,
        pending=pending,
        space=stored.space.space.name if stored.space else None,
        text_search_config=stored.text_search_config,
        profile_version=stored.profile_version,
        model_version=stored.model_version,
        has_hnsw=stored.ann_index is not None,
        index=stored.index_kind.value,
        is_quantised=stored.ann_index is not None and stored.ann_index.is_quantised,
        parts=stored.parts,
        index_parts=0 if stored.ann_index is None else stored.ann_index.parts,
        filterable={attribute: kind.value for attribute, kind in stored.filterable},
        neighbours=stored.neighbours,
        schema=stored.schema.definition if stored.schema else None,
    )


async def infos_after(database: Database, tenant_id: int, *, after: str, limit: int) -> list[CollectionInfo]:
    """Summaries of the tenant's next collections, by name, in two round trips."""
    stored = await collections_page(database, tenant_id, after=after, limit=limit)
    pending = await collection_facts.count_pending_each(database, tenant_id, stored)
    return [info_of(collection, pending.get(collection.collection_id, 0)) for collection in stored]


async def retrievals(
    handle: CollectionHandle, *, limit: int, before: UUID | str | None, session: str
) -> list[RetrievalSummary]:
    """See ``Collection.retrievals``."""
    checked_limit(limit, MAX_LIMIT)
    last = None if before is None else checked_id(before)
    name = Context(session=session).session
    await handle.recorded()
    return await stored_retrievals.retrievals_page(await handle.place(), limit=limit, before=last, session=name)


def _check_part(limit: int, offset: int) -> None:
    checked_limit(limit, MAX_LISTED, least=0)
    checked_limit(offset, _LARGEST, least=0, name="offset")


def _checked_queries(name: str, queries: object, bounds: SearchBounds) -> list[str]:
    given = enumerate(checked_list(name, queries, "['first', 'second']"))
    words = {(name, number): checked_words(query, bounds, (name, number)) for number, query in given}
    for location, word in words.items():
        if not word:
            raise EmptyQueryError(f"{wording(location)} is empty; give some words").at(*location)
    return list(words.values())
