"""A tenant's collections: finds, creates and removes them, reads their state, and sets attributes and neighbours."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items import collections as store
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.removal import remove_itself, remove_next_items, remove_records
from retrieval.adapters.store.search.terms import refresh_weights
from retrieval.adapters.store.search.vectors import StoredSpace, register_space
from retrieval.domain.checks import checked_list, choices_hint, shortened
from retrieval.domain.errors import Advice, InvalidRequestError, UnknownCollectionError
from retrieval.domain.items.attribute import checked_filterable, checked_name
from retrieval.domain.items.collection import CollectionInfo, IndexKind, Neighbours, checked_neighbours, checked_parts
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.domain.json_schema import AttributeSchema
from retrieval.domain.search.profile import Profile
from retrieval.engine.collection_handle import FRESH_SECONDS, CollectionHandle, checks_existence
from retrieval.engine.plan import default_profile
from retrieval.engine.reading import info
from retrieval.engine.request import NO_SPACE
from retrieval.services.indexes import IndexOutcome, drop_indexes, flush_lexical, keep_index
from retrieval.services.textsearch import TextsearchOutcome, drop_textsearch_index


async def find(database: Database, tenant_id: int, name: str) -> StoredCollection:
    """The collection of that name. Raises ``UnknownCollectionError``."""
    stored = await store.find_collection(database, tenant_id, name)
    if stored is not None:
        return stored
    known = [collection.name for collection in await store.all_collections(database, tenant_id)]
    unknown = UnknownCollectionError(
        f"there is no collection {shortened(name)!r}; {choices_hint(name, known, are_quoted=True)}"
    )
    raise unknown.advising(Advice.MAKE_COLLECTION, name=name, file="FILE")


async def find_or_make(
    database: Database,
    tenant_id: int,
    name: str,
    space_of_new: Callable[[], Awaitable[EmbeddingSpace | None]],
    *,
    language: str,
    profile: Profile | None,
    neighbours: Neighbours | None,
    schema: AttributeSchema | None,
    index_kind: IndexKind = IndexKind.AUTO,
) -> StoredCollection:
    """The collection of that name, made if missing; a collection without a space gets that of new collections, if any.

    Raises ``UnknownCollectionError`` for a collection that is removed meanwhile.
    """
    stored, is_new = await store.find_collection(database, tenant_id, name), False
    if stored is not None and stored.space is not None:
        return stored
    first_space = await space_of_new()
    space = None if first_space is None else await register_space(database, first_space)
    if stored is None:
        first = profile or default_profile(space.space if space else None, language)
        create = partial(store.create_collection, neighbours=neighbours, schema=schema, index_kind=index_kind)
        async with database.transaction(tenant_id) as connection:
            whose, number = (connection, tenant_id, name), space.space_id if space else None
            is_new = await create(*whose, language=language, profile=first, space_id=number)
    elif space is not None:
        await _give_space(database, tenant_id, stored, space)
    stored = await store.find_collection(database, tenant_id, name)
    if stored is None:
        raise UnknownCollectionError(f"collection {name!r} was removed while it was being made; try again")
    return replace(stored, is_new=is_new)


async def _give_space(database: Database, tenant_id: int, stored: StoredCollection, space: StoredSpace) -> None:
    """Give a collection that was made without an embedder the space, and its default profile the dense leg.

    A caller that another one precedes changes nothing.
    """
    async with database.transaction(tenant_id) as connection:
        if not await store.set_space(connection, stored.collection_id, space.space_id):
            return
        used = await store.hold_profile(connection, tenant_id, stored.collection_id)
        if used.profile == default_profile(None):
            first = default_profile(space.space, stored.text_search_config)
            note = f"the default of {space.space.name}"
            version = await store.add_profile(connection, stored.collection_id, first, note)
            await store.use_profile(connection, stored.collection_id, version)


_STEP = 500


async def refresh_windows(at: CollectionPlace, end_of_step: Callable[[int], None] = lambda _done: None) -> int:
    """Index the items whose neighbours' setting changed; returns their number.

    Each step is a transaction, so that searches and writes continue meanwhile. After an interruption the next call
    continues. No words or vectors are computed again.
    """
    done, step = 0, _STEP
    while step:
        async with at.database.transaction(at.tenant_id) as connection:
            step = await store.reindex_windows(connection, at.collection_id, _STEP)
        done += step
        end_of_step(done)
    if done:
        await refresh_weights(at)
    return done


@checks_existence
async def make_filterable(handle: CollectionHandle, attributes: Mapping[str, str], drop: Sequence[str] = ()) -> None:
    """See ``Collection.make_filterable``."""
    declared = checked_filterable(attributes)
    dropped_names = [checked_name(name) for name in checked_list("drop", drop, "['priority']")]
    if dropped_names:
        await _make_unfilterable(handle, dropped_names)
    stored = await handle.refresh()
    if set(declared) <= set(stored.filterable):
        return
    async with handle.database.transaction(handle.tenant_id) as connection:
        await store.declare_attributes(connection, stored.collection_id, handle.name, declared)
    await handle.refresh()


async def _make_unfilterable(handle: CollectionHandle, names: Sequence[str]) -> None:
    collection_id = (await handle.fresh()).collection_id
    async with handle.database.transaction(handle.tenant_id) as connection:
        await store.undeclare_attributes(connection, collection_id, names)
    await handle.refresh()
    # Other handles use the declaration, and so its index, until they read it again.
    await asyncio.sleep(1.5 * FRESH_SECONDS)
    async with handle.database.transaction(handle.tenant_id) as connection:
        await store.clear_undeclared(connection, collection_id, names)


@checks_existence
async def set_neighbours(handle: CollectionHandle, neighbours: Neighbours | None) -> int:
    """See ``Collection.set_neighbours``."""
    setting, stored = checked_neighbours(neighbours), await handle.refresh()
    place = handle.place_of(stored)
    if setting != stored.neighbours:
        async with handle.database.transaction(handle.tenant_id) as connection:
            await store.store_neighbours(connection, stored.collection_id, setting)
    elif not await store.are_windows_behind(place):
        return 0
    indexed = await refresh_windows(place)
    await flush_lexical(handle.database, indexed)
    await keep_index(handle.database, handle.tenant_id, await handle.refresh())
    await handle.refresh()
    return indexed


_LOOK_SECONDS = 0.2


@checks_existence
async def split(handle: CollectionHandle, parts: int) -> CollectionInfo:
    """See ``Platform.split``."""
    number, stored = checked_parts(parts), await handle.refresh()
    if stored.space is None:
        raise InvalidRequestError(f"collection {handle.name!r} has no vectors, and so no index to divide: {NO_SPACE}")
    if number != stored.parts:
        await store.set_parts(handle.place_of(stored), number)
        stored = await handle.refresh()
    # Another process builds this index after the same change, or that of another collection of the space.
    while await keep_index(handle.database, handle.tenant_id, stored) is IndexOutcome.BEING_BUILT:
        await asyncio.sleep(_LOOK_SECONDS)
        stored = await handle.refresh()
    return await info(handle)


_log = logging.getLogger(__name__)

ITEMS, RECORDS = 500, 5000
"""The number of items, and of rows of records, that one transaction removes."""


async def remove_collection(at: CollectionPlace) -> bool:
    """Remove the collection part by part; returns whether this call removed the last of it.

    Searches and writes of the remaining items continue meanwhile. After an interruption the next call continues.
    """
    textsearch = await drop_textsearch_index(at.database, at.collection_id)
    done = {TextsearchOutcome.NOT_NEEDED, TextsearchOutcome.DROPPED}
    if not await drop_indexes(at) or textsearch not in done:
        _log.warning("indexes of the removed collection %d are left to the tables' owner", at.collection_id)
    while await remove_next_items(at, ITEMS):
        pass
    await remove_records(at, RECORDS)
    return await remove_itself(at)
