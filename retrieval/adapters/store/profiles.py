"""The versions of a collection's profile, as they are stored."""

from __future__ import annotations

from typing import Any

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import Connection, Database
from retrieval.domain.profile import Profile
from retrieval.domain.stored_profile import StoredProfile

_COLUMNS = "p.version, p.definition, p.note, p.created_at, p.version = c.profile_version"
_FROM = """
    FROM collections AS c JOIN profiles AS p ON p.collection_id = c.collection_id
    WHERE c.tenant_id = %(tenant_id)s AND c.collection_id = %(collection_id)s
"""
_ALL = Compiled(f"SELECT {_COLUMNS} {_FROM} ORDER BY p.version DESC LIMIT %(most)s")
_ONE = Compiled(f"SELECT {_COLUMNS} {_FROM} AND p.version = coalesce(%(version)s::integer, c.profile_version)")
_USE = """
    UPDATE collections AS c SET profile_version = p.version FROM profiles AS p
    WHERE c.collection_id = %(collection_id)s AND p.collection_id = c.collection_id AND p.version = %(version)s
    RETURNING c.profile_version
"""


async def latest_profiles(database: Database, tenant_id: int, collection_id: int, most: int) -> list[StoredProfile]:
    """The versions, the newest first; at most so many."""
    statement = _ALL.bind(tenant_id=tenant_id, collection_id=collection_id, most=most)
    return [_profile(row) for row in await database.read(tenant_id, statement)]


async def stored_profile(
    database: Database, tenant_id: int, collection_id: int, version: int | None
) -> StoredProfile | None:
    """That version, the active one for None; None if there is no such version."""
    statement = _ONE.bind(tenant_id=tenant_id, collection_id=collection_id, version=version)
    rows = await database.read(tenant_id, statement)
    return _profile(rows[0]) if rows else None


async def use_profile(connection: Connection, collection_id: int, version: int) -> bool:
    """Make that version the active one; whether there is one."""
    cursor = await connection.execute(_USE, {"collection_id": collection_id, "version": version})
    return await cursor.fetchone() is not None


def _profile(row: tuple[Any, ...]) -> StoredProfile:
    version, definition, note, created_at, is_active = row
    profile = Profile.from_dict(definition)
    return StoredProfile(version=version, profile=profile, note=note, created_at=created_at, is_active=is_active)
