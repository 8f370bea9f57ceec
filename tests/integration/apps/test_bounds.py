"""The bounds of a search, which applications take from the settings."""

from __future__ import annotations

from retrieval import Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.apps.memories import MemoryStore, RetrievalEngine
from retrieval.apps.principles import PrincipleStore
from retrieval.apps.recall import Entity, Memory


async def test_a_query_may_be_as_long_as_the_settings_say(database_url: str, settings: Settings) -> None:
    """Here 100,000 bytes, three times the default."""
    query = "protein folding " * 4000
    longer = settings.changed(max_query_bytes=100_000)
    async with connect(database_url, settings=longer, embedder=HashingEmbedder(64)) as platform:
        await MemoryStore(platform).store_memory("p", "insights", "protein folding")
        [memory] = await RetrievalEngine(platform).retrieve_relevant_memories("p", query)
        assert memory.text == "protein folding"
        principles = PrincipleStore(platform)
        lesson = await principles.add_principle("Look at the folding of a protein")
        assert [hit.principle.id for hit in await principles.search_principles(query)] == [lesson.id]
        recall = Memory(await platform.collection("recall"), None)
        entity = await recall.store(Entity(name="Ann", content="studies protein folding"))
        assert [found.id for found in await recall.recall(query)] == [entity.id]
