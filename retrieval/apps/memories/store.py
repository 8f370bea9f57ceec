"""The store of memories: its collection, additions, changes, and lists page by page."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.memories import list_memories, rate_memory, read_memories
from retrieval.apps.memories import messages as remembering
from retrieval.apps.memories.requests import SEED_PROFILE, checked_types
from retrieval.apps.result_list import ResultList
from retrieval.collection import Collection, handle_of
from retrieval.domain.checks import (
    check_flags,
    checked_choice,
    checked_limit,
    checked_list,
    checked_number,
    time_fault,
    written,
)
from retrieval.domain.errors import Advice, InvalidRequestError, UnknownCollectionError, UnknownItemError
from retrieval.domain.items import memory as memory_fields
from retrieval.domain.items.memory import Duplicates, Links, Memory, NewMemory, StoredMemory, checked_name, has_expired
from retrieval.domain.records.retrieval_id import uuid7
from retrieval.domain.search.diversity import THRESHOLD
from retrieval.engine.request import checked_item_ids
from retrieval.platform import Platform, checked_platform
from retrieval.services.add import AddReport
from retrieval.services.items import writer_of
from retrieval.services.memories import FoundDuplicates, MemoryWriter, forget, forget_all, histories

COLLECTION = "memories"


async def memories_collection(platform: Platform, name: str = COLLECTION) -> Collection:
    """The collection of that name; made if missing, with the hybrid profile and indexes for projects and users."""
    return await platform.collection(name, profile=SEED_PROFILE, filterable=memory_fields.FILTERABLE)


async def existing_store(platform: Platform, name: str = COLLECTION) -> MemoryStore:
    """The store of an existing collection of memories.

    Raises ``UnknownCollectionError``, and ``InvalidRequestError`` for a collection that lacks the attributes of
    memories.
    """
    try:
        collection = await platform.collection(name, create=False)
    except UnknownCollectionError as error:
        raise error.advising(Advice.REMEMBER, name=shlex.quote(name)) from None
    if not set(memory_fields.FILTERABLE) <= set((await collection.info()).filterable):
        raise InvalidRequestError(f"collection {name!r} holds no memories; name a collection of memories")
    return MemoryStore(platform, name)


MOST_LISTED = 1000
"""The most memories of one page."""


@dataclass(eq=False, repr=False, kw_only=True)
class MemoryPage(ResultList[Memory]):
    """A page of a project's memories, the latest first."""

    next: str | None
    """The value of ``after`` for the next page; None: this is the last page."""


def _position(after: str) -> tuple[datetime, str]:
    moment, _, memory_id = after.partition(" ") if isinstance(after, str) else ("", "", "")
    try:
        happened_at = datetime.fromisoformat(moment)
    except ValueError:
        happened_at = None
    if happened_at is None or time_fault(happened_at) or not memory_id or "\x00" in memory_id:
        raise InvalidRequestError(f"after is {written(after)}; it must be the `next` of the page before")
    return happened_at, memory_id


_FIELDS = tuple(field.name for field in fields(NewMemory) if field.name not in {"status", "text"})
"""The arguments of ``store_memory`` that a record of a memory may have, besides ``linked_<stem>_ids``."""

UNCHANGED: Any = object()
"""The default of an argument: the update leaves the field unchanged."""


class MemoryStore:
    """The memories of one collection, which is made with the first of them."""

    def __init__(
        self,
        db: Platform,
        collection: str = COLLECTION,
        *,
        duplicate_threshold: float = THRESHOLD,
        chance: random.Random | None = None,
    ) -> None:
        """``duplicate_threshold``, 0 to 1: the least similarity of near-duplicates."""
        self._platform = checked_platform("db", db)
        self._name = collection
        self._threshold = checked_number("duplicate_threshold", duplicate_threshold)
        self._chance = chance or random.Random()  # noqa: S311 - ids are to be different, not secret
        self._cached_collection: Collection | None = None

    async def store_memory(
        self,
        /,
        project_id: str,
        interaction_type: str,
        content: Any,
        user_id: str | None = None,
        *,
        links: Links | None = None,
        summary: str | None = None,
        relevance_score: float = 1.0,
        occurred_at: datetime | None = None,
        expires_at: datetime | None = None,
        memory_id: str | None = None,
        duplicates: str = Duplicates.REPORT,
        metadata: Mapping[str, Any] | None = None,
        **linked_ids: Sequence[str],
    ) -> StoredMemory:
        """Store a memory of a project, with its links, in one transaction.

        - ``content``: a text or any other JSON value, stored unchanged; searches use its text (``extract_text``).
        - ``linked_paper_ids=[...]`` links to entities of the type ``papers``, and likewise for any other type (see
          ``entity_type``); ``links`` maps types to ids.
        - ``occurred_at``: the time of the event; default: now. ``expires_at``: the time to forget it, not a past one.
        - ``memory_id``: the application's own key; default: a new one. A known key replaces the stored memory, and
          keeps its access count.
        - ``duplicates``: ``report`` (name near-duplicates), ``merge`` (join it to the most similar memory of its
          project, user and type, see ``retrieval.domain.items.memory.merged``), ``keep`` (search for none).

        Raises ``InvalidRequestError`` for values that cannot be stored.
        """
        policy = checked_choice("treatment of duplicates", duplicates, Duplicates)
        memory = self._from_record(
            {
                **linked_ids,
                "project_id": project_id,
                "interaction_type": interaction_type,
                "content": content,
                "user_id": user_id,
                "links": links,
                "summary": summary,
                "relevance_score": relevance_score,
                "occurred_at": occurred_at,
                "expires_at": expires_at,
                "memory_id": memory_id,
                "metadata": metadata,
            }
        )
        if has_expired(memory, self._platform.now):
            raise InvalidRequestError(
                f"expires_at is {memory.expires_at}, which has passed: nobody would find the memory; give a later "
                "time, or leave it out"
            )
        return await self._store(memory, policy)

    async def store_memories(
        self, memories: Iterable[Mapping[str, Any]], *, duplicates: str = Duplicates.KEEP
    ) -> AddReport:
        """Store memories, each a mapping of the arguments of ``store_memory``; with ``keep``, many in each transaction.

        Expired memories are taken, as a copy of another store has them. If one is invalid, nothing is stored. After an
        error of the database, the earlier batches of 2,000 are stored, or with ``report`` and ``merge`` the earlier
        memories; merged ones count as changed.
        """
        policy = checked_choice("treatment of duplicates", duplicates, Duplicates)
        valid = [self._from_record(memory) for memory in checked_list("memories", memories, '[{"content": "..."}]')]
        for memory in valid:
            memory.item()  # refuses invalid values before anything is stored
        if policy is Duplicates.KEEP:
            return await (await self._writer()).store_all(valid)
        report = AddReport()
        for memory in valid:
            stored = await self._store(memory, policy)
            report += AddReport(added=int(stored.is_new), changed=int(not stored.is_new), notes=stored.notes)
        return report

    async def get_memory(self, memory_id: str) -> Memory:
        """The memory with that id, even if superseded. Raises ``UnknownItemError`` if there is none, or it expired."""
        memories = await self._read([memory_id])
        if memory_id not in memories:
            raise UnknownItemError(f"there is no memory {written(memory_id)} in collection {self._name!r}")
        memory_fields.check_current(memories[memory_id], self._platform.now)
        return memories[memory_id]

    async def get_memories(self, memory_ids: str | Sequence[str]) -> dict[str, Memory]:
        """The memories of those ids, or of one id, that exist and have not expired, by id, in the order of the ids."""
        keys = checked_item_ids(memory_ids)
        memories, now = await self._read(keys), self._platform.now
        return {key: memories[key] for key in keys if key in memories and not has_expired(memories[key], now)}

    async def list_memories(
        self,
        project_id: str,
        *,
        interaction_types: Sequence[str] | None = None,
        user_id: str | None = None,
        include_superseded: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> MemoryPage:
        """The project's memories, the latest first; ``after``: the ``next`` of the previous page; ``limit``: 1 to 1000.

        With ``include_superseded`` the collection is read by time, all of it if the project is small, because
        superseded memories have no index by project. Raises ``InvalidLimitError``, and ``InvalidRequestError`` for
        ``after``.
        """
        checked_limit(limit, MOST_LISTED)
        check_flags(include_superseded=include_superseded)
        # One more is read, to know whether another page follows.
        memories = await list_memories(
            await self._place(),
            checked_name("project_id", project_id),
            kinds=checked_types(interaction_types) or None,
            user_id=None if user_id is None else checked_name("user_id", user_id),
            are_archived_too=include_superseded,
            now=self._platform.now,
            before=None if after is None else _position(after),
            most=limit + 1,
        )
        page = memories[:limit]
        is_last = len(memories) <= limit
        return MemoryPage(page, next=None if is_last else f"{page[-1].occurred_at.isoformat()} {page[-1].memory_id}")

    async def update_memory(
        self,
        memory_id: str,
        *,
        content: Any = UNCHANGED,
        summary: str | None = UNCHANGED,
        links: Links = UNCHANGED,
        relevance_score: float = UNCHANGED,
        expires_at: datetime | None = UNCHANGED,
        occurred_at: datetime = UNCHANGED,
        metadata: Mapping[str, Any] = UNCHANGED,
    ) -> Memory:
        """Replace the given fields, keep the others, and return the memory; a superseded memory stays superseded.

        Raises ``UnknownItemError`` if there is none or it expired, and ``InvalidRequestError`` for values that cannot
        be stored.
        """
        arguments = {
            "content": content,
            "summary": summary,
            "links": links,
            "relevance_score": relevance_score,
            "expires_at": expires_at,
            "occurred_at": occurred_at,
            "metadata": metadata,
        }
        changes = {name: value for name, value in arguments.items() if value is not UNCHANGED}
        if changes.get("occurred_at", occurred_at) is None:
            raise InvalidRequestError("occurred_at is None; leave it out, or give the time of the event")
        _check_id(memory_id)
        await (await self._writer()).change(memory_id, changes, self._platform.now)
        memories = await self._read([memory_id])
        if memory_id not in memories:
            raise UnknownItemError(f"memory {written(memory_id)} was forgotten while it was changed")
        return memories[memory_id]

    async def set_relevance(self, memory_id: str, score: float) -> None:
        """Set a memory's relevance, 0 to 1.

        Raises ``UnknownItemError`` if there is none or it expired, and ``InvalidRequestError``.
        """
        relevance = checked_number("relevance_score", score)
        _check_id(memory_id)
        if not await rate_memory(await self._place(), memory_id, relevance, now=self._platform.now):
            await self.get_memory(memory_id)  # raises the error if it expired
            raise UnknownItemError(f"there is no memory {written(memory_id)} in collection {self._name!r}")

    async def supersede(self, old_id: str, new: str | Mapping[str, Any]) -> str:
        """Let a memory supersede another, and return its id: the old one stays readable, but searches do not find it.

        ``new`` is the id of a stored memory, or a mapping of the arguments of ``store_memory``, which is stored in the
        same transaction. Both must be of one project and not expired. Raises ``UnknownItemError`` and
        ``InvalidRequestError``.
        """
        _check_id(old_id)
        if isinstance(new, str):
            _check_id(new)
        memory = new if isinstance(new, str) else self._from_record(new)
        await (await self._writer()).supersede(old_id, memory, self._platform.now)
        return memory if isinstance(memory, str) else memory.memory_id

    async def remember(
        self,
        messages: Sequence[Mapping[str, Any]],
        project_id: str,
        *,
        session: str,
        user_id: str | None = None,
        first_turn: int = 1,
        interaction_type: str = remembering.FACT,
        occurred_at: datetime | None = None,
        again: bool = False,
    ) -> remembering.RememberReport:
        """Store the facts that a language model finds in the messages of a conversation, each with its source turns.

        A message has a ``role``, a ``content`` and optionally a ``name``. Messages are numbered from ``first_turn`` on;
        a memory is linked to its turns under the type ``turns`` as ``session/number``. A fact that a memory of the same
        project, user and type states already adds its turns to that memory; one that contradicts such a memory
        supersedes it; one that its turns do not support is refused. All facts are stored in one transaction. Repeating
        the messages of a session changes nothing, unless they are read ``again``. ``occurred_at``: the time of the
        messages; default: now.

        Sends the messages, and memories that resemble their facts, to ``platform.llm``, in two calls at most. Raises
        ``NoLanguageModelError`` without a language model, ``LLMUnavailableError`` or ``LLMRejectedError`` without a
        usable answer, and ``InvalidRequestError`` for invalid messages.
        """
        check_flags(again=again)
        conversation = remembering.checked_conversation(messages, session, first_turn)
        now = self._platform.now

        def memory_of(**fields: Any) -> NewMemory:
            owner = {"project_id": project_id, "user_id": user_id, "interaction_type": interaction_type}
            moment = now if occurred_at is None else occurred_at
            return NewMemory(**{**owner, "memory_id": self._new_id(), "occurred_at": moment, **fields})

        receipt = memory_of(
            content=f"{conversation.messages} messages of session {conversation.session}", status="archived"
        )
        # No key can be made before the memory has refused a project, user or type that is not a text.
        key = conversation.key(project_id, user_id, interaction_type)
        receipt = replace(receipt, memory_id=key, interaction_type=remembering.RECEIPT)
        receipt.item()  # invalid messages are refused before a model is called
        call = remembering.Remembering(
            conversation=conversation, memory_of=memory_of, receipt=receipt, now=now,
            llm=remembering.needed_llm(self._platform.llm), collection=await self._collection(),
            writer=await self._writer(), place=await self._place(),
        )  # fmt: skip
        return await call.remember(again=again)

    async def history(self, memory_id: str) -> tuple[Memory, ...]:
        """The versions of a memory, newest first: the current one, then the superseded ones.

        ``metadata`` has the ``reason`` if a language model decided that a version supersedes the previous one;
        ``updated_at`` of a superseded version is usually the time when it was superseded. Raises ``UnknownItemError``
        if there is no such memory, or it expired.
        """
        while memory_id not in (versions := await self.histories([memory_id])):
            await self.get_memory(memory_id)  # raises the error, unless it was stored meanwhile
        return versions[memory_id]

    async def histories(self, memory_ids: Sequence[str]) -> dict[str, tuple[Memory, ...]]:
        """The versions of each of those memories that exist and have not expired: see ``history``."""
        return await histories(await self._place(), checked_item_ids(memory_ids), self._platform.now)

    async def forget(self, memory_id: str) -> None:
        """Forget a memory: delete it with everything derived from it, and replace it by a pseudonym in records.

        Raises ``UnknownItemError`` if there is none.
        """
        _check_id(memory_id)
        await self._platform.recorded()
        if not await forget(await self._place(), [memory_id]):
            raise UnknownItemError(f"there is no memory {written(memory_id)} in collection {self._name!r}")

    async def forget_user(self, user_id: str) -> int:
        """Forget all memories of a user, superseded ones too; returns their number. See ``forget``.

        Recorded searches still have the user's name: ``platform.pseudonymise`` removes it. Raises
        ``InvalidRequestError`` for anything but a name.
        """
        checked_name("user_id", user_id)
        await self._platform.recorded()
        return await forget_all(await self._place(), memory_fields.USER, user_id)

    async def forget_project(self, project_id: str) -> int:
        """Forget all memories of a project, superseded ones too; returns their number. See ``forget``."""
        checked_name("project_id", project_id)
        await self._platform.recorded()
        return await forget_all(await self._place(), memory_fields.PROJECT, project_id)

    async def _store(self, memory: NewMemory, policy: Duplicates) -> StoredMemory:
        memory.item()  # refuses invalid values before any query
        writer = await self._writer()
        look = None
        if policy is not Duplicates.KEEP:
            joins = policy is Duplicates.MERGE
            vectors = await writer.vectors_of([memory.item()])
            vector = vectors[0] if vectors else None
            candidates = await remembering.near_memories(
                await self._collection(), memory, vector, self._threshold, joins=joins
            )
            current = await self.get_memories([memory.memory_id for memory in candidates]) if candidates else {}
            near = [memory for memory in candidates if memory.memory_id in current]
            look = FoundDuplicates(near, self._platform.now, joins=joins)
        return await writer.store(memory, look)

    async def _read(self, memory_ids: Sequence[str]) -> dict[str, Memory]:
        return await read_memories(await self._place(), checked_item_ids(memory_ids))

    async def _collection(self) -> Collection:
        if self._cached_collection is None:
            self._cached_collection = await memories_collection(self._platform, self._name)
        return self._cached_collection

    async def _place(self) -> CollectionPlace:
        return await handle_of(await self._collection()).place()

    async def _writer(self) -> MemoryWriter:
        handle = handle_of(await self._collection())
        return MemoryWriter(await writer_of(handle), handle)

    def _from_record(self, record: Mapping[str, Any]) -> NewMemory:
        """The memory that ``store_memory`` would store for these arguments."""
        if not isinstance(record, Mapping):
            raise InvalidRequestError(f"a memory is a mapping of store_memory's arguments, not {written(record)}")
        values = {
            name: value for name, value in record.items() if name in _FIELDS and name != "links" and value is not None
        }
        linked = {name: value for name, value in record.items() if name not in _FIELDS}
        for name in ("project_id", "interaction_type", "content"):
            if name not in values:
                raise InvalidRequestError(f"a memory needs {name}; it has {', '.join(values) or 'nothing'}")
        values.setdefault("memory_id", self._new_id())
        values.setdefault("occurred_at", self._platform.now)
        return NewMemory(**values, links=memory_fields.links_of(record.get("links"), linked, _FIELDS))

    def _new_id(self) -> str:
        return str(uuid7(int(self._platform.now.timestamp() * 1000), self._chance))


def _check_id(memory_id: str) -> None:
    checked_item_ids([memory_id])
