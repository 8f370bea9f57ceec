"""Adding items: one batch at a time, each stored in a transaction of its own, then embedded."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.embeddings import pending_among, pending_items, write_embeddings
from retrieval.adapters.store.items import ARCHIVED, remove_embeddings, stored_hashes, write_items
from retrieval.domain.embedding import Vectors
from retrieval.domain.errors import EmbedderError
from retrieval.domain.item import Item, text_hash

_log = logging.getLogger(__name__)

EMBED_BATCH = 128
"""Texts embedded and stored at a time: what an interruption can cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddReport:
    """What became of the items."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    embedded: int = 0
    """Vectors stored."""
    pending: int = 0
    """Items stored and searchable by words, that wait for their vector."""
    notes: tuple[str, ...] = field(default=())

    def __add__(self, other: AddReport) -> AddReport:
        return AddReport(
            added=self.added + other.added,
            changed=self.changed + other.changed,
            unchanged=self.unchanged + other.unchanged,
            embedded=self.embedded + other.embedded,
            pending=self.pending + other.pending,
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
        )


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes into one collection of one tenant."""

    database: Database
    tenant_id: int
    collection: StoredCollection
    embedder: CachedEmbedder | None

    async def add(self, batch: Sequence[Item], vectors: Vectors | None = None) -> AddReport:
        """Store the items that are new or changed, then embed them, and those that an earlier call left pending.

        Of items with the same key the last counts. ``vectors``, shape (len(batch), dimensions), are used instead of
        the embedder's. An embedder that fails leaves the items stored, searchable by words, and pending.
        """
        places = {item.item_id: place for place, item in enumerate(batch)}
        items = [batch[place] for place in places.values()]
        report, fresh = await self._store(items)
        space = self.collection.space
        if space is None:
            return report
        if vectors is not None:
            given = {
                item.item_id: (text_hash(item.text), vectors[places[item.item_id]])
                for item in items
                if item.status != ARCHIVED
            }
            async with self.database.transaction(self.tenant_id) as connection:
                written = await write_embeddings(connection, self.collection.collection_id, space, given)
            return replace(report, embedded=written)
        return report + await self.embed(fresh + await self._left_over(items, fresh))

    async def embed(self, items: Sequence[Item]) -> AddReport:
        """Embed items that are stored already; what the embedder refuses stays pending."""
        space = self.collection.space
        if space is None or not items:
            return AddReport()
        if self.embedder is None:
            return AddReport(pending=len(items), notes=(f"no embedder for the space {space.space.name} is configured",))
        done = 0
        for start in range(0, len(items), EMBED_BATCH):
            part = items[start : start + EMBED_BATCH]
            try:
                vectors = await self.embedder.embed_documents(
                    [item.text for item in part], [item.item_id for item in part]
                )
            except EmbedderError as error:
                _log.warning("embedding stopped: %s", error)
                return AddReport(embedded=done, pending=len(items) - done, notes=(f"embedding stopped: {error}",))
            rows = {item.item_id: (text_hash(item.text), vector) for item, vector in zip(part, vectors, strict=True)}
            async with self.database.transaction(self.tenant_id) as connection:
                await write_embeddings(connection, self.collection.collection_id, space, rows)
            done += len(part)
        return AddReport(embedded=done)

    async def next_pending(self, after: str, limit: int = EMBED_BATCH) -> list[Item]:
        """The next items, in order of key, that wait for their vector."""
        space = self.collection.space
        if space is None:
            return []
        collection_id = self.collection.collection_id
        return await pending_items(self.database, self.tenant_id, collection_id, space, after=after, limit=limit)

    async def _left_over(self, items: Sequence[Item], fresh: Sequence[Item]) -> list[Item]:
        """The unchanged items whose vector an earlier call could not get."""
        space = self.collection.space
        unchanged = {item.item_id for item in items} - {item.item_id for item in fresh}
        if space is None or not unchanged:
            return []
        waiting = await pending_among(
            self.database, self.tenant_id, self.collection.collection_id, space, sorted(unchanged)
        )
        return [item for item in items if item.item_id in waiting]

    async def _store(self, items: Sequence[Item]) -> tuple[AddReport, list[Item]]:
        """Write what is new or changed; give also those whose text needs a vector."""
        collection_id = self.collection.collection_id
        known = await stored_hashes(self.database, self.tenant_id, collection_id, [item.item_id for item in items])
        changed = [
            item for item in items if item.item_id not in known or known[item.item_id].content_hash != item.content_hash
        ]
        archived = [item.item_id for item in changed if item.status == ARCHIVED]
        if changed:
            async with self.database.transaction(self.tenant_id) as connection:
                await write_items(connection, collection_id, changed)
                if archived and self.collection.space:
                    await remove_embeddings(connection, self.collection.space.table_name, collection_id, archived)
        added = sum(item.item_id not in known for item in changed)
        report = AddReport(added=added, changed=len(changed) - added, unchanged=len(items) - len(changed))
        return report, [item for item in changed if item.status != ARCHIVED]
