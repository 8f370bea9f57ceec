"""Reading, storing and activating the versions of a collection's profile."""

from __future__ import annotations

from collections.abc import Callable

from retrieval.adapters.store.items import collections as stored_collections
from retrieval.domain.checks import check_text, checked_limit, is_whole, written
from retrieval.domain.errors import Advice, NotFoundError
from retrieval.domain.search.profile import MAX_VERSION, Profile, StoredProfile
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.request import MAX_LIMIT, check_profile

MAX_NOTE = 10_000
"""The most characters of a profile's note."""


async def profiles(handle: CollectionHandle, limit: int) -> list[StoredProfile]:
    """See ``Collection.profiles``."""
    checked_limit(limit, MAX_LIMIT)
    return await stored_collections.latest_profiles(await handle.place(), limit)


async def stored_profile(handle: CollectionHandle, version: int | None) -> StoredProfile:
    """See ``Collection.stored_profile``."""
    place = await handle.place()
    is_valid = version is None or _is_version(version)
    stored = await stored_collections.stored_profile(place, version) if is_valid else None
    if stored is None:
        await handle.refresh()  # raises if the collection was removed
        raise unknown_profile(handle.name, version)
    return stored


async def set_profile(handle: CollectionHandle, profile: Profile, note: str, *, use: bool = True) -> int:
    """See ``Collection.set_profile``."""
    check_profile(profile)
    check_text("note", note, MAX_NOTE)
    collection_id = (await handle.fresh()).collection_id
    async with handle.database.transaction(handle.tenant_id) as connection:
        version = await stored_collections.add_profile(connection, collection_id, profile, note)
        if use:
            await stored_collections.use_profile(connection, collection_id, version)
    await handle.refresh()
    return version


async def change_profile(handle: CollectionHandle, change: Callable[[StoredProfile], Profile], note: str) -> int:
    """Use what ``change`` returns for the version in use, as a new version; returns the version in use afterwards.

    Other callers store and activate versions before or after, so that no change is lost. If ``change`` returns the
    profile in use itself, nothing is stored.
    """
    collection_id = (await handle.fresh()).collection_id
    async with handle.database.transaction(handle.tenant_id) as connection:
        used = await stored_collections.hold_profile(connection, handle.tenant_id, collection_id)
        profile, version = change(used), used.version
        if profile is not used.profile:
            version = await stored_collections.add_profile(connection, collection_id, profile, note)
            await stored_collections.use_profile(connection, collection_id, version)
    await handle.refresh()
    return version


async def use_profile(handle: CollectionHandle, version: int) -> None:
    """See ``Collection.use_profile``."""
    if not _is_version(version):
        raise unknown_profile(handle.name, version)
    collection_id = (await handle.fresh()).collection_id
    async with handle.database.transaction(handle.tenant_id) as connection:
        exists = await stored_collections.use_profile(connection, collection_id, version)
    await handle.refresh()  # raises if the collection was removed
    if not exists:
        raise unknown_profile(handle.name, version)


def unknown_profile(collection: str, version: object) -> NotFoundError:
    """The error for a version that the collection of that name does not have."""
    error = NotFoundError(f"collection {collection!r} has no profile {written(version, 40)}")
    return error.advising(Advice.LIST_PROFILES, name=collection)


def _is_version(version: object) -> bool:
    return is_whole(version, 1, MAX_VERSION)
