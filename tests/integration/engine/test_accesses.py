"""Access counts on a real server: exact, however many count at once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from retrieval import Platform, Settings, connect
from retrieval.adapters.store.items.memories import Accesses, add_accesses, outcome_of
from retrieval.apps.memories import MemoryStore
from retrieval.collection import handle_of
from retrieval.domain.errors import InvalidRequestError


async def test_counts_are_exact_beside_writers_in_several_platforms(database_url: str, settings: Settings) -> None:
    """Fifty readers of overlapping memories, while memories are changed, stored and forgotten: every access counts."""
    chance = random.Random(7)
    async with (
        connect(database_url, settings=settings) as first,
        connect(database_url, settings=settings) as two,
        connect(database_url, settings=settings) as three,
    ):
        store = MemoryStore(first)
        await store.store_memories(
            {"project_id": "p", "interaction_type": "t", "content": f"note {n}", "memory_id": f"m{n:02}"}
            for n in range(22)
        )
        collections = [await platform.collection("memories") for platform in (first, two, three)]
        expected: Counter[str] = Counter()

        async def read(number: int) -> None:
            ids = [f"m{n:02}" for n in chance.sample(range(20), 8)]
            expected.update(ids)
            handle_of(collections[number % 3]).count_accesses(ids)
            if number % 5 == 0:
                await (first, two, three)[number % 3].accesses_counted()

        async def write(number: int) -> None:
            await store.update_memory(f"m{number:02}", summary="changed", relevance_score=0.5)
            await store.store_memory("p", "t", f"note {number}", memory_id=f"m{number:02}", duplicates="keep")

        await asyncio.gather(*map(read, range(50)), *map(write, range(4)), store.forget("m20"), store.forget("m21"))
        for platform in (first, two, three):
            await platform.accesses_counted()
        memories = await store.get_memories(sorted(expected))
    assert {memory_id: memory.accesses for memory_id, memory in memories.items()} == dict(expected)
    assert all(memory.last_accessed_at is not None for memory in memories.values())


async def test_closing_the_platform_counts_waiting_accesses(database_url: str, settings: Settings) -> None:
    """An ending program loses no access; items that are not memories and unrecorded readers count nothing."""
    async with connect(database_url, settings=settings) as platform:
        store = MemoryStore(platform)
        await store.store_memory("p", "t", "words", memory_id="m")
        collection = await platform.collection("memories")
        await collection.add([{"_id": "plain", "text": "no memory"}])
        handle_of(collection).count_accesses(["m", "plain", "missing"])
        handle_of(collection.unrecorded()).count_accesses(["m"])
    async with connect(database_url, settings=settings) as platform:
        assert (await MemoryStore(platform).get_memory("m")).accesses == 1


async def test_a_closed_platform_counts_nothing(settings: Settings) -> None:
    """The message shows the block that is missing."""
    with pytest.raises(InvalidRequestError, match="async with"):
        await Platform(settings).accesses_counted()


async def test_the_database_knows_the_outcome_of_a_count_with_a_lost_answer(platform: Platform) -> None:
    """The transaction was committed or rolled back; a transaction unknown after a restore counts as rolled back."""
    where = (platform.database, platform.tenant_id)
    notices: list[str] = []
    await MemoryStore(platform).store_memory("p", "t", "words", memory_id="m")
    number = (await (await platform.collection("memories")).refresh()).collection_id
    counts = {(number, "m"): Accesses(2, platform.now)}

    def interrupted(transaction: str) -> None:
        notices.append(transaction)
        raise ConnectionResetError

    await add_accesses(*where, counts, notices.append)
    with pytest.raises(ConnectionResetError):
        await add_accesses(*where, counts, interrupted)
    notices.append("99999999999")
    assert [await outcome_of(*where, transaction) for transaction in notices] == ["committed", "aborted", "aborted"]
    assert (await MemoryStore(platform).get_memory("m")).accesses == 2
