"""Storing, reading, listing, rating and forgetting memories."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from retrieval.adapters.store.database import CollectionPlace, Connection, despite_deadlocks
from retrieval.adapters.store.items import memories as store
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.items.items import ARCHIVED, ItemWrite, archive_items, stored_hashes, write_items
from retrieval.adapters.store.items.removal import forget_items, memories_of, uncache_texts
from retrieval.adapters.store.search.terms import refresh_weights
from retrieval.domain import checks
from retrieval.domain.errors import EmbedderError, InvalidRequestError, InvalidVectorError, UnknownItemError
from retrieval.domain.items import memory as rules
from retrieval.domain.items.embedding import Vector
from retrieval.domain.items.item import Item
from retrieval.domain.items.memory import Duplicate, FactOutcome, Links, Memory, NewMemory, StoredMemory
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.services.add import AddReport, Writer
from retrieval.services.items import keep_indexed

T = TypeVar("T")

FORGOTTEN_TOGETHER = 200
"""Items forgotten in one transaction; feedback waits for its end."""


async def forget(at: CollectionPlace, ids: Sequence[str], *, expired_by: datetime | None = None) -> int:
    """Forget the items batch by batch; returns their number. An interruption loses one batch.

    With ``expired_by``, only memories that have expired by then.
    """
    forgotten = 0
    for start in range(0, len(ids), FORGOTTEN_TOGETHER):
        part = {item_id: f"forgotten-{secrets.token_hex(16)}" for item_id in ids[start : start + FORGOTTEN_TOGETHER]}
        forgotten += await forget_items(at, part, expired_by)
    await refresh_weights(at)
    return forgotten


async def histories(at: CollectionPlace, ids: Sequence[str], now: datetime) -> dict[str, tuple[Memory, ...]]:
    """The versions of each of those memories that exist and have not expired, newest first, by the id asked for."""
    versions = await store.read_versions(at, ids)
    known = {key: memory for key, memory in versions.items() if not rules.has_expired(memory, now)}
    return {memory_id: rules.history_of(memory_id, known) for memory_id in ids if memory_id in known}


async def forget_all(at: CollectionPlace, attribute: str, value: str) -> int:
    """Forget all memories with that value of the attribute, also those stored meanwhile; returns their number."""
    forgotten = 0
    while ids := await memories_of(at, attribute, value):
        forgotten += await forget(at, ids)
    return forgotten


_log = logging.getLogger(__name__)

BATCH = 2000
"""Memories stored in one transaction."""


class SimilarMemory(NamedTuple):
    """A memory that states nearly the same as a new one."""

    memory_id: str
    similarity: float
    text: str
    """The memory's text when it was found."""


class FoundDuplicates(NamedTuple):
    """The known duplicates of a new memory before it is stored."""

    near: Sequence[SimilarMemory]
    now: datetime
    joins: bool
    """Whether the memory should be merged into one of them."""


class DecidedFact(NamedTuple):
    """A fact to remember, and the decision on it before it is stored."""

    memory: NewMemory
    outcome: FactOutcome
    near: SimilarMemory | None = None
    """The memory that states it already, or that it replaces; None: it is a new memory."""


class SettledFact(NamedTuple):
    """The outcome for a fact to remember."""

    outcome: FactOutcome
    memory_id: str
    superseded_id: str | None = None


@dataclass(slots=True)
class _Plan:
    memories_by_id: Mapping[str, Memory]
    became: list[SettledFact]
    written: dict[str, NewMemory]
    """Memories by id: new ones, and known ones with the turns of facts that state the same."""
    successors: dict[str, str]
    """The successor's id by the id of the memory that it replaces."""


@dataclass(frozen=True, slots=True)
class MemoryWriter:
    """Writes memories into one collection."""

    writer: Writer
    handle: CollectionHandle

    async def store_all(self, memories: Sequence[NewMemory]) -> AddReport:
        """Store all memories, batch by batch; of memories with the same id the last counts."""
        last = list({memory.memory_id: memory for memory in memories}.values())
        report = AddReport()
        for start in range(0, len(last), BATCH):
            part = last[start : start + BATCH]
            written, items = await self._atomically(partial(self._write, memories=part))
            report += written + await self.writer.embed(items)
        return await self._finish(report, [])

    async def store(self, memory: NewMemory, found: FoundDuplicates | None) -> StoredMemory:
        """Store a memory, or merge it into one that states the same; ``found`` is None: no duplicates were searched.

        Callers that store the same text at once wait for each other, and it becomes one memory.
        """

        async def write(connection: Connection) -> tuple[tuple[Duplicate, ...], Memory | None, AddReport, list[Item]]:
            duplicates: tuple[Duplicate, ...] = ()
            target = None
            if found is not None:
                await store.hold_fingerprint(connection, self._collection.collection_id, memory.fingerprint)
                duplicates = await self._duplicates(connection, memory, found)
                if found.joins:
                    target = await self._target(connection, memory, duplicates, found)
            written = memory if target is None else rules.merged(target, memory)
            report, items = await self._write(connection, [written])
            if found is not None and (text := memory.item().indexed_text) != written.item().indexed_text:
                await uncache_texts(connection, self.writer.tenant_id, [text])  # no memory has the searched text
            return duplicates, target, report, items

        duplicates, target, report, items = await self._atomically(write)
        report = await self._finish(report, items)
        return StoredMemory(
            memory_id=memory.memory_id if target is None else target.memory_id,
            is_new=bool(report.added),
            duplicates=duplicates,
            merged_into=target.memory_id if target else None,
            notes=report.notes,
        )

    async def change(self, memory_id: str, changes: dict[str, Any], now: datetime) -> None:
        """Replace some of a memory's fields. Raises ``UnknownItemError``, and what ``NewMemory`` raises."""

        async def change(connection: Connection) -> tuple[AddReport, list[Item]]:
            memories_by_id = await store.hold_memories(connection, self._collection.collection_id, [memory_id])
            self._check_known(memories_by_id, [memory_id])
            known = memories_by_id[memory_id]
            rules.check_current(known, now)
            return await self._write(connection, [rules.changed(known, changes)])

        await self._finish(*await self._atomically(change))

    async def supersede(self, old_id: str, new: NewMemory | str, now: datetime) -> None:
        """Let one memory replace another; a new one is stored in the same transaction.

        Raises ``UnknownItemError``, also for an expired memory, and ``InvalidRequestError`` for a memory that would
        replace itself, is replaced already, or is of another project.
        """
        new_id = new if isinstance(new, str) else new.memory_id
        if new_id == old_id:
            raise InvalidRequestError(
                f"memory {checks.written(old_id)} cannot take its own place; change it with update_memory"
            )

        async def supersede(connection: Connection) -> tuple[AddReport, list[Item]]:
            memories_by_id = await store.hold_memories(connection, self._collection.collection_id, [old_id, new_id])
            self._check_known(memories_by_id, [old_id] if isinstance(new, NewMemory) else [old_id, new_id])
            known_successor = memories_by_id.get(new_id)
            if known_successor is not None and known_successor.superseded_by is not None:
                raise InvalidRequestError(
                    f"memory {checks.written(new_id)} was itself superseded, by "
                    f"{checks.written(known_successor.superseded_by)}; name that one"
                )
            old = memories_by_id[old_id]
            if old.superseded_by is not None and not await store.hold_memories(
                connection, self._collection.collection_id, [old.superseded_by]
            ):
                old = replace(old, superseded_by=None)  # the successor was forgotten
            _check_successor(old, memories_by_id[new] if isinstance(new, str) else new, now)
            written = [new] if isinstance(new, NewMemory) else []
            report, items = await self._write(connection, written, replaced=[old_id])
            await store.mark_superseded(connection, self._collection.collection_id, old_id, new_id)
            return report, items

        await self._finish(*await self._atomically(supersede))

    async def remember(
        self, facts: Sequence[DecidedFact], receipt: NewMemory, now: datetime, *, again: bool = False
    ) -> tuple[list[SettledFact], AddReport] | None:
        """Store the facts and the receipt in one transaction; None: the receipt existed, and nothing was changed.

        The decisions are checked again: a fact with the same words as a memory that it may join is the same, and one
        whose near memory changed meanwhile, or was superseded, is a new memory. ``again``: store the facts even if the
        receipt exists; the existing receipt stays.
        """
        collection_id = self._collection.collection_id

        async def remember(connection: Connection) -> tuple[list[SettledFact], AddReport, list[Item]] | None:
            await store.hold_fingerprint(connection, collection_id, receipt.memory_id)
            is_known = bool(await stored_hashes(self._within(connection), [receipt.memory_id]))
            if is_known and not again:
                return None
            plan = await self._plan(connection, facts, now)
            written = [*plan.written.values(), *([] if is_known else [receipt])]
            report, items = await self._write(connection, written, replaced=sorted(plan.successors))
            for old_id, new_id in plan.successors.items():
                await store.mark_superseded(connection, collection_id, old_id, new_id)
            stored = {memory.item().indexed_text for memory in written}
            unstored = {fact.memory.item().indexed_text for fact in facts} - stored
            await uncache_texts(connection, self.writer.tenant_id, sorted(unstored))
            return plan.became, report, items

        done = await self._atomically(remember)
        if done is None:
            return None
        became, report, items = done
        return became, await self._finish(report, items)

    async def vectors_of(self, items: Sequence[Item]) -> list[Vector] | None:
        """The items' vectors, shape (dimensions,); None: there is no embedder, or it does not answer.

        They are cached, so that they cost once.
        """
        if self.writer.embedder is None or not items:
            return None
        try:
            texts, keys = [item.indexed_text for item in items], [repr(item.item_id) for item in items]
            return list(await self.writer.embedder.embed_documents(texts, keys, seconds=None))
        except (EmbedderError, InvalidVectorError) as error:
            _log.info("memories like %r are looked up by words alone: %s", items[0].item_id, error)
            return None

    @property
    def _collection(self) -> StoredCollection:
        return self.writer.collection

    def _within(self, connection: Connection) -> CollectionPlace:
        return self.writer.place._replace(connection=connection)

    async def _atomically(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """The result of the work in one transaction, which is done again if the server ended it by a deadlock."""

        async def once() -> T:
            async with self.writer.database.transaction(self.writer.tenant_id) as connection:
                return await work(connection)

        return await despite_deadlocks(once)

    def _check_known(self, memories_by_id: Mapping[str, Memory], ids: Sequence[str]) -> None:
        for memory_id in ids:
            if memory_id not in memories_by_id:
                raise UnknownItemError(
                    f"there is no memory {checks.written(memory_id)} in collection {self._collection.name!r}"
                )

    async def _write(
        self, connection: Connection, memories: Sequence[NewMemory], *, replaced: Sequence[str] = ()
    ) -> tuple[AddReport, list[Item]]:
        """Write the new and changed memories; returns also the items that may need a vector.

        The cached vectors of former texts are removed. ``replaced`` are archived: between the items and the memories,
        which are then all locked in the order of their keys.
        """
        collection_id = self._collection.collection_id
        items = [memory.item() for memory in memories]
        await self.writer.check(items)
        # Held also if they are unchanged, so that all of a memory is one caller's.
        before = await store.hold_memories(connection, collection_id, sorted(item.item_id for item in items))
        known = await stored_hashes(self._within(connection), [item.item_id for item in items])
        hashes = {item_id: stored.content_hash for item_id, stored in known.items()}
        fresh = [item for item in items if hashes.get(item.item_id) != item.content_hash]
        former_texts = list[str]()
        report = AddReport()
        if fresh:
            changed = {item.item_id: item.indexed_text for item in fresh if item.item_id in known}
            texts = {key: _text_of(memory) for key, memory in before.items() if key in changed}
            former_texts = [text for memory_id, text in texts.items() if text != changed[memory_id]]
            written = await write_items(connection, ItemWrite(collection_id, fresh, self._collection.space_id))
            report += AddReport(settled=written.settled)
        if replaced:
            report += AddReport(settled=await archive_items(self._within(connection), replaced))
            await store.hold_rows(connection, collection_id, [*replaced, *(item.item_id for item in items)])
        created = await store.write_memories(connection, collection_id, memories)
        await uncache_texts(connection, self.writer.tenant_id, former_texts)
        added = len(created - known.keys())  # one of the concurrent callers creates it
        report += AddReport(added=added, changed=len(fresh) - added, unchanged=len(items) - len(fresh))
        return report, [item for item in fresh if item.status != ARCHIVED and item.item_id not in replaced]

    async def _plan(self, connection: Connection, facts: Sequence[DecidedFact], now: datetime) -> _Plan:
        """Lock the memories that the facts concern, and decide what becomes of each fact."""
        collection_id = self._collection.collection_id
        same = dict[str, list[str]]()
        for key in sorted({fact.memory.fingerprint for fact in facts}):
            await store.hold_fingerprint(connection, collection_id, key)
            same[key] = await store.memories_with(connection, collection_id, key, now)
        near = {fact.near.memory_id for fact in facts if fact.near is not None}
        memories_by_id = await store.hold_memories(connection, collection_id, sorted(near.union(*same.values())))
        plan = _Plan(memories_by_id, [], {}, {})
        joined = dict[str, list[NewMemory]]()
        for fact in facts:
            became = _outcome(fact, plan, same[fact.memory.fingerprint], now)
            plan.became.append(became)
            if became.outcome is FactOutcome.SAME:
                joined.setdefault(became.memory_id, []).append(fact.memory)
            else:
                plan.written[became.memory_id] = fact.memory
            if became.superseded_id is not None:
                plan.successors[became.superseded_id] = became.memory_id
        plan.written |= {key: _with_repetitions(memories_by_id[key], memories) for key, memories in joined.items()}
        return plan

    async def _duplicates(
        self, connection: Connection, memory: NewMemory, found: FoundDuplicates
    ) -> tuple[Duplicate, ...]:
        """Find the memories with the same words, and the nearly equal ones; the most alike first."""
        same = await store.memories_with(connection, self._collection.collection_id, memory.fingerprint, found.now)
        duplicates = {near.memory_id: Duplicate(near.memory_id, near.similarity) for near in found.near}
        duplicates |= {memory_id: Duplicate(memory_id, 1.0) for memory_id in same}
        duplicates.pop(memory.memory_id, None)
        return tuple(sorted(duplicates.values(), key=lambda duplicate: (-duplicate.similarity, duplicate.memory_id)))

    async def _target(
        self, connection: Connection, memory: NewMemory, duplicates: Sequence[Duplicate], found: FoundDuplicates
    ) -> Memory | None:
        """The most alike memory that it may join, if its text has not changed since the search.

        Only that memory is locked: two transactions that lock memories which they may not join could wait for each
        other.
        """
        if not duplicates or await stored_hashes(self._within(connection), [memory.memory_id]):
            return None
        collection_id, ids = self._collection.collection_id, [duplicate.memory_id for duplicate in duplicates]
        known = await store.read_memories(self._within(connection), ids)
        targets = [key for key in ids if key in known and _is_target(known[key], memory, found)]
        held = await store.hold_memories(connection, collection_id, targets[:1]) if targets else {}
        return next((target for target in held.values() if _is_target(target, memory, found)), None)

    async def _finish(self, report: AddReport, items: Sequence[Item]) -> AddReport:
        """Embed the written items, and adapt weights and indexes, as for any items."""
        report += await self.writer.embed(items)
        await keep_indexed(self.handle, report)
        return report


def _is_target(known: Memory, memory: NewMemory, found: FoundDuplicates) -> bool:
    """Whether the memory may join ``known``, which has the same text or still the text with which it was found."""
    if not rules.may_join(known, memory, found.now):
        return False
    seen = {near.memory_id: near.text for near in found.near}
    return rules.to_store(known).fingerprint == memory.fingerprint or seen.get(known.memory_id) == known.text


def _outcome(fact: DecidedFact, plan: _Plan, same: Sequence[str], now: datetime) -> SettledFact:
    memory, near = fact.memory, fact.near
    for memory_id in same:
        if memory_id in plan.memories_by_id and rules.may_join(plan.memories_by_id[memory_id], memory, now):
            return SettledFact(FactOutcome.SAME, memory_id)
    known = plan.memories_by_id.get(near.memory_id) if near is not None else None
    if near is None or known is None or not rules.may_join(known, memory, now) or known.text != near.text:
        return SettledFact(FactOutcome.ADDED, memory.memory_id)
    if fact.outcome is FactOutcome.SAME:
        return SettledFact(FactOutcome.SAME, known.memory_id)
    if fact.outcome is FactOutcome.SUPERSEDED and known.memory_id not in plan.successors:
        return SettledFact(FactOutcome.SUPERSEDED, memory.memory_id, known.memory_id)
    return SettledFact(FactOutcome.ADDED, memory.memory_id)


def _with_repetitions(known: Memory, memories: Sequence[NewMemory]) -> NewMemory:
    """The known memory with the links of memories that state the same; its relevance is unchanged."""
    links: Links = {}
    for memory in memories:
        links = rules.united(links, memory.links)
    latest = max(memory.occurred_at for memory in memories)
    return rules.merged(known, replace(memories[0], links=links, occurred_at=latest, relevance_score=0.0, metadata={}))


def _check_successor(old: Memory, new: Memory | NewMemory, now: datetime) -> None:
    if old.superseded_by not in (None, new.memory_id):
        raise InvalidRequestError(
            f"memory {checks.written(old.memory_id)} was superseded by {checks.written(old.superseded_by)} already; "
            "supersede that one"
        )
    for memory in (old, new):
        rules.check_current(memory, now)
    if new.project_id != old.project_id:
        raise InvalidRequestError(
            f"memory {checks.written(old.memory_id)} is of project {checks.written(old.project_id)}, "
            f"{checks.written(new.memory_id)} of {checks.written(new.project_id)}; it would be lost to its own"
        )


def _text_of(memory: Memory) -> str:
    """The text to embed, also for a plain item that could not be stored as a memory."""
    return Item.as_stored(item_id=memory.memory_id, title=memory.summary, body=memory.text).indexed_text
