"""Entities that are made, stored and recalled."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from retrieval import Platform
from retrieval.adapters.llms.sim import SimFaults, SimLLM
from retrieval.apps.recall import DualRetriever, Entity, Memory
from retrieval.domain.errors import InvalidRequestError

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOW = datetime(2026, 11, 18, 15, 30, tzinfo=UTC)


async def test_stored_memories_are_recalled(house: Platform) -> None:
    """It comes back unchanged, with a score; with rewrites and without; and for a prompt."""
    memory = Memory(await house.collection("recall memory"), SimLLM(42), rewrite_timeout_seconds=60)
    ann = Entity(name="Ann", content="Ann works at Acme.", event_time=NOW, attributes={"team": 7})
    assert await memory.store(ann) is ann
    await memory.store(Entity(name="Ben", content="Ben is one of my coworkers."))
    entities = await memory.recall("Who do I know at Acme?", deep_search=True)
    assert (entities[0].id, entities[0].name, entities[0].content) == (ann.id, "Ann", "Ann works at Acme.")
    assert (entities[0].entity_type, entities[0].event_time, entities[0].attributes) == ("note", NOW, {"team": 7})
    assert entities[0].score > 0
    assert entities.queries == ("Acme", "works at Acme", "Acme Corp employee")
    fast = await memory.recall("Who do I know at Acme?", deep_search=False, limit=1, where={"team": 7})
    assert [entity.id for entity in fast] == [ann.id]
    assert fast.queries == ()
    assert "> Ann works at Acme." in await memory.context_for(fast)
    for found in ("ab", [None], 5):
        with pytest.raises(InvalidRequestError, match="entities"):
            await memory.context_for(found)  # type: ignore[arg-type]


async def test_the_same_memory_stored_twice_is_there_once(house: Platform) -> None:
    """Its key is derived from its fields; an entity with its own key replaces the entity of that key."""
    collection = await house.collection("recall twice")
    memory = Memory(collection, None)
    for user in ("me", "me", "other"):
        await memory.store(Entity(name="Ann", content="Ann likes tea.", attributes={"user": user}))
    assert len(await memory.recall("tea")) == 2
    await memory.store(Entity(name="Cleo", content="Cleo likes coffee.", id="cleo"))
    await memory.store(Entity(name="Cleo", content="Cleo likes water.", id="cleo"))
    assert [entity.content for entity in await memory.recall("Cleo", where={"item_id": "cleo"})] == [
        "Cleo likes water."
    ]


async def test_recalled_memories_can_be_stored_again(house: Platform) -> None:
    """With its tags, its status and its source."""
    collection = await house.collection("recall again")
    item = {"_id": "a", "title": "Ann", "text": "Tea.", "tags": ["drink"], "source": "mail", "kind": "person"}
    await collection.add([item])
    memory = Memory(collection, None)
    (entity,) = await memory.recall("tea")
    await memory.store(entity)
    (again,) = await memory.recall("tea")
    assert again.hit is not None
    assert (again.entity_type, again.hit.tags, again.hit.source) == ("person", ("drink",), "mail")


@pytest.mark.parametrize("value", [None, "Ann", {"name": "Ann", "content": "tea"}])
async def test_only_entities_are_stored(house: Platform, value: Any) -> None:
    """The error says what to give."""
    memory = Memory(await house.collection("recall refused"), None)
    with pytest.raises(InvalidRequestError, match=r"Entity\(name="):
        await memory.store(value)


@pytest.mark.parametrize("llm", [None, SimLLM(faults=SimFaults(fail_rate=1))], ids=["none", "failing"])
async def test_without_a_model_a_question_is_its_only_wording(house: Platform, llm: SimLLM | None) -> None:
    """It is searched unchanged."""
    retriever = DualRetriever(await house.collection("recall memory"), llm)
    assert await retriever.rewrite_query("Who works at Acme?") == ["Who works at Acme?"]
