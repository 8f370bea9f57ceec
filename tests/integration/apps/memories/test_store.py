"""Memories on a real server: stored as a whole, changed, superseded, listed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import retrieval.sync
from retrieval import Platform
from retrieval.adapters.store.database import Connection
from retrieval.adapters.store.items.items import stored_hashes
from retrieval.adapters.store.items.memories import write_memories
from retrieval.apps.memories import MemoryStore, RetrievalEngine
from retrieval.domain.errors import (
    InvalidItemError,
    InvalidLimitError,
    InvalidRequestError,
    UnknownItemError,
)
from retrieval.domain.items.memory import Memory, NewMemory
from retrieval.domain.search.profile import Profile
from tests.support.cluster import not_on_a_cluster
from tests.support.database import SCHEMA

MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(platform: Platform) -> MemoryStore:
    """The memories of this test's tenant."""
    return MemoryStore(platform)


async def _ids(platform: Platform, words: str) -> list[str]:
    """The ids that a search by words finds."""
    collection = await platform.collection("memories")
    hits = await collection.search(words, profile=Profile(legs={"lexical": 1.0}))
    return [hit.item_id for hit in hits]


async def test_a_memory_is_read_back_as_it_was_stored(store: MemoryStore, platform: Platform) -> None:
    """JSON content, links of any type, times and metadata are restored; its text is what searches read."""
    content = {"keyFindings": ["Folding is slow", "Chaperones help"], "confidence": 0.8}
    stored = await store.store_memory(
        project_id="p1", interaction_type="insights", content=content, user_id="ann",
        linked_question_ids=["q1", "q2"], linked_hypothesis_ids=["h1"], linked_study_ids=["s1"], links={"labs": ["l1"]},
        summary="Folding", relevance_score=0.7, occurred_at=MAY, metadata={"model": "m1"},
    )  # fmt: skip
    memory = await store.get_memory(stored.memory_id)

    assert stored.is_new
    assert not stored.duplicates
    assert (memory.project_id, memory.user_id, memory.interaction_type) == ("p1", "ann", "insights")
    assert memory.content == content
    assert memory.text == "key findings: Folding is slow\nkey findings: Chaperones help\nconfidence: 0.8"
    assert memory.links == {"hypotheses": ("h1",), "labs": ("l1",), "questions": ("q1", "q2"), "studies": ("s1",)}
    assert (memory.summary, memory.relevance_score, memory.occurred_at) == ("Folding", 0.7, MAY)
    assert (memory.accesses, memory.superseded_by, memory.status) == (0, None, "active")
    assert memory.metadata == {"model": "m1"}
    assert await _ids(platform, "chaperones") == [stored.memory_id]


async def test_an_update_changes_only_the_given_fields(store: MemoryStore) -> None:
    """Content, links and times change one by one; the access count is never touched."""
    memory_id = (await store.store_memory("p1", "insights", "first words", linked_question_ids=["q1"])).memory_id
    changed = await store.update_memory(memory_id, content="other words", relevance_score=0.2)
    again = await store.update_memory(memory_id, links={"papers": ["x"]}, occurred_at=MAY, summary="s")

    assert (changed.content, changed.relevance_score, changed.links) == ("other words", 0.2, {"questions": ("q1",)})
    assert (again.content, again.links, again.occurred_at) == ("other words", {"papers": ("x",)}, MAY)
    await store.set_relevance(memory_id, 0.9)
    assert (await store.get_memory(memory_id)).relevance_score == 0.9


async def test_a_superseded_memory_stays_readable_and_is_found_no_more(store: MemoryStore, platform: Platform) -> None:
    """It names its successor; the chain stays consistent."""
    old = (await store.store_memory("p1", "summary", "the flange is steel", memory_id="old")).memory_id
    new = await store.supersede(old, {"project_id": "p1", "interaction_type": "summary", "content": "flange: brass"})
    former = await store.get_memory(old)

    assert (former.superseded_by, former.status, former.text) == (new, "archived", "the flange is steel")
    assert await _ids(platform, "flange") == [new]
    assert [memory.memory_id for memory in await store.list_memories("p1")] == [new]
    assert len(await store.list_memories("p1", include_superseded=True)) == 2
    assert (await store.update_memory(old, relevance_score=0.1)).status == "archived"
    with pytest.raises(InvalidRequestError, match="superseded by"):
        await store.supersede(old, (await store.store_memory("p1", "summary", "third")).memory_id)
    with pytest.raises(InvalidRequestError, match="was itself superseded"):
        await store.supersede(new, old)
    with pytest.raises(InvalidRequestError, match="its own place"):
        await store.supersede(new, new)


async def test_a_memorys_time_is_its_items_whoever_changes_it(
    store: MemoryStore, platform: Platform, database_url: str
) -> None:
    """Searches read the times of memories and links, which follow an item that is patched, added again or timeless."""
    await store.store_memory("p1", "insights", "words", memory_id="m", linked_question_ids=["q1"], occurred_at=MAY)
    collection = await platform.collection("memories")
    times = f"""
        SELECT memory.happened_at, link.happened_at, coalesce(item.occurred_at, item.created_at)
        FROM {SCHEMA}.items AS item JOIN {SCHEMA}.memories AS memory USING (collection_id, item_id)
        JOIN {SCHEMA}.memory_links AS link USING (collection_id, item_id) WHERE item.collection_id = %s
    """  # noqa: S608 - the tests' schema
    for later in (MAY + timedelta(days=1), MAY + timedelta(days=2), None):
        if later == MAY + timedelta(days=2):
            await collection.add([{"id": "m", "body": "other words", "occurred_at": later}])
        else:
            await collection.patch("m", {"occurred_at": later})
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            place = (await collection.refresh()).collection_id
            [row] = await (await connection.execute(times, (place,))).fetchall()
        assert set(row) == {later or row[2]}


async def test_of_those_who_store_a_memory_at_the_same_moment_one_makes_it(store: MemoryStore) -> None:
    """It is new to that one alone."""
    calls = [store.store_memory("p1", "note", f"words {n}", memory_id="m", duplicates="keep") for n in range(8)]
    assert sum(call.is_new for call in await asyncio.gather(*calls)) == 1


async def test_invalid_names_are_refused(store: MemoryStore) -> None:
    """With a readable error, before anything is read or forgotten; an empty list of types filters nothing."""
    await store.store_memory("p1", "note", "words")
    values: list[Any] = [None, "", 5, float("nan"), {}, "a\0", "\ud800"]
    for value in values:
        for call in (store.forget_user(value), store.forget_project(value), store.list_memories(value)):
            with pytest.raises(InvalidRequestError, match=r"user_id is|project_id is"):
                await call
    for value in values[1:]:
        with pytest.raises(InvalidRequestError, match="user_id is"):
            await store.list_memories("p1", user_id=value)
    wrong: Any = 5
    with pytest.raises(InvalidRequestError, match="interaction_types come in a list"):
        await store.list_memories("p1", interaction_types=wrong)
    with pytest.raises(InvalidRequestError, match="memories come in a list"):
        await store.store_memories(wrong)
    with pytest.raises(InvalidRequestError, match="db is 5"):
        MemoryStore(wrong)
    with pytest.raises(InvalidRequestError, match="db is 5"):
        RetrievalEngine(wrong)
    assert len(await store.list_memories("p1", interaction_types=[])) == 1


async def test_an_expired_memory_is_immutable_and_no_successor(store: MemoryStore) -> None:
    """It cannot become a successor either; and another project's memory cannot replace one. The message says so."""
    record = {"project_id": "p1", "interaction_type": "note", "content": "new", "memory_id": "new"}
    await store.store_memories([{**record, "memory_id": "live"}, {**record, "memory_id": "gone", "expires_at": MAY}])
    await store.store_memory("p2", "note", "others", memory_id="other")
    for call in (
        store.supersede("live", "gone"), store.supersede("gone", "live"), store.update_memory("gone", summary="S"),
        store.set_relevance("gone", 0.5), store.supersede("live", {**record, "expires_at": MAY}),
    ):  # fmt: skip
        with pytest.raises(UnknownItemError, match="expired at 2026-05-01"):
            await call
    for new in ("other", {**record, "project_id": "p2"}):
        with pytest.raises(InvalidRequestError, match=r"is of project 'p1', '(other|new)' of 'p2'"):
            await store.supersede("live", new)
    assert [memory.memory_id for memory in await store.list_memories("p1", include_superseded=True)] == ["live"]


async def test_memories_that_the_server_kept_out_are_stored_again(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer may create one of them after another of them was locked, and wait for that one."""
    attempts: list[int] = []

    async def written(connection: Connection, collection_id: int, memories: Sequence[NewMemory]) -> set[str]:
        attempts.append(len(memories))
        if len(attempts) % 2:
            raise psycopg.errors.DeadlockDetected
        return await write_memories(connection, collection_id, memories)

    monkeypatch.setattr("retrieval.adapters.store.items.memories.write_memories", written)
    fact: dict[str, Any] = {"project_id": "p", "interaction_type": "note"}
    report = await store.store_memories([{**fact, "content": "one"}, {**fact, "content": "two"}])
    await store.store_memory(**fact, content="three", memory_id="three")
    await store.update_memory("three", summary="a number")
    await store.supersede("three", {**fact, "content": "four"})

    assert (report.added, attempts) == (2, [2, 2, 1, 1, 1, 1, 1, 1])


async def test_both_memories_are_held_before_one_takes_the_others_place(
    store: MemoryStore, platform: Platform, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks are taken in the order of the keys, as access counts take them, so no deadlock is possible."""
    await store.store_memories(
        {"project_id": "p", "interaction_type": "note", "content": memory_id, "memory_id": memory_id}
        for memory_id in ("a", "b")
    )
    number = (await (await platform.collection("memories")).refresh()).collection_id
    free: list[str] = []
    free_ones = f"SELECT item_id FROM {SCHEMA}.memories WHERE collection_id = %s FOR UPDATE SKIP LOCKED"  # noqa: S608

    async def watched(*where: Any) -> set[str]:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            free.extend(row[0] for row in await (await connection.execute(free_ones, (number,))).fetchall())
        return await write_memories(*where)

    monkeypatch.setattr("retrieval.adapters.store.items.memories.write_memories", watched)
    new = {"project_id": "p", "interaction_type": "note", "content": "b anew", "memory_id": "b"}
    assert await store.supersede("a", new) == "b"
    assert free == []
    assert (await store.get_memory("a")).superseded_by == "b"


async def test_a_new_memory_that_cannot_be_stored_supersedes_nothing(store: MemoryStore) -> None:
    """Both happen, or neither does."""
    await store.store_memory("p1", "summary", "kept", memory_id="old")
    with pytest.raises(InvalidItemError):
        await store.supersede("old", {"project_id": "p1", "interaction_type": "t", "content": "NUL \x00"})
    assert (await store.get_memory("old")).status == "active"


async def test_one_invalid_memory_refuses_the_whole_list(store: MemoryStore) -> None:
    """Neither a single memory nor any memory of a list is stored."""
    good: dict[str, Any] = {"project_id": "p1", "interaction_type": "t", "content": "words"}
    with pytest.raises(InvalidRequestError, match="report, merge, keep"):
        await store.store_memory(**good, duplicates="drop")
    with pytest.raises(InvalidRequestError, match="no argument 'questions'"):
        await store.store_memory(**good, questions=["q1"])
    with pytest.raises(InvalidRequestError, match="no argument 'userid'; did you mean 'user_id'"):
        await store.store_memory(**good, userid=["ann"])
    with pytest.raises(InvalidRequestError, match=r"no argument 'sumary'; did you mean 'summary'.* linked_paper_ids="):
        await store.store_memories([good | {"sumary": "x"}])
    with pytest.raises(InvalidRequestError, match="no argument 5"):
        await store.store_memories([good | {5: "x"}])  # type: ignore[list-item]
    with pytest.raises(InvalidItemError, match="NaN or infinite"):
        await store.store_memory(**{**good, "content": {"x": float("inf")}})
    with pytest.raises(InvalidRequestError, match="needs project_id"):
        await store.store_memories([good, {"content": "x", "interaction_type": "t"}])
    for how in ("report", "merge", "keep"):
        with pytest.raises(InvalidItemError):
            await store.store_memories([good, good | {"memory_id": "x" * 5000}], duplicates=how)
    assert not await store.list_memories("p1")


async def test_a_missing_memory_is_named(store: MemoryStore) -> None:
    """Reading, changing, rating, superseding and forgetting all name the memory."""
    for call in (
        store.get_memory("none"), store.update_memory("none", content="x"), store.set_relevance("none", 1),
        store.supersede("none", "other"), store.forget("none"),
    ):  # fmt: skip
        with pytest.raises(UnknownItemError, match="'none'"):
            await call
    assert await store.get_memories(["none"]) == {}


async def test_an_expired_memory_is_not_given_before_it_is_forgotten(store: MemoryStore, platform: Platform) -> None:
    """It is not listed either, and the message says when it expired; stored alone, it would be a mistake."""
    record: dict[str, Any] = {"project_id": "p1", "interaction_type": "t", "content": "soon gone", "memory_id": "m"}
    with pytest.raises(InvalidRequestError, match="which has passed"):
        await store.store_memory(**record, expires_at=platform.now)
    await store.store_memories([{**record, "expires_at": platform.now - timedelta(seconds=1)}])
    with pytest.raises(UnknownItemError, match="expired at"):
        await store.get_memory("m")
    assert await store.get_memories(["m"]) == {}
    assert not await store.list_memories("p1")
    assert (await (await platform.collection("memories")).complete("soo")).queries == ()


async def test_pages_follow_one_another_without_gap_or_overlap(store: MemoryStore) -> None:
    """The latest first, and by id within one moment."""
    await store.store_memories(
        {"project_id": "p1", "interaction_type": "ab"[n % 2], "content": f"number {n}", "memory_id": f"m{n}",
         "occurred_at": MAY + timedelta(days=n // 3), "user_id": f"u{n % 3}"}
        for n in range(7)
    )  # fmt: skip
    await store.store_memory("p2", "a", "elsewhere")
    memory_ids, after = [], None
    while True:
        page = await store.list_memories("p1", limit=3, after=after)
        memory_ids += [memory.memory_id for memory in page]
        after = page.next
        if after is None:
            break
    assert memory_ids == ["m6", "m3", "m4", "m5", "m0", "m1", "m2"]
    assert [memory.memory_id for memory in await store.list_memories("p1", interaction_types=["b"], user_id="u0")] == [
        "m3"
    ]
    for wrong in ("", "yesterday", "2026-05-01 m"):
        with pytest.raises(InvalidRequestError, match="`next`"):
            await store.list_memories("p1", after=wrong)
    with pytest.raises(InvalidLimitError):
        await store.list_memories("p1", limit=0)


async def test_many_are_stored_together_and_again_without_change(store: MemoryStore) -> None:
    """A repetition under the same ids changes nothing."""
    many = [
        {"project_id": "p1", "interaction_type": "t", "content": f"note {n}", "memory_id": f"m{n}",
         "linked_paper_ids": [f"x{n}"], "occurred_at": MAY}
        for n in range(30)
    ]  # fmt: skip
    report = await store.store_memories(many)
    again = await store.store_memories(many)

    assert (report.added, report.embedded) == (30, 30)
    assert (again.added, again.changed, again.unchanged) == (0, 0, 30)
    assert (await store.get_memory("m7")).links == {"papers": ("x7",)}


async def test_tenants_and_collections_keep_apart(store: MemoryStore, platform: Platform) -> None:
    """A memory of another collection is not there."""
    await store.store_memory("p1", "t", "words", memory_id="m")
    assert await MemoryStore(platform, "others").get_memories(["m"]) == {}


async def test_changes_at_once_are_all_kept(store: MemoryStore) -> None:
    """Two that change different fields of one memory, and one that rates it."""
    await store.store_memory("p1", "t", "words", memory_id="m")
    await asyncio.gather(
        store.update_memory("m", summary="s"),
        store.update_memory("m", links={"papers": ["x"]}),
        store.update_memory("m", occurred_at=MAY),
        store.set_relevance("m", 0.5),
    )
    memory = await store.get_memory("m")
    assert (memory.summary, memory.occurred_at, memory.relevance_score) == ("s", MAY, 0.5)
    assert memory.links == {"papers": ("x",)}


@not_on_a_cluster("a node looks for deadlocks at a time of its own, and may end either writer")
async def test_a_memory_is_forgotten_also_if_the_server_ended_the_first_attempt(
    store: MemoryStore, platform: Platform, database_url: str
) -> None:
    """Writers that create memories cannot lock them in order, and may wait for a memory that is being forgotten."""
    await store.store_memory("p1", "t", "words", memory_id="m")
    own = ((await (await platform.collection("memories")).refresh()).collection_id,)
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        # It looks for a deadlock late, so that the server ends the attempt to forget.
        await other.execute("SELECT set_config('deadlock_timeout', '20s', false)")
        await other.execute("SELECT set_config('search_path', %s, false)", (f'"{SCHEMA}", public, pg_temp',))
        await other.execute("SELECT FROM memories WHERE collection_id = %s FOR UPDATE", own)
        forget = asyncio.create_task(store.forget("m"))
        await asyncio.sleep(0.5)
        await other.execute("SELECT FROM items WHERE collection_id = %s FOR UPDATE", own)
        await other.commit()
        await forget
    assert await store.get_memories(["m"]) == {}


async def test_the_history_of_a_memory_that_is_stored_meanwhile_is_there(store: MemoryStore) -> None:
    """The first look found none, the second one does."""
    find = store.histories

    async def look(memory_ids: Sequence[str]) -> dict[str, tuple[Memory, ...]]:
        found = await find(memory_ids)
        await store.store_memory("p1", "t", "words", memory_id="m")
        return found

    store.histories = look  # type: ignore[method-assign]
    assert [memory.text for memory in await store.history("m")] == ["words"]


async def test_a_memory_that_is_stored_again_is_not_mixed_with_a_change(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text is unchanged when it is compared; another caller changes text and links before links are stored."""
    memory: dict[str, Any] = {
        "project_id": "p1", "interaction_type": "t", "content": "words", "memory_id": "m", "occurred_at": MAY,
    }  # fmt: skip
    await store.store_memory(**memory)
    changes: list[asyncio.Task[Memory]] = []

    async def compared(*arguments: Any) -> Any:
        monkeypatch.setattr("retrieval.services.memories.stored_hashes", stored_hashes)
        hashes = await stored_hashes(*arguments)
        changes.append(asyncio.create_task(store.update_memory("m", content="other", links={"papers": ["other"]})))
        await asyncio.wait(changes, timeout=1)
        return hashes

    monkeypatch.setattr("retrieval.services.memories.stored_hashes", compared)
    await store.store_memory(**memory, links={"papers": ["own"]}, duplicates="keep")
    await asyncio.gather(*changes)
    stored = await store.get_memory("m")
    assert (stored.text, stored.links) == ("other", {"papers": ("other",)})


async def test_memories_without_await_need_a_platform_without_await(platform: Platform) -> None:
    """The message says which one."""
    for kind in (retrieval.sync.MemoryStore, retrieval.sync.RetrievalEngine):
        with pytest.raises(InvalidRequestError, match="without await"):
            kind(platform)  # type: ignore[arg-type]
