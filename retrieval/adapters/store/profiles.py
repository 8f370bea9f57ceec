"""Stored versions of a collection's profile."""

from __future__ import annotations

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Database
from retrieval.domain.profile import Profile

_OF_VERSION = Compiled(
    "SELECT definition FROM profiles WHERE collection_id = %(collection_id)s AND version = %(version)s"
)


async def profile_of_version(database: Database, tenant_id: int, collection_id: int, version: int) -> Profile | None:
    """The collection's profile of that version, or None."""
    rows = await database.read(tenant_id, _OF_VERSION.bind(collection_id=collection_id, version=version))
    return Profile.from_dict(rows[0][0]) if rows else None
