"""The calls about profiles: their versions, the active one, and previews of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from retrieval.adapters.aside import LONG, aside
from retrieval.adapters.store.items.collections import add_profile
from retrieval.domain.checks import is_storable
from retrieval.domain.errors import Advice, InvalidLimitError, InvalidRequestError, NotFoundError
from retrieval.domain.learning.context import Context
from retrieval.domain.search.filters import Filter, Where
from retrieval.domain.search.hit import SearchResult
from retrieval.domain.search.profile import Profile
from retrieval.engine.collection_handle import CollectionHandle, parsed_filter

if TYPE_CHECKING:
    from retrieval.domain.search.preview import Preview
    from retrieval.domain.search.profile import StoredProfile

MOST_LISTED = 1000
"""Versions that one call lists at most."""

MAX_NOTE = 10_000
"""Characters of what is said of a profile."""

_MOST_VERSION = 2**31 - 1


class Searching(Protocol):
    """A collection that can be searched."""

    async def search(
        self,
        query: str | None = None,
        *,
        where: Where | Filter | None = None,
        limit: int = 10,
        profile: Profile | None = None,
        syntax: bool = True,
        context: Context = Context(),
    ) -> SearchResult:
        """See ``Collection.search``."""
        ...


class ProfileCalls(CollectionHandle, ABC):
    """The calls about profiles, for a collection to inherit; see docs/reference/profiles.md."""

    @abstractmethod
    def unrecorded(self) -> Searching:
        """The same collection, whose searches are not recorded."""

    async def profiles(self, *, limit: int = 100) -> list[StoredProfile]:
        """The versions of the profile, the newest first. Raises ``InvalidLimitError`` outside 1 to 1000."""
        from retrieval.adapters.store.items.collections import latest_profiles

        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_LISTED:
            raise InvalidLimitError(f"limit is {limit!r:.80}; it must be a whole number from 1 to {MOST_LISTED}")
        return await latest_profiles(self._database, self._tenant_id, (await self._fresh()).collection_id, limit)

    async def stored_profile(self, version: int | None = None) -> StoredProfile:
        """Gives that version of the profile, or the active one. Raises ``NotFoundError`` for one that is not there."""
        from retrieval.adapters.store.items.collections import stored_profile

        collection_id = (await self._fresh()).collection_id
        is_possible = version is None or _is_version(version)
        found = await stored_profile(self._database, self._tenant_id, collection_id, version) if is_possible else None
        if found is None:
            await self.refresh()  # a collection that is gone has no profile either
            raise self._without(version)
        return found

    async def set_profile(self, profile: Profile, *, note: str = "") -> int:
        """Store the profile as a new version and search with it from now on; gives the version.

        Raises ``InvalidRequestError`` for a note of more than 10,000 characters, or that cannot be stored.
        """
        said, collection_id = _checked_note(note), (await self._fresh()).collection_id
        async with self._database.transaction(self._tenant_id) as connection:
            version = await add_profile(connection, collection_id, profile, said)
        await self.refresh()
        return version

    async def use_profile(self, version: int) -> None:
        """Search with that version from now on. Raises ``NotFoundError`` for one that is not there."""
        from retrieval.adapters.store.items.collections import use_profile

        if not _is_version(version):
            raise self._without(version)
        collection_id = (await self._fresh()).collection_id
        async with self._database.transaction(self._tenant_id) as connection:
            is_there = await use_profile(connection, collection_id, version)
        if not is_there:
            await self.refresh()  # a collection that is gone has no profile either
            raise self._without(version)
        await self.refresh()

    async def preview(
        self,
        query: str,
        *,
        profiles: Mapping[str, Profile],
        where: Where | Filter | None = None,
        limit: int = 10,
        syntax: bool = True,
        context: Context = Context(),
    ) -> Preview:
        """Gives the hits of each of 1 to 10 profiles for the query, and what entered, left and moved against the first.

        ``profiles`` are by name, such as ``{"now": collection.profile, "candidate": other}``. Each is a search, which
        is not recorded and explores nothing. Raises what ``search`` raises.
        """
        from retrieval.domain.search.preview import checked_profiles, preview_of

        asked, wanted = checked_profiles(profiles), await parsed_filter(where, self._bounds)
        place = self.unrecorded()
        found = [
            (
                name,
                profile,
                await place.search(query, where=wanted, limit=limit, profile=profile, syntax=syntax, context=context),
            )
            for name, profile in asked.items()
        ]
        is_long = sum(len(result) for _, _, result in found) >= LONG
        return await aside(lambda: preview_of(query, found), is_long=is_long)

    def _without(self, version: object) -> NotFoundError:
        unknown = NotFoundError(f"collection {self.name!r} has no profile {version!r:.40}")
        return unknown.advising(Advice.LIST_PROFILES, name=self.name)


def _checked_note(note: object) -> str:
    if not is_storable(note) or len(note) > MAX_NOTE:
        raise InvalidRequestError(
            f"note is {note!r:.80}; it must be a text of at most {MAX_NOTE} characters without NUL"
        )
    return note


def _is_version(version: object) -> bool:
    return isinstance(version, int) and not isinstance(version, bool) and 1 <= version <= _MOST_VERSION
