"""Keeps indexes of the extension pg_textsearch by the size of collections."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum

from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search import textsearch as store
from retrieval.adapters.store.search.indexes import failed_builds
from retrieval.domain.errors import MissingPrivilegeError

_log = logging.getLogger(__name__)

TEXTSEARCH_ROWS = 20_000
"""The number of items from which a collection gets the extension's index; below half of it, it loses the index."""


class TextsearchOutcome(StrEnum):
    """The result of bringing the extension's index up to date."""

    NOT_INSTALLED = "not installed"
    NOT_LOADED = "pg_textsearch is installed and not loaded: add it to shared_preload_libraries and restart the server"
    NOT_ON_A_CLUSTER = "not used on a cluster: searches by words use the portable index there"
    NOT_NEEDED = "not needed"
    PRESENT = "present"
    BUILT = "built"
    DROPPED = "dropped"
    BUSY = "another process works on it, or the collection is being written; the next run does it"
    NOT_ALLOWED = "not allowed: the login does not own the tables; run it as the owner"


async def keep_textsearch_index(
    database: Database, collection: StoredCollection, rows: int = TEXTSEARCH_ROWS
) -> TextsearchOutcome:
    """Make, keep or drop the collection's index by its size. Searches and writes continue meanwhile.

    After an interruption the next call continues. Without the extension, and on a cluster, nothing is built, and
    leftovers of the extension are removed.
    """
    state = await store.textsearch_state(database, collection.collection_id)
    # The index has only each item's own words.
    is_wanted = (
        state.installed
        and not database.facts.is_distributed
        and collection.neighbours is None
        and (collection.documents >= rows or (state.has_table and collection.documents >= rows // 2))
    )
    if is_wanted and not state.loaded:
        return TextsearchOutcome.NOT_LOADED
    if not is_wanted and not state.has_table:
        if not state.installed:
            return TextsearchOutcome.NOT_INSTALLED
        return TextsearchOutcome.NOT_ON_A_CLUSTER if database.facts.is_distributed else TextsearchOutcome.NOT_NEEDED
    if is_wanted and state.is_served and not await failed_builds(database, store.index_name(collection.collection_id)):
        return TextsearchOutcome.PRESENT
    return await _exclusively(database, collection.collection_id, _make if is_wanted else _drop)


async def rebuild_textsearch_index(database: Database, collection: StoredCollection) -> TextsearchOutcome:
    """Rebuild the collection's index, if it has one, while searches use it; this is useful after many updates.

    An index that does not serve searches is left to ``keep_textsearch_index``.
    """
    state = await store.textsearch_state(database, collection.collection_id)
    if not state.has_table:
        return TextsearchOutcome.NOT_NEEDED
    if not state.is_served:
        return await keep_textsearch_index(database, collection)
    return await _exclusively(database, collection.collection_id, _rebuild)


async def drop_textsearch_index(database: Database, collection_id: int) -> TextsearchOutcome:
    """Drop the collection's index and table, if it has them."""
    if not (await store.textsearch_state(database, collection_id)).has_table:
        return TextsearchOutcome.NOT_NEEDED
    return await _exclusively(database, collection_id, _drop)


async def _exclusively(
    database: Database, collection_id: int, work: Callable[[Database, int], Awaitable[TextsearchOutcome]]
) -> TextsearchOutcome:
    """The outcome of the work, unless another process works on the index or the login may not."""
    async with database.only_one(f"textsearch of {collection_id}") as alone:
        try:
            return await work(database, collection_id) if alone else TextsearchOutcome.BUSY
        except MissingPrivilegeError:
            _log.warning("pg_textsearch of collection %d: %s", collection_id, TextsearchOutcome.NOT_ALLOWED.value)
            return TextsearchOutcome.NOT_ALLOWED


async def _make(database: Database, collection_id: int) -> TextsearchOutcome:
    if (await store.textsearch_state(database, collection_id)).is_served:
        await store.clear_index(database, collection_id)
        return TextsearchOutcome.PRESENT
    tenant_id = await store.make_table(database, collection_id)
    if tenant_id is None:
        return TextsearchOutcome.BUSY
    await store.fill_table(CollectionPlace(database, tenant_id, collection_id))
    await store.build_index(database, collection_id)
    return TextsearchOutcome.BUILT


async def _rebuild(database: Database, collection_id: int) -> TextsearchOutcome:
    await store.rebuild_index(database, collection_id)
    return TextsearchOutcome.BUILT


async def _drop(database: Database, collection_id: int) -> TextsearchOutcome:
    dropped = await store.drop_table(database, collection_id)
    return TextsearchOutcome.DROPPED if dropped else TextsearchOutcome.BUSY
