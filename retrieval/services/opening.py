"""Finding a tenant's collection by its name, or making it with its profile and its embedding space."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import (
    StoredCollection,
    add_profile,
    all_collections,
    create_collection,
    find_collection,
    set_space,
    use_profile,
)
from retrieval.adapters.store.search.vectors import StoredSpace, register_space
from retrieval.domain.errors import Advice, UnknownCollectionError
from retrieval.domain.items.collection import IndexKind, Neighbours
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.domain.json_schema import AttributeSchema
from retrieval.domain.search.profile import Profile
from retrieval.engine.plan import default_profile

SpaceOfNew = Callable[[], Awaitable[EmbeddingSpace | None]]
"""Returns the embedding space of a new collection; None: no embedder is configured."""


async def find(database: Database, tenant_id: int, name: str) -> StoredCollection:
    """The collection of that name. Raises ``UnknownCollectionError``."""
    stored = await find_collection(database, tenant_id, name)
    if stored is not None:
        return stored
    known = [collection.name for collection in await all_collections(database, tenant_id)]
    there_are = f"there are: {', '.join(known[:20])}" if known else "there is none yet"
    unknown = UnknownCollectionError(f"there is no collection {name!r}; {there_are}")
    raise unknown.advising(Advice.MAKE_COLLECTION, name=name, file="FILE")


async def find_or_make(
    database: Database,
    tenant_id: int,
    name: str,
    space_of_new: SpaceOfNew,
    *,
    language: str,
    profile: Profile | None,
    neighbours: Neighbours | None,
    schema: AttributeSchema | None,
    index_kind: IndexKind = IndexKind.AUTO,
) -> StoredCollection:
    """The collection of that name, made if missing; a collection without a space gets that of new collections.

    Raises ``UnknownCollectionError`` for a collection that is removed meanwhile.
    """
    stored = await find_collection(database, tenant_id, name)
    if stored is not None and stored.space is not None:
        return stored
    wanted = await space_of_new()
    space = None if wanted is None else await register_space(database, wanted)
    if stored is None:
        first = profile or default_profile(space.space if space else None)
        number = space.space_id if space else None
        async with database.transaction(tenant_id) as connection:
            whose = (connection, tenant_id, name)
            await create_collection(
                *whose,
                language=language,
                profile=first,
                space_id=number,
                neighbours=neighbours,
                schema=schema,
                index_kind=index_kind,
            )
    elif space is not None:
        await _give_space(database, tenant_id, stored, space)
    stored = await find_collection(database, tenant_id, name)
    if stored is None:
        raise UnknownCollectionError(f"collection {name!r} was removed while it was being made; try again")
    return stored


async def _give_space(database: Database, tenant_id: int, stored: StoredCollection, space: StoredSpace) -> None:
    """Give a collection that was made without an embedder the space, and its default profile the dense leg."""
    async with database.transaction(tenant_id) as connection:
        await set_space(connection, stored.collection_id, space.space_id)
        if stored.profile == default_profile(None):
            note = f"the default of {space.space.name}"
            version = await add_profile(connection, stored.collection_id, default_profile(space.space), note)
            await use_profile(connection, stored.collection_id, version)
