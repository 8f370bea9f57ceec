"""A collection with every kind of content, and its answers: for moving, backup and restore."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from retrieval import Collection, Context, Feedback, Platform
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.items import archive_items
from retrieval.apps.memories import MemoryStore
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.search.profile_parts import Exploration, PolicyName
from retrieval.jobs.registry import job_named
from retrieval.jobs.run import run_job
from retrieval.services.workplace import JobTarget

QUESTIONS = ("common word3", "word5 word12", '"common text" -word2', "nothing of it")
ITEMS = 30


async def fill(platform: Platform, name: str = "docs", neighbours: Neighbours | None = None) -> Collection:
    """Items of all sorts, two profiles, searches, feedback of all outcomes, clusters and a published model."""
    collection = await platform.collection(name, filterable={"n": "number", "kind_of": "text"}, neighbours=neighbours)
    await collection.add([
        {
            "_id": f"i{number:02}", "title": f"Title {number}", "tags": [f"t{number % 3}"], "n": number,
            "session": number % 2, "text": f"common text word{number} word{(number + 7) % 40}",
            "kind_of": ["a", "b"][number % 2], "occurred_at": f"2026-01-{number + 1:02}T12:30:15.123456+00:00",
            "source": "test",
        }
        for number in range(ITEMS)
    ])  # fmt: skip
    stored = await collection.refresh()
    assert stored.space is not None
    await archive_items(CollectionPlace(platform.database, platform.tenant_id, stored.collection_id), ["i29"])
    # A collection that moved has weights by the exact average length.
    await run_job(platform.workplace, job_named("reindex"), JobTarget(platform.tenant_id, stored))
    exploring = Exploration(policy=PolicyName.UNCERTAINTY_BONUS)
    await collection.set_profile(replace(collection.profile, exploration=exploring), note="explores")
    good = {f"i{number:02}" for number in range(0, ITEMS, 2)}
    questions = [f"common word{number}" for number in range(50)]
    results = await collection.search_each(questions, context=Context(domain="shop", complexity=0.2, actor="ann"))
    await platform.recorded()
    events = [
        Feedback(retrieval_id=result.retrieval_id, item_id=hit.item_id, helpful=hit.item_id in good)
        for result in results
        for hit in result
    ]
    await platform.feedback_each(events)
    # One verdict replaces another, and one actor's do not count.
    for helpful, actor in ((True, "ann"), (False, "ann"), (True, "bot")):
        await platform.feedback(collection=name, item_id="i03", helpful=helpful, actor=actor)
    await platform.quarantine("bot", reason="a robot")
    await collection.set_learning(half_life_days=60)
    await collection.learn()
    await collection.search(QUESTIONS[0], where={"n": {"lt": 9}}, limit=3)
    return collection


async def remember(platform: Platform, name: str = "memories") -> Collection:
    """Memories with links and access counts, one of which expires."""
    store = MemoryStore(platform, name)
    for number in range(3):
        await store.store_memory(
            "project", "chat", f"said {number} of the shop", linked_question_ids=[f"q{number}"], memory_id=f"m{number}",
            expires_at=datetime(2099, 1, 1, tzinfo=UTC) if number == 2 else None,
        )  # fmt: skip
    collection = await platform.collection(name, create=False)
    await collection.search("shop")
    await platform.accesses_counted()
    return collection


async def answers(collection: Collection) -> list[Any]:
    """The hits and scores of some searches, by words, filters and context."""
    # Exploration draws differently each time.
    profile = replace(collection.profile, exploration=Exploration())
    rows = []
    for question in QUESTIONS:
        for where in (None, {"n": {"gte": 5}, "kind_of": "a"}, {"tags": "t1"}):
            context = Context(domain="shop")
            result = await collection.search(question, where=where, limit=8, context=context, profile=profile)
            rows += [(question, str(where), hit.item_id, hit.score, hit.title) for hit in result]
    assert len({item_id for _, _, item_id, *_ in rows}) > 5
    return rows
