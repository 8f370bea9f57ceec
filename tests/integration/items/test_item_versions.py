"""Single items with their versions: no update is lost, with any number of writers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
import pytest_asyncio

from retrieval import Collection, Item, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.collection import handle_of
from retrieval.domain.errors import (
    InvalidItemError,
    InvalidLimitError,
    InvalidRequestError,
    UnknownItemError,
    VersionConflictError,
)
from retrieval.domain.items.item import Became, StoredItem
from retrieval.services import change
from retrieval.services.add import AddReport, Writer
from retrieval.services.items import add_each, set_status, writer_of
from tests.support.database import SCHEMA

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(database_url: str) -> AsyncIterator[Platform]:
    """A platform of this module's tenant."""
    settings = Settings(tenant=f"versions-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none", pool_size=8)
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def docs(platform: Platform) -> Collection:
    """A collection to write into."""
    return await platform.collection("docs")


async def test_a_version_changes_with_the_item_and_with_nothing_else(docs: Collection) -> None:
    """Also where content comes back that was there before; reading and repeating change nothing."""
    first = await docs.put(Item(item_id="v", title="one"))
    again = await docs.put({"_id": "v", "title": "one"})
    second = await docs.put(Item(item_id="v", title="two"))
    third = await docs.put(Item(item_id="v", title="one"))

    assert [write.became for write in (first, again, second, third)] == [
        Became.ADDED, Became.UNCHANGED, Became.CHANGED, Became.CHANGED,
    ]  # fmt: skip
    assert again.version == first.version
    assert len({first.version, second.version, third.version}) == 3
    assert first.created_at == third.created_at < second.updated_at < third.updated_at
    stored = (await docs.stored(["v", "missing"]))["v"]
    assert (stored.item, stored.version, stored.became) == (third.item, third.version, None)
    assert await set_status(handle_of(docs), "v", "archived")
    assert (await docs.stored(["v"]))["v"].version != third.version


async def test_numbers_that_the_database_writes_in_another_way_are_unchanged(docs: Collection) -> None:
    """JSON of PostgreSQL has no -0.0, and reads 1e22 as an integer; the same item again is the same item."""
    item = Item(item_id="numbers", attributes={"zero": -0.0, "large": 1e22})
    first, again = await docs.put(item), await docs.put(item)
    in_version = await docs.put(item, version=first.version)
    assert [again.became, in_version.became] == [Became.UNCHANGED] * 2
    assert again.version == in_version.version == first.version


async def test_an_item_that_is_put_is_found_by_its_words_and_its_meaning(docs: Collection) -> None:
    """As one that was added; one that is archived is found no more."""
    await docs.put(Item(item_id="found", title="a zebra crosses"))
    [hit] = await docs.search("zebra", limit=1)
    assert [part.leg for part in hit.explanation.contributions] == ["dense", "lexical"]

    await docs.put(Item(item_id="found", title="a zebra crosses", status="archived"))
    assert "found" not in [hit.item_id for hit in await docs.search("zebra")]
    assert "found" not in await docs.embeddings(["found"])


async def test_a_write_takes_place_only_in_the_version_that_it_names(docs: Collection) -> None:
    """A write can also require that the item exists, or that it does not; otherwise nothing changes."""
    first = await docs.put(Item(item_id="c", title="one"), version="")
    with pytest.raises(VersionConflictError, match="already exists"):
        await docs.put(Item(item_id="c", title="other"), version="")
    second = await docs.put(Item(item_id="c", title="two"), version=first.version)
    for version in (first.version, ""):
        with pytest.raises(VersionConflictError):
            await docs.put(Item(item_id="c", title="three"), version=version)
        with pytest.raises(VersionConflictError):
            await docs.patch("c", {"title": "three"}, version=version)
        with pytest.raises(VersionConflictError):
            await docs.delete("c", version=version)
    with pytest.raises(VersionConflictError, match="does not exist"):
        await docs.put(Item(item_id="none"), version="*")

    assert (await docs.stored(["c", "none"])) == {"c": _read(second)}
    assert (await docs.put(Item(item_id="c", title="three"), version="*")).became is Became.CHANGED


def _read(stored: StoredItem) -> StoredItem:
    """The item as it is read."""
    return replace(stored, became=None)


async def test_of_those_who_put_the_same_version_at_once_one_does(docs: Collection) -> None:
    """The others get a conflict, so no update is lost."""
    start = await docs.put(Item(item_id="race", title="start"))
    names = [f"writer {number}" for number in range(6)]

    outcomes = await asyncio.gather(
        *(docs.put(Item(item_id="race", title=name), version=start.version) for name in names), return_exceptions=True
    )

    writes = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert len(writes) == 1
    assert {type(outcome) for outcome in outcomes if isinstance(outcome, BaseException)} == {VersionConflictError}
    assert (await docs.stored(["race"]))["race"].item == writes[0].item


async def test_of_those_who_add_the_same_item_at_once_one_does(docs: Collection) -> None:
    """Also where neither saw the other's when it looked."""
    outcomes = await asyncio.gather(
        *(docs.put(Item(item_id="new", title=f"writer {number}"), version="") for number in range(6)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, VersionConflictError) for outcome in outcomes) == 5
    assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) == 1


@pytest.mark.parametrize(("title", "became"), [("other", Became.CHANGED), ("mine", Became.UNCHANGED)])
async def test_an_item_that_another_caller_adds_after_the_check_is_not_new(
    docs: Collection, monkeypatch: pytest.MonkeyPatch, title: str, became: Became
) -> None:
    """Over HTTP only one of them is told 201."""
    first: list[AddReport] = []

    async def check(writer: Writer, _: Sequence[Item]) -> None:
        monkeypatch.undo()
        first.append(await writer.add([Item(item_id=title, title=title)]))

    writer = await writer_of(handle_of(docs))
    monkeypatch.setattr(Writer, "check", check)
    stored, report = await change.put(writer, title, lambda _: Item(item_id=title, title="mine"), None)
    assert (first[0].added, stored.became) == (1, became)
    assert (report.added, report.changed + report.unchanged) == (0, 1)


async def test_patches_at_once_are_all_there_afterwards(docs: Collection) -> None:
    """Each patch changes its own members and keeps those of the others."""
    await docs.put(Item(item_id="p", title="title", body="body", attributes={"gone": 1, "kept": {"a": 1, "b": 2}}))

    await asyncio.gather(*(docs.patch("p", {"attributes": {f"n{number}": number}}) for number in range(6)))
    stored = await docs.patch(
        "p",
        {"title": None, "tags": ["x"], "attributes": {"gone": None, "kept": {"a": None}}, "occurred_at": "2024-05-31"},
    )

    assert stored.item.attributes == {"kept": {"b": 2}, **{f"n{number}": number for number in range(6)}}
    assert (stored.item.title, stored.item.body, stored.item.tags) == ("", "body", ("x",))
    assert stored.item.occurred_at is not None
    with pytest.raises(InvalidItemError, match="tags must be a list"):
        await docs.patch("p", {"tags": "x"})
    with pytest.raises(UnknownItemError, match="there is no item 'nowhere'"):
        await docs.patch("nowhere", {"title": "t"})


async def test_an_item_is_removed_once(docs: Collection) -> None:
    """The call returns whether the item existed."""
    stored = await docs.put(Item(item_id="r", title="a rhinoceros"))
    assert await docs.delete("r", version=stored.version)
    assert not await docs.delete("r")
    assert await docs.stored(["r"]) == {}
    assert [hit.item_id for hit in await docs.search("rhinoceros", legs=["lexical"])] == []
    with pytest.raises(VersionConflictError):
        await docs.delete("r", version=stored.version)


async def test_pages_follow_one_another(platform: Platform) -> None:
    """They have the order of the keys, with versions, and match the filter; archived items come on request."""
    own = await platform.collection("pages")
    await own.add([{"_id": f"{number:02}", "even": number % 2 == 0} for number in range(9)])
    await own.put(Item(item_id="old", status="archived"))

    pages, after = [], ""
    while page := await own.page({"even": True}, after=after, limit=2):
        pages.append([stored.item.item_id for stored in page])
        after = page[-1].item.item_id

    assert pages == [["00", "02"], ["04", "06"], ["08"]]
    [first] = await own.page(limit=1)
    assert first == (await own.stored(["00"]))["00"]
    assert [stored.item.item_id for stored in await own.page({"status": "archived"})] == ["old"]
    with pytest.raises(InvalidLimitError):
        await own.page(limit=1001)
    with pytest.raises(InvalidRequestError):
        await own.page(after="\x00")


async def test_each_of_many_items_has_its_outcome(platform: Platform) -> None:
    """A bad one holds up no other, and the same ones again are unchanged."""
    own = await platform.collection("each")
    new_items: list[Item | dict[str, str]] = [
        {"_id": "a", "text": "one"},
        {"text": "no id"},
        Item(item_id="b"),
        {"_id": "a", "text": "two"},
    ]

    first = await add_each(handle_of(own), new_items, more=True)
    again = await add_each(handle_of(own), [new_items[3], new_items[2]])

    assert [(outcome.item_id, outcome.became) for outcome in first.outcomes] == [
        ("a", Became.ADDED), (None, None), ("b", Became.ADDED), ("a", Became.CHANGED),
    ]  # fmt: skip
    assert isinstance(first.outcomes[1].error, InvalidItemError)
    assert (first.report.added, first.report.embedded) == (2, 1), "one of them has no text"
    assert [outcome.became for outcome in again.outcomes] == [Became.UNCHANGED] * 2
    assert (await own.get(["a"]))["a"].body == "two"
    assert (await add_each(handle_of(own), [])).outcomes == ()
