"""What is called about how a collection is indexed: filterable attributes, and neighbours in a sequence."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from retrieval.domain.attribute import checked_filterable, checked_name
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.neighbours import Neighbours, checked_neighbours
from retrieval.engine.collection_handle import FRESH_SECONDS, CollectionHandle, told_if_gone


class IndexingCalls(CollectionHandle):
    """The calls about indexing, for a collection to inherit."""

    @told_if_gone
    async def make_filterable(self, attributes: Mapping[str, str]) -> None:
        """Declare attributes as filterable, each with its type: ``text``, ``number``, ``boolean`` or ``time``.

        They get an index, the stored items too, while writers wait; filters then compare them by that type. What is
        declared so already costs nothing. Raises ``InvalidRequestError`` for a name or a type that cannot be, and for
        an attribute that is declared with another type.
        """
        from retrieval.adapters.store.items.indexing import declare

        wanted = checked_filterable(attributes)
        stored = await self.refresh()
        collection_id = stored.collection_id
        if set(wanted) <= set(stored.filterable):
            return
        async with self._database.transaction(self._tenant_id) as connection:
            await declare(connection, collection_id, self.name, wanted)
        await self.refresh()

    @told_if_gone
    async def make_unfilterable(self, names: Sequence[str]) -> None:
        """Take back what ``make_filterable`` did; the items keep their attributes, and filters still work, slower."""
        from retrieval.adapters.store.items.indexing import clear_undeclared, undeclare

        if isinstance(names, str):
            raise InvalidRequestError(f"names come in a list such as ['priority'], not {names!r:.80}")
        wanted, collection_id = [checked_name(name) for name in names], (await self._fresh()).collection_id
        async with self._database.transaction(self._tenant_id) as connection:
            await undeclare(connection, collection_id, wanted)
        await self.refresh()
        # Other handles go by the declaration, and so by its index, until they look again.
        await asyncio.sleep(1.5 * FRESH_SECONDS)
        async with self._database.transaction(self._tenant_id) as connection:
            await clear_undeclared(connection, collection_id, wanted)

    @told_if_gone
    async def set_neighbours(self, neighbours: Neighbours | None) -> int:
        """Index the items together with their neighbours in a sequence from now on, or each alone (None).

        The stored items are indexed anew, by their words and by the vectors that they have, while searches and writes
        go on; gives how many. Interrupted, the same call, or the job ``neighbours``, goes on from there. What is set
        already costs nothing. Raises ``InvalidRequestError`` for anything else than ``Neighbours`` or None.
        """
        from retrieval.adapters.store.items.indexing import are_windows_behind, set_neighbours
        from retrieval.jobs.indexes import flush_lexical
        from retrieval.jobs.neighbours import refresh_windows

        wanted, stored = checked_neighbours(neighbours), await self.refresh()
        collection_id = stored.collection_id
        if wanted != stored.neighbours:
            async with self._database.transaction(self._tenant_id) as connection:
                await set_neighbours(connection, collection_id, wanted)
        elif not await are_windows_behind(self._database, self._tenant_id, collection_id):
            return 0
        indexed = await refresh_windows(self._database, self._tenant_id, collection_id)
        await flush_lexical(self._database, indexed)
        await self.refresh()
        return indexed
