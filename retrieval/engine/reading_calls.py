"""The calls that read a collection without a search: items, lists, vectors, counts, recorded searches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection, collections_page
from retrieval.domain.errors import EmptyQueryError, InvalidLimitError, InvalidRequestError
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, Vector, Vectors
from retrieval.domain.items.item import Item
from retrieval.domain.learning.context import Context
from retrieval.domain.records.retrieval_id import checked_id
from retrieval.domain.search.filters import Filter, Where, parse_field
from retrieval.domain.search.query import SearchBounds
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.request import MAX_LIMIT, NO_SPACE, check_fields, checked_item_ids, checked_words

if TYPE_CHECKING:
    from retrieval.domain.items.collection import CollectionInfo, ValueCount
    from retrieval.domain.items.item import StoredItem
    from retrieval.domain.records.recorded import RetrievalSummary


MAX_LISTED = 10_000
"""The most items on one page of a listing."""


class ListingCalls(CollectionHandle):
    """The calls that list, for a collection to inherit."""

    async def latest(
        self, where: Where | Filter | None = None, *, limit: int = 100, offset: int = 0
    ) -> list[StoredItem]:
        """The items that the filter lets through, the last changed first, without the first ``offset`` of them.

        Archived ones are left out. ``limit`` is 0 to 10,000; fewer items mean that these are the last. Raises
        ``InvalidLimitError``, and the errors of filters.
        """
        from retrieval.adapters.store.items.listing import latest_items

        _check_page(limit, offset)
        stored, wanted = await self._filtered(where)
        return await latest_items(self._database, self._tenant_id, stored, wanted, limit=limit, offset=offset)

    async def paths(
        self,
        name: str,
        *,
        where: Where | Filter | None = None,
        depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """The different lists that items have under the attribute ``name``, such as ``["docs", "2024"]``, in order.

        They compare element by element, as texts; ``depth`` cuts each to its first elements; ``where`` says of which
        items, archived ones apart. ``limit`` is 0 to 10,000. Raises ``InvalidLimitError``, ``UnknownFieldError`` for an
        attribute that no item has, and the errors of filters.
        """
        from retrieval.adapters.store.items.listing import lists_under

        _check_page(limit, offset)
        if depth is not None:
            _check_number("depth", depth)
        field = parse_field(f"attributes.{name}")
        stored, wanted = await self._filtered(where)
        if field.name not in stored.attributes:
            stored = await self.refresh()
            if stored.documents:
                check_fields(None, stored.attributes, also=field)
        return await lists_under(
            self._database, self._tenant_id, stored, field.name, wanted, depth=depth, limit=limit, offset=offset
        )


def _check_page(limit: int, offset: int) -> None:
    _check_number("limit", limit)
    _check_number("offset", offset)
    if limit > MAX_LISTED:
        raise InvalidLimitError(f"limit is {limit}; it must be a whole number from 0 to {MAX_LISTED}")


def _check_number(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidLimitError(f"{name} is {value!r:.80}; it must be a whole number of at least 0")


MAX_BATCH = 10_000
"""Items that one page of a scan holds at most."""


class ReadingCalls(CollectionHandle):
    """The calls that read, for a collection to inherit."""

    async def get(self, item_ids: Sequence[str]) -> dict[str, Item]:
        """The items of those ids that exist, by item id."""
        from retrieval.adapters.store.items.items import read_items

        keys = checked_item_ids(item_ids)
        return await read_items(self._database, self._tenant_id, (await self._fresh()).collection_id, keys)

    async def scan(self, where: Where | Filter | None = None, *, batch: int = 500) -> AsyncIterator[Item]:
        """Every item that the filter lets through, in order of item id, read page by page of ``batch`` items.

        Archived items are among them only where the filter names their status, as ``{"status": "archived"}`` does.
        Items that are added or removed meanwhile may or may not be. Raises ``InvalidFilterError``,
        ``UnknownFieldError``, and ``InvalidRequestError`` for a batch outside 1 to 10,000.
        """
        from retrieval.adapters.store.items.listing import items_after

        if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= MAX_BATCH:
            raise InvalidRequestError(f"batch is {batch!r:.80}; it must be a whole number from 1 to {MAX_BATCH}")
        stored, wanted = await self._filtered(where)
        page: list[Item] | None = None
        while page is None or len(page) == batch:
            after = page[-1].item_id if page else ""
            page = await items_after(self._database, self._tenant_id, stored, wanted, after=after, limit=batch)
            for item in page:
                yield item

    async def space(self) -> EmbeddingSpace | None:
        """The active embedding space; None: lexical search only."""
        stored = (await self._fresh()).space
        return stored.space if stored else None

    async def vectors_of(self, queries: Sequence[str], *, role: TextRole = TextRole.QUERY) -> Vectors:
        """The vectors that searches for these words look for, shape (len(queries), dimensions), float32, unit length.

        With ``role=TextRole.DOCUMENT`` those that items of these texts have, which some models embed otherwise.

        The words are taken as they stand. Those that were not embedded before are embedded in one call. Raises the
        embedder's errors, ``EmptyQueryError`` for a query without words, and ``InvalidRequestError`` for a collection
        without an embedding space, or whose embedder is not configured.
        """
        stored = await self._fresh()
        if stored.space is None or self._embedder is None:
            raise InvalidRequestError(f"collection {self.name!r} has no vectors of words: {NO_SPACE}")
        words = _checked_queries(queries, self._bounds)
        if not words:
            return np.zeros((0, stored.space.space.dimensions), dtype=np.float32)
        if role is TextRole.DOCUMENT:
            return await self._embedder.embed_documents(words, [f"text {place}" for place in range(1, len(words) + 1)])
        return np.stack(await self._embedder.embed_queries(words))

    async def embeddings(self, item_ids: Sequence[str]) -> dict[str, Vector]:
        """The items' vectors as searches compare them, by item id: shape (dimensions,), float32, unit length.

        Those that have none, because they wait for it or are archived, are missing; without a space all are.
        """
        from retrieval.adapters.store.search.vectors import read_embeddings

        keys, stored = checked_item_ids(item_ids), await self._fresh()
        if stored.space is None or not keys:
            return {}
        return await read_embeddings(self._database, self._tenant_id, stored.collection_id, stored.space, keys)

    async def info(self) -> CollectionInfo:
        """The collection at a glance, read now."""
        from retrieval.adapters.store.search.vectors import count_pending

        stored = await self.refresh()
        pending = 0
        if stored.space is not None:
            pending = await count_pending(self._database, self._tenant_id, stored.collection_id, stored.space)
        return info_of(stored, pending)

    async def value_counts(self, field: str, *, where: Where | Filter | None = None) -> list[ValueCount]:
        """Counts the items with each value of the field, the most frequent value first; archived items do not count.

        ``field`` is an attribute, named as in a filter, ``tags`` (each tag of an item counts), ``kind``, ``status`` or
        ``source``; ``where`` says of which items. Raises ``InvalidRequestError`` for another field,
        ``UnknownFieldError`` for an attribute that no item has, and the errors of filters.
        """
        from retrieval.adapters.store.items.collection_facts import value_counts
        from retrieval.domain.items.collection import counted_field

        counted = counted_field(field)
        stored, wanted = await self._filtered(where)
        if counted.is_attribute and counted.name not in stored.attributes:
            stored = await self.refresh()
            if stored.documents:
                check_fields(None, stored.attributes, also=counted)
        return await value_counts(self._database, self._tenant_id, stored, counted, wanted)

    async def count_vectors(self) -> int:
        """Counts the items that have their vector in the active embedding space; 0 without a space."""
        from retrieval.adapters.store.items.collection_facts import count_vectors

        stored = await self._fresh()
        return await count_vectors(self._database, self._tenant_id, stored.collection_id, stored.space)


def info_of(stored: StoredCollection, pending: int) -> CollectionInfo:
    """The collection at a glance, with so many items that wait for their vector."""
    from retrieval.domain.items.collection import CollectionInfo

    return CollectionInfo(
        name=stored.name,
        documents=stored.documents,
        pending=pending,
        space=stored.space.space.name if stored.space else None,
        text_search_config=stored.text_search_config,
        profile_version=stored.profile_version,
        model_version=stored.model_version,
        has_hnsw=stored.ann_index is not None,
        filterable={attribute: kind.value for attribute, kind in stored.filterable},
        neighbours=stored.neighbours,
    )


async def infos_after(database: Database, tenant_id: int, *, after: str, limit: int) -> list[CollectionInfo]:
    """The tenant's next collections at a glance, by name, in two round trips however many they are."""
    from retrieval.adapters.store.items.collection_facts import count_pending_each

    page = await collections_page(database, tenant_id, after=after, limit=limit)
    pending = await count_pending_each(database, tenant_id, page)
    return [info_of(row, pending.get(row.collection_id, 0)) for row in page]


def _checked_queries(queries: Sequence[str], bounds: SearchBounds) -> list[str]:
    if isinstance(queries, str) or not isinstance(queries, Sequence):
        raise InvalidRequestError("the queries come in a list such as ['first', 'second']")
    words = [checked_words(query, bounds) for query in queries]
    for number, one in enumerate(words, 1):
        if not one:
            empty = EmptyQueryError(f"query {number} is empty; give some words")
            empty.place = ("queries", number - 1)
            raise empty
    return words


class RecordCalls(CollectionHandle):
    """The calls about records, for a collection to inherit; see docs/how-to/recording.md."""

    async def retrievals(
        self, *, limit: int = 20, before: UUID | str | None = None, session: str = ""
    ) -> list[RetrievalSummary]:
        """The recorded searches, the newest first; ``platform.retrieval`` has all about one.

        ``before``: the identifier of the last one of the page before; ``session``: of that session alone. Searches of
        this platform that wait to be recorded are recorded first. Raises ``InvalidLimitError`` for a limit outside 1 to
        1000, ``InvalidRequestError`` for what is no identifier and no session's name.
        """
        from retrieval.adapters.store.records.retrievals import retrievals_page

        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
            raise InvalidLimitError(f"limit is {limit!r:.80}; it must be a whole number from 1 to {MAX_LIMIT}")
        last = None if before is None else checked_id(before)
        name = Context(session=session).session
        if self._recorder is not None:
            await self._recorder.recorded()
        collection_id = (await self._fresh()).collection_id
        return await retrievals_page(
            self._database, self._tenant_id, collection_id, limit=limit, before=last, session=name
        )
