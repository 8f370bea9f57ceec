"""Items are listed by their last change and by the lists they contain, and changed as a function of their state."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from retrieval import Collection, Item, Platform
from retrieval.collection import handle_of
from retrieval.domain.errors import InvalidItemError, InvalidLimitError, UnknownFieldError
from retrieval.engine.reading import latest, paths
from tests.support.cluster import not_on_a_cluster
from tests.support.database import SCHEMA

_COPY_ITEM = """
    INSERT INTO items
        (collection_id, item_id, kind, title, body, tags, attributes, status, source, content_hash, text_hash)
    SELECT collection_id, '0', kind, title, body, tags, attributes, status, source, content_hash, text_hash
    FROM items WHERE collection_id = %s AND item_id = '1'
"""


@pytest.fixture
async def notes(platform: Platform) -> Collection:
    """A collection of three items, the last of them archived."""
    collection = await platform.collection("notes")
    for number, (path, status) in enumerate(
        [(["a", "b"], "active"), (["a", "é", "c"], "active"), (["z"], "archived")], 1
    ):
        await collection.add(
            [Item(item_id=str(number), body=f"note {number}", attributes={"path": path}, status=status)]
        )
    return collection


def increment(_: str, item: Item | None) -> Item:
    """One more than the item says."""
    before = 0 if item is None else item.attributes["n"]
    return Item(item_id="counter", body="counts", attributes={"n": before + 1})


async def test_the_last_changed_comes_first(notes: Collection) -> None:
    """Pages by offset, archived items apart; a filter says of which."""
    await notes.add([Item(item_id="1", body="note 1, again", attributes={"path": ["a", "b"]})])

    assert [change.item.item_id for change in await latest(handle_of(notes))] == ["1", "2"]
    assert [change.item.item_id for change in await latest(handle_of(notes), limit=1, offset=1)] == ["2"]
    assert [change.item.item_id for change in await latest(handle_of(notes), {"path": "é"})] == ["2"]
    assert await latest(handle_of(notes), limit=0) == []
    [first, second] = await latest(handle_of(notes))
    assert first.created_at < second.created_at < first.updated_at


async def test_lists_come_in_the_order_of_their_elements(notes: Collection) -> None:
    """Each list appears once, cut to the given depth; a text that looks like a list is not one."""
    more = [["a"], ["a", "b"], ["ab"], ["a!"], ["A", "b"], ["a", "b", "1"], []]
    await notes.add([Item(item_id=f"m{place}", attributes={"path": path}) for place, path in enumerate(more)])
    await notes.add([Item(item_id="none", attributes={"path": "a"})])

    every = [("A", "b"), ("a",), ("a", "b"), ("a", "b", "1"), ("a", "é", "c"), ("a!",), ("ab",)]
    assert await paths(handle_of(notes), "path") == [(), *every]
    assert await paths(handle_of(notes), "path", depth=1) == [(), ("A",), ("a",), ("a!",), ("ab",)]
    assert await paths(handle_of(notes), "path", limit=2, offset=3) == every[2:4]
    assert await paths(handle_of(notes), "path", where={"/path/1": "b"}) == [("A", "b"), ("a", "b"), ("a", "b", "1")]


async def test_a_page_that_cannot_be_is_refused(notes: Collection) -> None:
    """Limits, offsets and attributes that there are not."""
    for page in ({"limit": -1}, {"offset": -1}, {"limit": 10_001}, {"limit": True}):
        with pytest.raises(InvalidLimitError, match="whole number"):
            await latest(handle_of(notes), **page)
    with pytest.raises(InvalidLimitError, match="depth is -1"):
        await paths(handle_of(notes), "path", depth=-1)
    with pytest.raises(UnknownFieldError, match="did you mean 'path'"):
        await paths(handle_of(notes), "paht")


async def test_no_change_is_lost_however_many_make_one(platform: Platform) -> None:
    """Each change sees what the previous one left, also if it began before there was an item; one of them added it."""
    collection = await platform.collection("counters")

    reports = await asyncio.gather(*(collection.change(["counter"], increment) for _ in range(7)))

    assert (await collection.get(["counter"]))["counter"].attributes["n"] == 7
    assert sorted((report.written.added, report.written.changed) for report in reports) == [(0, 1)] * 6 + [(1, 0)]


async def test_all_changes_are_made_or_none(notes: Collection) -> None:
    """An item is put, one is deleted, one stays; a failure leaves everything unchanged."""

    def decide(item_id: str, item: Item | None) -> Item | None:
        return {"1": None, "2": item, "new": Item(item_id="new", body="fresh words")}[item_id]

    before = await notes.stored(["2"])
    report = await notes.change(["1", "2", "new"], decide)

    assert (report.written.added, report.written.changed, report.written.embedded, report.removed) == (1, 0, 1, 1)
    assert await notes.stored(["1", "2"]) == before
    assert [hit.item_id for hit in await notes.search("fresh", legs=["lexical"])] == ["new"]
    with pytest.raises(InvalidItemError, match="cannot become another one"):
        await notes.change(["2", "new"], lambda key, _: None if key == "2" else Item(item_id="other"))
    assert set(await notes.get(["2", "new", "other"])) == {"2", "new"}


@not_on_a_cluster("a node looks for deadlocks at a time of its own, and may end either writer")
async def test_a_change_that_the_server_ended_is_made_again(notes: Collection, database_url: str) -> None:
    """Another writer has created "0" and waits for "1", which the change has locked before it creates "0" too."""
    fresh = {key: Item(item_id=key, body=f"fresh {key}") for key in ("0", "1")}
    own = handle_of(notes).stored.collection_id
    asked: list[str] = []
    with psycopg.connect(database_url) as other, ThreadPoolExecutor(1) as thread:
        # It looks for a deadlock at once, so that the server ends the change.
        other.execute("SELECT set_config('deadlock_timeout', '10ms', false)")
        other.execute("SELECT set_config('search_path', %s, false)", (f'"{SCHEMA}", public, pg_temp',))
        other.execute(_COPY_ITEM, (own,))

        def finish() -> None:
            other.execute("UPDATE items SET source = 'other' WHERE collection_id = %s AND item_id = '1'", (own,))
            other.commit()

        def decide(item_id: str, _: Item | None) -> Item:
            asked.append(item_id)
            if len(asked) == 1:
                thread.submit(finish)
                time.sleep(0.5)
            return fresh[item_id]

        await notes.change(list(fresh), decide)

    # Once more if the other writer's "0" was not committed when the second attempt looked for it.
    assert asked in (["0", "1"] * 2, ["0", "1"] * 3)
    assert await notes.get(list(fresh)) == fresh


_ADD_ATTRIBUTE = "INSERT INTO collection_attributes (collection_id, name, types) VALUES (%s, %s, '{number}')"


async def test_a_change_waits_for_another_writers_attribute_without_blocking_it(
    notes: Collection, database_url: str
) -> None:
    """All its items' attributes are stored in one order, whether the items are new or known."""
    own = handle_of(notes).stored.collection_id
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        # It looks for a deadlock at once, so that the server would end it.
        await other.execute("SELECT set_config('deadlock_timeout', '10ms', false)")
        await other.execute("SELECT set_config('search_path', %s, false)", (f'"{SCHEMA}", public, pg_temp',))
        await other.execute(_ADD_ATTRIBUTE, (own, "m"))
        changed = {"0": Item(item_id="0", attributes={"n": 1}), "1": Item(item_id="1", attributes={"m": 1})}
        change = asyncio.create_task(notes.change(list(changed), lambda item_id, _: changed[item_id]))
        await asyncio.sleep(0.5)
        await other.execute(_ADD_ATTRIBUTE, (own, "n"))
        await other.commit()
        await change
    assert await notes.get(["0", "1"]) == changed


@not_on_a_cluster("a node looks for deadlocks at a time of its own, and may end either writer")
async def test_a_patch_that_the_server_ended_is_made_again(notes: Collection, database_url: str) -> None:
    """Another writer has stored a new attribute and waits for the item to which the patch adds that attribute."""
    own = handle_of(notes).stored.collection_id
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        # It looks for a deadlock late, so that the server ends the patch.
        await other.execute("SELECT set_config('deadlock_timeout', '20s', false)")
        await other.execute("SELECT set_config('search_path', %s, false)", (f'"{SCHEMA}", public, pg_temp',))
        await other.execute(_ADD_ATTRIBUTE, (own, "n"))
        patch = asyncio.create_task(notes.patch("1", {"attributes": {"n": 1}}))
        await asyncio.sleep(0.5)
        await other.execute("UPDATE items SET source = 'other' WHERE collection_id = %s AND item_id = '1'", (own,))
        await other.commit()
        item = (await patch).item
    assert (item.source, item.attributes) == ("other", {"path": ["a", "b"], "n": 1})


@pytest.mark.parametrize("given", ["text", {"id": "1", "text": "x"}])
async def test_a_decision_is_an_item(notes: Collection, given: Any) -> None:
    """Or None; the error names the item."""
    with pytest.raises(InvalidItemError, match="for item '1'; it must return an Item"):
        await notes.change(["1"], lambda *_: given)


async def test_an_item_is_written_again_by_its_text(notes: Collection) -> None:
    """It is embedded where its words are new, and archived where it says so."""
    same = await notes.change(["1"], lambda _, item: item and replace(item, source="mail"))
    other = await notes.change(["1"], lambda _, item: item and replace(item, body="other words"))
    archived = await notes.change(["1"], lambda _, item: item and replace(item, status="archived"))

    assert [change.written.embedded for change in (same, other, archived)] == [0, 1, 0]
    assert await notes.embeddings(["1"]) == {}
    assert [change.item.item_id for change in await latest(handle_of(notes))] == ["2"]


async def test_attributes_change_without_the_time(notes: Collection) -> None:
    """They can be filtered by, declared or not, and nothing else can change so."""
    await notes.make_filterable({"seen": "number"})
    before = await notes.stored(["1", "2"])

    def seen(_: str, item: Item | None) -> Item | None:
        return item and replace(item, attributes={**item.attributes, "seen": 5, "by": "ada"})

    report = await notes.change(["1", "gone"], seen, keeps_time=True)

    after = await notes.stored(["1", "2"])
    assert report.written.changed == 1
    assert after["2"] == before["2"]
    assert after["1"].updated_at == before["1"].updated_at
    assert after["1"].version != before["1"].version
    for where in ({"seen": {"gt": 4}}, {"by": "ada"}):
        assert [hit.item_id for hit in await notes.search("note", where=where)] == ["1"]
    with pytest.raises(InvalidItemError, match="only attributes can change"):
        await notes.change(["1"], lambda _, item: item and replace(item, body="x"), keeps_time=True)
    with pytest.raises(InvalidItemError, match="nothing can be removed"):
        await notes.change(["1"], lambda *_: None, keeps_time=True)
