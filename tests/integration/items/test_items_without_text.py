"""An item without title and text has no vector, waits for none, and is found by everything but its meaning."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from retrieval import Collection, Item, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.collection import handle_of
from retrieval.engine.reading import infos_after
from retrieval.jobs.registry import JOBS
from retrieval.jobs.run import run_job
from retrieval.services.items import set_status
from tests.support.jobs import target_of

WHEN = datetime(2026, 3, 1, tzinfo=UTC)
OWN = [1.0, *[0.0] * (HashingEmbedder().space.dimensions - 1)]
"""A caller's own vector."""


@pytest.fixture
async def photos(platform: Platform) -> Collection:
    """A photo with a text, and two without; spaces and line breaks are no text."""
    collection = await platform.collection("photos", filterable={"camera": "text"})
    report = await collection.add(
        [
            Item(item_id="described", title="Harbour", body="boats at night"),
            Item(item_id="bare", tags=("sea",), attributes={"camera": "x1"}, occurred_at=WHEN),
            Item(item_id="blank", title=" ", body="\n \n"),
        ]
    )
    assert (report.added, report.embedded, report.pending) == (3, 1, 0)
    return collection


async def with_vector(collection: Collection) -> set[str]:
    """The items of the collection that have a vector."""
    return set(await collection.embeddings(["described", "bare", "blank"]))


async def by_meaning(collection: Collection, query: str) -> set[str]:
    """The items that a search by meaning alone finds."""
    return {hit.item_id for hit in await collection.search(query, legs=["dense"], limit=10)}


async def test_only_items_with_a_text_are_found_by_meaning(photos: Collection) -> None:
    """However little the words of a query mean; the others are found by key, tag, filter and time."""
    assert await with_vector(photos) == {"described"}
    for query in ("boats at night", "qwxz vvkk", "?!"):
        assert await by_meaning(photos, query) == {"described"}

    assert (await photos.get(["bare"]))["bare"].tags == ("sea",)
    for where in ({"tags": "sea"}, {"camera": "x1"}, {"occurred_at": {"gte": WHEN}}, {"item_id": "bare"}):
        assert [hit.item_id for hit in await photos.search(where=where, legs=["recent"])] == ["bare"], where
        assert [row.item.item_id for row in await photos.page(where)] == ["bare"], where


async def test_nothing_counts_them_as_waiting(platform: Platform, photos: Collection) -> None:
    """Neither the collection, nor its status, nor the job, nor the doctor, nor the notes of a search."""
    target = await target_of(platform, photos)
    assert (await photos.info()).pending == 0
    infos = await infos_after(platform.database, platform.tenant_id, after="", limit=10)
    statuses = await platform.statistics()
    assert ([info.pending for info in infos], [status.pending for status in statuses]) == ([0], [0])
    assert not await JOBS["embed"].is_needed(platform.workplace, target)
    assert (await run_job(platform.workplace, JOBS["embed"], target)).details == {"embedded": 0, "pending": 0}
    findings = (await platform.doctor("photos", deep=True)).findings
    assert not [finding for finding in findings if finding.check in ("pending", "deep vectors")]
    answer = await photos.search("sea", legs=["dense", "lexical", "tagged"], tags=["sea"], limit=10)
    assert "bare" in {hit.item_id for hit in answer}
    assert not [note for note in answer.notes if "vector" in note]


async def test_a_vector_comes_and_goes_with_the_text(photos: Collection) -> None:
    """By each call that changes an item; a search by meaning never meets the vector of a text that is gone."""
    await photos.patch("bare", {"text": "waves"})
    assert await with_vector(photos) == {"described", "bare"}
    await photos.patch("bare", {"text": ""})
    assert await with_vector(photos) == {"described"}

    await photos.put(Item(item_id="blank", body="fog"))
    await photos.add([Item(item_id="described"), Item(item_id="bare", body="waves again")])
    assert await with_vector(photos) == {"bare", "blank"}
    await photos.change(["bare", "blank"], lambda item_id, _: Item(item_id=item_id))
    assert await with_vector(photos) == set()
    assert await by_meaning(photos, "waves") == set()
    assert (await photos.info()).pending == 0


async def test_archiving_and_back_gives_no_vector_either(photos: Collection) -> None:
    """An item without text that is active again still waits for none."""
    for status in ("archived", "active"):
        assert await set_status(handle_of(photos), "bare", status)
    assert (await with_vector(photos), (await photos.info()).pending) == ({"described"}, 0)


async def test_a_callers_own_vector_of_such_an_item_is_used_until_its_text_changes(photos: Collection) -> None:
    """Other changes keep it."""
    await photos.add([Item(item_id="bare", tags=("sea",))], embeddings=[OWN])
    assert await by_meaning(photos, "qwxz vvkk") == {"described", "bare"}
    await photos.patch("bare", {"tags": ["harbour"]})
    assert (await photos.embeddings(["bare"]))["bare"].tolist() == OWN
    await photos.add([Item(item_id="described", body="boats")], embeddings=[OWN])
    await photos.patch("described", {"text": ""})
    assert await with_vector(photos) == {"bare"}


async def test_another_space_is_full_without_them(photos: Collection, database_url: str, settings: Settings) -> None:
    """A re-embedding neither counts nor waits for them, and a text that goes leaves both spaces."""
    async with connect(database_url, settings=settings, embedder=HashingEmbedder(seed=1)) as moving:
        assert (await moving.reembed_cost("photos")).items == 1
        assert (await moving.reembed("photos")).pending == 1
        assert (await moving.reembedding("photos", "run")).pending == 0
        await photos.patch("described", {"title": "", "text": ""})
        assert await with_vector(photos) == set()
        switched = await moving.reembedding("photos", "switch")
        assert (switched.state.value, switched.pending) == ("switched", 0)
        assert await with_vector(await moving.collection("photos")) == set()


async def test_a_callers_own_vector_of_such_an_item_stays_in_its_space(
    photos: Collection, database_url: str, settings: Settings
) -> None:
    """The cost says so before the start, and the state until the former space is removed, or a vector is given."""
    await photos.add([Item(item_id="bare"), Item(item_id="blank")], embeddings=[OWN, OWN])
    async with connect(database_url, settings=settings, embedder=HashingEmbedder(seed=1)) as moving:
        assert (await moving.reembed_cost("photos")).without_text == 2
        assert (await moving.reembed("photos")).without_text == 2
        await moving.reembedding("photos", "run")
        assert (await moving.reembedding("photos", "switch")).without_text == 2
        await (await moving.collection("photos")).add([Item(item_id="bare")], embeddings=[OWN])
        assert (await moving.reembedding("photos")).without_text == 1


async def test_a_moved_collection_has_as_many_vectors(platform: Platform, photos: Collection, tmp_path: Path) -> None:
    """A caller's own vector moves along."""
    await photos.add([Item(item_id="blank")], embeddings=[OWN])
    file = str(tmp_path / "photos.jsonl")
    exported = await platform.export_collection("photos", file)
    moved = await platform.import_collection(file, name="copy")
    assert (exported.vectors, moved.vectors, moved.items) == (2, 2, 3)
    copy = await platform.collection("copy")
    assert (await with_vector(copy), (await copy.info()).pending) == ({"described", "blank"}, 0)
