"""Adding items: one batch at a time, each stored in a transaction of its own, then embedded."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from retrieval.adapters.embedders.cached import CachedEmbedder
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.items import ARCHIVED, remove_embeddings, stored_hashes, write_items
from retrieval.adapters.store.search.vectors import pending_among, pending_items, write_embeddings
from retrieval.domain.embedding import Vectors
from retrieval.domain.errors import (
    EmbedderRejectedError,
    EmbedderUnavailableError,
    InvalidVectorError,
    RetrievalError,
)
from retrieval.domain.item import Item, text_hash

_log = logging.getLogger(__name__)

EMBED_BATCH = 128
"""Texts embedded and stored at a time: what an interruption can cost."""

MOST_REFUSED = 5
"""Refused items of a call after which the fault is taken to be the embedder's and not theirs."""


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
    stopped: bool = False
    """Whether the embedder is away, so that asking it again at once is no use."""
    notes: tuple[str, ...] = field(default=())

    def __add__(self, other: AddReport) -> AddReport:
        return AddReport(
            added=self.added + other.added,
            changed=self.changed + other.changed,
            unchanged=self.unchanged + other.unchanged,
            embedded=self.embedded + other.embedded,
            pending=self.pending + other.pending,
            stopped=self.stopped or other.stopped,
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: the counts and the notes."""
        counts = {name: getattr(self, name) for name in AddReport.__slots__ if name not in {"notes", "stopped"}}
        return {**counts, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes into one collection of one tenant."""

    database: Database
    tenant_id: int
    collection: StoredCollection
    embedder: CachedEmbedder | None
    asks: bool = True
    """Whether the embedder is asked at all; otherwise every new text is left pending."""

    async def add(self, batch: Sequence[Item], vectors: Vectors | None = None) -> AddReport:
        """Store the items that are new or changed, then embed them, and those that an earlier call left pending.

        Of items with the same key the last counts. ``vectors``, shape (len(batch), dimensions), are used instead of
        the embedder's. An embedder that fails leaves the items stored, searchable by words, and pending.
        """
        known = await self.known_hashes(batch)
        return await self.add_beside(known, batch, vectors)

    async def known_hashes(self, batch: Sequence[Item]) -> dict[str, bytes]:
        """The content hashes of those items that are stored, by item id."""
        ids = list({item.item_id: None for item in batch})
        known = await stored_hashes(self.database, self.tenant_id, self.collection.collection_id, ids)
        return {item_id: bytes(hashes.content_hash) for item_id, hashes in known.items()}

    async def add_beside(
        self, known: Mapping[str, bytes], batch: Sequence[Item], vectors: Vectors | None = None
    ) -> AddReport:
        """As ``add``, for who has asked what is stored: ``known_hashes`` of the batch."""
        places = {item.item_id: place for place, item in enumerate(batch)}
        items = [batch[place] for place in places.values()]
        report, fresh = await self._store(items, known)
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
        return report + await self.embed(fresh + await self.left_over(items, fresh))

    def without_embedding(self) -> Writer:
        """The same writer, that leaves every item pending."""
        return replace(self, asks=False)

    async def embed(self, items: Sequence[Item]) -> AddReport:
        """Embed items that are stored already.

        An item whose text or vector is refused stays pending, is named in the notes, and holds up no other. An embedder
        that is away, or that refuses one item after another, is not asked further.
        """
        space = self.collection.space
        if space is None or not items:
            return AddReport()
        if self.embedder is None:
            return AddReport(pending=len(items), notes=(f"no embedder for the space {space.space.name} is configured",))
        if not self.asks:
            return AddReport(pending=len(items))
        report = AddReport()
        parts = [items[start : start + EMBED_BATCH] for start in range(0, len(items), EMBED_BATCH)]
        while parts and not report.stopped:
            part = parts.pop(0)
            try:
                vectors = await self.embedder.embed_documents([i.text for i in part], [i.item_id for i in part])
            except EmbedderUnavailableError as error:
                _log.warning("embedding stopped: %s", error)
                report += AddReport(pending=len(part), stopped=True, notes=(f"embedding stopped: {error}",))
            except (EmbedderRejectedError, InvalidVectorError) as error:
                if len(part) == 1:
                    report += _refused(part[0], error, len(report.notes) + 1)
                else:
                    middle = len(part) // 2
                    parts[:0] = [part[:middle], part[middle:]]
            else:
                await self._store_vectors(part, vectors)
                report += AddReport(embedded=len(part))
        return report + AddReport(pending=sum(map(len, parts)))

    async def _store_vectors(self, items: Sequence[Item], vectors: Vectors) -> None:
        if self.collection.space is None:
            return
        rows = {item.item_id: (text_hash(item.text), vector) for item, vector in zip(items, vectors, strict=True)}
        async with self.database.transaction(self.tenant_id) as connection:
            await write_embeddings(connection, self.collection.collection_id, self.collection.space, rows)

    async def next_pending(self, after: str, limit: int = EMBED_BATCH) -> list[Item]:
        """The next items, in order of key, that wait for their vector."""
        space = self.collection.space
        if space is None:
            return []
        collection_id = self.collection.collection_id
        return await pending_items(self.database, self.tenant_id, collection_id, space, after=after, limit=limit)

    async def left_over(self, items: Sequence[Item], fresh: Sequence[Item] = ()) -> list[Item]:
        """Those of the items, the ``fresh`` ones aside, whose vector an earlier call could not get."""
        space = self.collection.space
        unchanged = {item.item_id for item in items} - {item.item_id for item in fresh}
        if space is None or not unchanged:
            return []
        waiting = await pending_among(
            self.database, self.tenant_id, self.collection.collection_id, space, sorted(unchanged)
        )
        return [item for item in items if item.item_id in waiting]

    async def _store(self, items: Sequence[Item], known: Mapping[str, bytes]) -> tuple[AddReport, list[Item]]:
        """Write what is new or changed; give also those whose text needs a vector."""
        collection_id = self.collection.collection_id
        changed = [item for item in items if known.get(item.item_id) != item.content_hash]
        archived = [item.item_id for item in changed if item.status == ARCHIVED]
        if changed:
            async with self.database.transaction(self.tenant_id) as connection:
                await write_items(connection, collection_id, changed)
                if archived and self.collection.space:
                    await remove_embeddings(connection, self.collection.space.table_name, collection_id, archived)
        added = sum(item.item_id not in known for item in changed)
        report = AddReport(added=added, changed=len(changed) - added, unchanged=len(items) - len(changed))
        return report, [item for item in changed if item.status != ARCHIVED]


def _refused(item: Item, error: RetrievalError, count: int) -> AddReport:
    """The report of one refused item; of too many, that the embedder should not be asked further."""
    _log.warning("item %r is not embedded: %s", item.item_id, error)
    note = f"item {item.item_id!r} is not embedded: {error}"
    return AddReport(pending=1, stopped=count >= MOST_REFUSED, notes=(note,))
