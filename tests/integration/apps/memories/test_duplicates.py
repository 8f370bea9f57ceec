"""Memories that say the same: named, joined or kept apart, also when they come at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from retrieval import EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.store.items.memories import hold_memories
from retrieval.apps.memories import MemoryStore
from retrieval.domain.items.embedding import TextRole, Vectors

FACT = "The deploy of the billing service uses Docker Compose."
REWORDED = "Deploy of billing service uses docker compose"
MAY = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def store(platform: Platform) -> MemoryStore:
    """The memories of this test's tenant, with vectors."""
    return MemoryStore(platform)


async def test_near_duplicates_are_named_and_stored(store: MemoryStore) -> None:
    """The most similar come first; other facts, other projects and superseded memories are not duplicates."""
    await store.store_memory("p1", "note", FACT, memory_id="first")
    await store.store_memory("p1", "note", "Ann likes tea", memory_id="tea")
    await store.store_memory("p2", "note", FACT, memory_id="elsewhere")
    await store.store_memory("p1", "note", "old " + FACT, memory_id="old", duplicates="keep")
    await store.supersede("old", "tea")
    same = await store.store_memory("p1", "note", FACT.upper(), memory_id="second")
    near = await store.store_memory("p1", "note", REWORDED, memory_id="third")
    other = await store.store_memory("p1", "note", FACT.replace("uses", "does not use"), memory_id="fourth")

    assert same.is_new
    assert [(duplicate.memory_id, duplicate.similarity) for duplicate in same.duplicates] == [("first", 1.0)]
    assert [duplicate.memory_id for duplicate in near.duplicates] == ["first", "second"]
    assert all(duplicate.similarity >= 0.9 for duplicate in near.duplicates)
    assert not other.duplicates


async def test_without_vectors_the_words_decide(database_url: str, settings: Settings) -> None:
    """The overlap of words gives the same answer; nothing to compare with is not an error either."""
    async with connect(database_url, settings=settings) as platform:
        store = MemoryStore(platform)
        assert not (await store.store_memory("p1", "note", "?")).duplicates
        await store.store_memory("p1", "note", FACT, memory_id="first")
        near = await store.store_memory("p1", "note", REWORDED)
        far = await store.store_memory("p1", "note", "Docker is what billing is deployed with")
        assert [(duplicate.memory_id, duplicate.similarity) for duplicate in near.duplicates] == [("first", 1.0)]
        assert not far.duplicates
        assert not (await store.store_memory("p1", "note", "to be or not to be")).duplicates


async def test_a_duplicate_joins_the_memory_that_there_is(store: MemoryStore) -> None:
    """Links of both, the higher relevance, the later time; text, id and access count of the first."""
    await store.store_memory("p1", "note", FACT, memory_id="first", linked_paper_ids=["x"], relevance_score=0.3,
                             occurred_at=MAY)  # fmt: skip
    joined = await store.store_memory(
        "p1", "note", REWORDED, duplicates="merge", linked_paper_ids=["y"], relevance_score=0.6,
        occurred_at=MAY + timedelta(days=1),
    )  # fmt: skip
    memory = await store.get_memory("first")

    assert (joined.memory_id, joined.is_new, joined.merged_into) == ("first", False, "first")
    assert (memory.text, memory.relevance_score) == (FACT, 0.6)
    assert memory.occurred_at == MAY + timedelta(days=1)
    assert memory.links == {"papers": ("x", "y")}
    assert len(await store.list_memories("p1")) == 1


async def test_memories_of_others_and_of_other_types_are_named_and_not_joined(store: MemoryStore) -> None:
    """Merging would lose the user or the type, and an expired memory would be deleted with both."""
    await store.store_memory("p1", "note", FACT, memory_id="anns", user_id="ann")
    await store.store_memory("p1", "summary", FACT, memory_id="summary", duplicates="keep")
    record = {"project_id": "p1", "interaction_type": "note", "content": FACT}
    await store.store_memories([{**record, "memory_id": "gone", "expires_at": MAY}])
    stored = await store.store_memory("p1", "note", FACT, duplicates="merge")
    assert stored.merged_into is None
    assert [duplicate.memory_id for duplicate in stored.duplicates] == ["anns", "summary"]


async def test_the_same_memory_at_once_becomes_one(database_url: str, settings: Settings) -> None:
    """One process stores the memory; the links of all processes are kept."""
    async with connect(database_url, settings=settings) as first, connect(database_url, settings=settings) as two:
        stores = [MemoryStore(first), MemoryStore(two)]
        await stores[0].store_memory("p1", "note", "another")
        await stores[1].list_memories("p1")
        stored = await asyncio.gather(
            *(stores[n % 2].store_memory("p1", "note", FACT, duplicates="merge", links={"runs": [str(n)]})
              for n in range(8))
        )  # fmt: skip
        (memory_id,) = {each.memory_id for each in stored}
        assert sum(each.is_new for each in stored) == 1
        assert (await stores[0].get_memory(memory_id)).links == {"runs": tuple(map(str, range(8)))}


async def test_a_known_id_is_replaced_and_never_a_duplicate_of_itself(store: MemoryStore) -> None:
    """A repeated call finds nothing but its own."""
    await store.store_memory("p1", "note", FACT, memory_id="m", duplicates="merge")
    again = await store.store_memory("p1", "note", FACT, memory_id="m", duplicates="merge", linked_paper_ids=["x"])
    assert (again.is_new, again.duplicates, again.merged_into) == (False, (), None)
    assert (await store.get_memory("m")).links == {"papers": ("x",)}


async def test_many_can_be_joined_one_after_the_other(store: MemoryStore) -> None:
    """Within one call too."""
    same = {"project_id": "p1", "interaction_type": "note", "content": FACT}
    report = await store.store_memories([same, {**same, "linked_paper_ids": ["x"]}], duplicates="merge")
    assert (report.added, report.changed) == (1, 1)
    (memory,) = await store.list_memories("p1")
    assert memory.links == {"papers": ("x",)}


class OneMeaning:
    """An embedder to which all texts mean the same."""

    space = EmbeddingSpace(provider="test", model="one", dimensions=4)

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:  # noqa: ARG002
        """The same vector for each, shape (len(texts), 4)."""
        return np.tile(np.array([1.0, 0, 0, 0], dtype=np.float32), (len(texts), 1))

    async def aclose(self) -> None:
        """Nothing to close."""


async def test_a_shared_summary_makes_no_duplicate(database_url: str, settings: Settings) -> None:
    """Vectors include summaries; if a memory has a summary, only the words of the contents decide."""
    async with connect(database_url, settings=settings, embedder=OneMeaning()) as platform:
        store = MemoryStore(platform)
        await store.store_memory("p1", "note", "The deploy went well", summary="weekly report", memory_id="well")
        other = await store.store_memory(
            "p1", "note", "The rollout broke everything", summary="weekly report", duplicates="merge"
        )
        assert (other.merged_into, other.duplicates) == (None, ())
        await store.store_memory("p2", "note", "The deploy went well", memory_id="bare")
        assert (
            await store.store_memory("p2", "note", "Deployed successfully", duplicates="merge")
        ).merged_into == "bare"


@pytest.mark.parametrize("user_id", ["ann", None])
async def test_other_users_and_expired_memories_do_not_hide_a_duplicate(
    store: MemoryStore, user_id: str | None
) -> None:
    """More similar memories of other users, of other types or expired ones do not hide a mergeable memory."""
    long = f"{FACT} many small parts on the large host of the second team in the north"
    new: dict[str, Any] = {"project_id": "p1", "interaction_type": "note", "content": f"{long} now", "user_id": user_id}
    for number in range(6):
        others: list[dict[str, Any]] = [{"user_id": f"u{number}"}, {"interaction_type": "plan"}, {"expires_at": MAY}]
        await store.store_memories([new | other for other in others])
    await store.store_memories([new | {"content": f"{long} today", "memory_id": "mine"}])
    stored = await store.store_memory(**new, duplicates="merge")
    assert stored.merged_into == "mine"


async def test_two_that_may_not_join_each_others_find_do_not_wait_for_each_other(
    store: MemoryStore, platform: Platform
) -> None:
    """A merge locks only the memory that it joins: other locked memories do not block it."""
    await store.store_memory("p1", "plan", FACT, memory_id="plan", duplicates="keep")
    number = (await (await platform.collection("memories")).refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection, asyncio.timeout(20):
        await hold_memories(connection, number, ["plan"])
        stored = await store.store_memory("p1", "note", FACT, duplicates="merge")
    assert [duplicate.memory_id for duplicate in stored.duplicates] == ["plan"]
    assert stored.merged_into is None
