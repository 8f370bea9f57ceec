"""Declared attributes: declared, taken back, and kept with the items that are written, archived and deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retrieval import Collection, Item, Platform, connect
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items import collections as stored_collections
from retrieval.adapters.store.items import items
from retrieval.adapters.store.items.items import ItemWrite, write_items
from retrieval.domain.errors import InvalidFilterError, InvalidRequestError, UnknownFieldError
from retrieval.domain.items.attribute import AttributeType
from tests.support.database import until_somebody_waits

TABLES = ("item_tags", "attribute_values")
ALL = {"priority": "text", "hours": "number", "late": "boolean", "due": "time"}


def _item(item_id: str, **attributes: Any) -> Item:
    return Item(item_id=item_id, title="some words", tags=("x",), attributes=attributes)


def _complete_item(item_id: str) -> Item:
    return _item(item_id, priority="High", hours=9, late=True, due="2024-05-01T12:00+02:00")


async def _rows(platform: Platform, collection: Collection) -> dict[str, int]:
    number = (await collection.refresh()).collection_id
    counts = {}
    for table in TABLES:
        statement = Compiled(f"SELECT count(*) FROM {table} WHERE collection_id = {number}")  # noqa: S608
        counts[table] = (await platform.database.read(platform.tenant_id, statement))[0][0]
    return counts


async def _matching_ids(collection: Collection, **where: Any) -> list[str]:
    return sorted(hit.item_id for hit in await collection.search("words", where=where, limit=100))


async def test_declaring_indexes_the_items_that_are_there(platform: Platform) -> None:
    """Items that are added later are indexed too; ``info`` shows the declaration."""
    collection = await platform.collection("docs")
    await collection.add([_complete_item("1"), _item("2", priority="Low", hours=10)])
    assert await _rows(platform, collection) == dict(zip(TABLES, (2, 0), strict=True))
    await collection.make_filterable(ALL)
    await collection.add([_complete_item("3")])
    assert await _rows(platform, collection) == dict(zip(TABLES, (3, 10), strict=True))
    assert (await collection.info()).filterable == ALL
    assert await _matching_ids(collection, priority="High") == ["1", "3"]
    assert await _matching_ids(collection, hours={"gt": 9}) == ["2"]
    assert await _matching_ids(collection, late=True, due={"lte": "2024-05-01T10:00Z"}) == ["1", "3"]


async def test_declaring_again_changes_nothing_and_another_type_is_refused(platform: Platform) -> None:
    """The message contains the command that changes the type; repeating a declaration changes nothing."""
    collection = await platform.collection("docs", filterable={"hours": "number"})
    await platform.collection("docs", filterable={"hours": "number", "priority": "text"})
    assert (await collection.info()).filterable == {"hours": "number", "priority": "text"}
    with pytest.raises(InvalidRequestError, match=r"number, not as text.* filterable docs --drop hours hours:text"):
        await collection.make_filterable({"hours": "text", "more": "text"})
    assert (await collection.info()).filterable == {"hours": "number", "priority": "text"}
    await collection.make_filterable({}, drop=["hours"])
    await collection.make_filterable({"hours": "text"})
    assert (await collection.info()).filterable == {"hours": "text", "priority": "text"}


async def test_archived_items_match_by_a_declared_time_as_without(platform: Platform) -> None:
    """The index of declared times has no archived items; their texts are read."""
    collection = await platform.collection("docs")
    await collection.add([_complete_item("1"), _item("2", due=["soon", "2024-05-01T10:00Z"]), _item("3", due="soon")])
    for item_id in ("1", "2", "3"):
        await collection.patch(item_id, {"status": "archived"})
    await collection.make_filterable({"due": "time"})

    async def archived(due: Any) -> list[str]:
        return [item.item_id async for item in collection.scan({"status": "archived", "due": due})]

    assert await archived("2024-05-01T10:00Z") == ["1", "2"]
    assert await archived({"gte": "2024-05-01"}) == ["1"]
    assert await archived({"ne": "2024-05-01T10:00Z"}) == ["3"]


async def test_a_dropped_declaration_is_indexed_while_others_may_use_it(platform: Platform) -> None:
    """A search that has read the declaration finds what was written since; nothing is left after it was cleared."""
    collection = await platform.collection("docs", filterable={"priority": "text", "hours": "number"})
    await collection.add([_item("1", priority="High", hours=1), _item("2", priority="Low", hours=1)])
    number = (await collection.refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        await stored_collections.undeclare_attributes(connection, number, ["priority"])
    await collection.put(_item("1", priority="High", hours=2))
    await collection.put(_item("2", priority="High", hours=2))
    indexed = Compiled("SELECT item_id FROM attribute_values WHERE as_text = 'High' ORDER BY item_id")
    assert await platform.database.read(platform.tenant_id, indexed) == [("1",), ("2",)]
    assert set((await collection.info()).filterable) == {"hours"}
    async with platform.database.transaction(platform.tenant_id) as connection:
        await stored_collections.clear_undeclared(connection, number, ["priority"])
    assert (await _rows(platform, collection))["attribute_values"] == 2


async def test_removed_declarations_leave_no_row_and_filters_still_work(platform: Platform) -> None:
    """An attribute that no item ever had is unknown again; a name that was not declared is not an error."""
    collection = await platform.collection("docs", filterable={**ALL, "never": "text"})
    await collection.add([_complete_item("1")])
    assert await _matching_ids(collection, never="x") == []
    await collection.make_filterable({}, drop=[*ALL, "never", "nothing"])
    assert await _rows(platform, collection) == dict(zip(TABLES, (1, 0), strict=True))
    assert await _matching_ids(collection, priority="High", hours=9, late=True) == ["1"]
    with pytest.raises(UnknownFieldError):
        await _matching_ids(collection, never="x")


@pytest.mark.parametrize("kind", ["texts", "", None, 3])
async def test_a_type_that_there_is_not_is_refused(platform: Platform, kind: Any) -> None:
    """The message lists the types, and no collection is created."""
    with pytest.raises(InvalidRequestError, match="here are: text, number, boolean, time"):
        await platform.collection("docs", filterable={"hours": kind})
    assert await platform.collections() == []


async def test_values_of_another_type_are_refused_in_a_filter_and_kept_in_an_item(platform: Platform) -> None:
    """A filter that can match nothing is a mistake; an item that differs is found by its other fields."""
    collection = await platform.collection("docs", filterable=ALL)
    await collection.add([_complete_item("1"), _item("2", priority=3, hours="many", late="yes", due="soon")])
    assert await _matching_ids(collection, hours={"gte": 0}) == ["1"]
    assert await _matching_ids(collection, tags="x") == ["1", "2"]
    for where in ({"hours": "many"}, {"priority": 3}, {"late": "yes"}, {"due": {"gt": "soon"}}):
        with pytest.raises(InvalidFilterError, match="is filterable as"):
            await _matching_ids(collection, **where)


async def test_comparing_values_of_two_types_by_order_is_refused_without_a_declaration(platform: Platform) -> None:
    """Nothing could be found by it. Equality is not refused: two types are simply not equal."""
    collection = await platform.collection("docs")
    await collection.add([_item("1", n=3, s="x", late=True, both=1, many=[1]), _item("2", n=4, both="z", many=[2])])
    for where in ({"n": {"gte": "abc"}}, {"s": {"lt": 5}}, {"late": {"gt": 1}}, {"not": {"n": {"lt": "2024-05-01"}}}):
        with pytest.raises(InvalidFilterError, match=r"cannot be compared by order with .*: its values are"):
            await _matching_ids(collection, **where)
        with pytest.raises(InvalidFilterError, match="by order"):
            await collection.page(where)
    assert await _matching_ids(collection, n={"gte": 4}) == ["2"]
    assert await _matching_ids(collection, both={"gte": 1}) == ["1"]
    assert await _matching_ids(collection, both={"gte": "a"}) == ["2"]
    assert await _matching_ids(collection, many={"gte": 1}) == []
    assert await _matching_ids(collection, n="abc") == []
    stale = await platform.collection("docs")
    async with connect(settings=platform.settings) as elsewhere:
        await (await elsewhere.collection("docs")).add([_item("3", n="words")])
    assert await _matching_ids(stale, n={"gte": "abc"}) == ["3"], "what came a moment ago counts"


async def test_changed_archived_and_deleted_items_leave_the_indexes(platform: Platform) -> None:
    """An item is not found by values that it no longer has; a revived item is found by its values."""
    collection = await platform.collection("docs", filterable=ALL)
    await collection.add([_complete_item("1"), _complete_item("2"), _complete_item("3")])
    await collection.add([_item("1", priority=["Low", "High"], hours=1), Item(item_id="2", status="archived")])
    assert await _matching_ids(collection, priority="Low") == ["1"]
    assert await _matching_ids(collection, priority={"lt": "Z"}) == ["3"], "a list has no order"
    assert await _matching_ids(collection, hours=9) == ["3"]
    assert await collection.delete(["3"]) == 1
    assert await _rows(platform, collection) == dict(zip(TABLES, (1, 3), strict=True))
    await collection.add([_complete_item("2")])
    assert await _matching_ids(collection, late=True, tags="x") == ["2"]
    assert await collection.delete(["1", "2"]) == 2
    assert await _rows(platform, collection) == dict.fromkeys(TABLES, 0)


async def test_unchanged_values_are_not_written_again(platform: Platform) -> None:
    """A new text for an item leaves the rows of its tags and attributes as they are."""
    collection = await platform.collection("docs", filterable=ALL)
    await collection.add([_complete_item("1")])
    number = (await collection.refresh()).collection_id
    versions = Compiled(
        " UNION ALL ".join(f"SELECT xmin::text FROM {table} WHERE collection_id = {number}" for table in TABLES)  # noqa: S608
    )
    before = await platform.database.read(platform.tenant_id, versions)
    item = _complete_item("1")
    await collection.add([Item(item_id="1", title="other words", tags=item.tags, attributes=item.attributes)])
    assert await platform.database.read(platform.tenant_id, versions) == before
    assert len(before) == 5


async def test_a_writer_that_began_before_the_declaration_indexes_by_it(platform: Platform) -> None:
    """The second waits for the first, so no item is missed in either order."""
    collection = await platform.collection("docs")
    await collection.add([_complete_item("0")])
    number = (await collection.refresh()).collection_id
    for key, declared in (("1", {"hours": "number"}), ("2", {"priority": "text"})):
        async with platform.database.transaction(platform.tenant_id) as writer:
            await write_items(writer, ItemWrite(number, [_complete_item(key)]))
            declaring = asyncio.create_task(collection.make_filterable(declared))
            await until_somebody_waits(platform)
            assert not declaring.done()
        await declaring
    assert await _matching_ids(collection, hours=9) == ["0", "1", "2"]
    assert await _matching_ids(collection, priority="High") == ["0", "1", "2"]


async def test_a_writer_that_waits_for_a_declaration_indexes_by_it(platform: Platform) -> None:
    """Also when it brings the attribute that is being declared for the first time."""
    collection = await platform.collection("docs")
    await collection.add([_complete_item("0")])
    number = (await collection.refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as holder:
        await holder.execute("SELECT pg_advisory_xact_lock(writers_lock(%s))", (number,))
        declaring = asyncio.create_task(collection.make_filterable({"hours": "number", "fresh": "text"}))
        await until_somebody_waits(platform)
        writing = asyncio.create_task(collection.add([_item("1", hours=9, fresh="new", newer=1)]))
        await until_somebody_waits(platform, 2)
    await asyncio.gather(declaring, writing)
    assert await _matching_ids(collection, hours=9) == ["0", "1"]
    assert await _matching_ids(collection, fresh="new") == ["1"]


async def test_many_declarations_and_writers_at_once_agree(platform: Platform) -> None:
    """The writers do not deadlock, and each item is indexed by each attribute."""
    collection = await platform.collection("docs")
    names = [f"a{number}" for number in range(6)]

    async def write(number: int) -> None:
        await collection.add([_item(f"{number}-{part}", **dict.fromkeys(names, number)) for part in range(3)])

    async def declare(names: list[str]) -> None:
        await collection.make_filterable(dict.fromkeys(names, "number"))

    await asyncio.gather(
        *(write(number) for number in range(4)), declare(names[:4]), declare(names[:1:-1]), declare(names[1:])
    )
    assert (await _rows(platform, collection))["attribute_values"] == 6 * 12


@pytest.mark.parametrize("what", ["archive", "delete"])
async def test_items_are_removed_while_an_attribute_is_declared(platform: Platform, what: str) -> None:
    """The remover waits for the declaration before it holds its items: both come to an end."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": str(number), "text": "disk", "priority": "High"} for number in range(20)])
    stored = await collection.refresh()
    number = stored.collection_id

    is_declared = asyncio.Event()

    async def declare() -> None:
        async with platform.database.transaction(platform.tenant_id) as connection:
            await stored_collections.declare_attributes(connection, number, "docs", (("priority", AttributeType.TEXT),))
            is_declared.set()
            await until_somebody_waits(platform)

    async def remove() -> None:
        await is_declared.wait()
        place = CollectionPlace(platform.database, platform.tenant_id, number)
        await (items.archive_items if what == "archive" else items.remove_items)(place, ["3"])

    await asyncio.wait_for(asyncio.gather(declare(), remove()), 30)
    hits = await collection.search("disk", where={"priority": "High"}, limit=50)
    assert len(hits) == 19
    assert "3" not in {hit.item_id for hit in hits}
