"""A profile by the name that a person gives it: a stored version, the active one, or a file."""

from __future__ import annotations

from pathlib import Path

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection, find_profile
from retrieval.domain.errors import InvalidProfileError, NotFoundError
from retrieval.domain.json_text import JSONTextError, json_of
from retrieval.domain.profile import Profile
from retrieval.engine.target_slate import NamedProfile

ACTIVE = "active"
"""The name of the profile that the collection searches with."""

_MOST_VERSION = 2**31 - 1


async def named_profile(database: Database, tenant_id: int, collection: StoredCollection, name: str) -> NamedProfile:
    """The profile: ``active``, the number of a stored version, or the path of a JSON file with a profile.

    Raises ``NotFoundError`` for a version or a file that is not there, ``InvalidProfileError`` for no profile.
    """
    if name == ACTIVE:
        version = collection.profile_version
        return NamedProfile(name=f"profile {version}", profile=collection.profile, version=version)
    if name.isdecimal():
        return await _stored(database, tenant_id, collection, int(name))
    return NamedProfile(name=Path(name).name, profile=profile_in_file(name))


async def _stored(database: Database, tenant_id: int, collection: StoredCollection, version: int) -> NamedProfile:
    known = version <= _MOST_VERSION
    found = await find_profile(database, tenant_id, collection.collection_id, version) if known else None
    if found is None:
        raise NotFoundError(
            f"collection {collection.name!r} has no profile {version}; it has 1 to {collection.profile_version} and "
            "maybe later ones, or name a JSON file"
        )
    return NamedProfile(name=f"profile {version}", profile=found, version=version)


def profile_in_file(name: str) -> Profile:
    """The profile in a JSON file. Raises ``NotFoundError`` without the file, ``InvalidProfileError`` for no profile."""
    path = Path(name)
    try:
        stored = json_of(path.read_bytes())
    except OSError as error:
        raise NotFoundError(
            f"there is no profile {str(path)!r}: name a stored version such as 3, 'active', or a JSON file "
            f"({error.strerror or error})"
        ) from error
    except JSONTextError as error:
        raise InvalidProfileError(f"{path} cannot be read: {error}; see docs/reference/profiles.md") from error
    if not isinstance(stored, dict):
        raise InvalidProfileError(f"{path} holds no JSON object; see docs/reference/profiles.md")
    return Profile.from_dict(stored)
