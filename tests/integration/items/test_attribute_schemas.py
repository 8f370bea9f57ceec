"""A collection with a JSON Schema of its attributes: every call refuses what does not fit, as it refuses others."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from retrieval import Collection, Item, Platform, Settings, connect, read_items
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.collection import handle_of
from retrieval.domain.errors import BadLineError, ConflictError, InvalidItemError, InvalidRequestError
from retrieval.services.items import add_each, add_new
from tests.support.database import SCHEMA as DATABASE_SCHEMA

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCHEMA = {
    "type": "object",
    "properties": {
        "priority": {"enum": ["High", "Low"]},
        "hours": {"type": "number", "minimum": 0, "maximum": 1e20},
        "owner": {"$ref": "#/$defs/person"},
    },
    "required": ["priority"],
    "$defs": {"person": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}
GOOD = {"id": "good", "text": "fits", "priority": "High", "hours": 3}
BAD = {"id": "bad", "text": "does not", "priority": "Urgent", "hours": -1}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(database_url: str) -> AsyncIterator[Platform]:
    """The platform of this module."""
    settings = Settings(tenant=f"schemas-{uuid.uuid4()}", database_schema=DATABASE_SCHEMA, embedder="none")
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def tickets(platform: Platform) -> AsyncIterator[Collection]:
    """A collection with the schema, empty."""
    await platform.remove_collection("tickets")
    yield await platform.collection("tickets", schema=SCHEMA)


async def stored_ids(collection: Collection) -> set[str]:
    """The ids of those items that are there."""
    return {item.item_id async for item in collection.scan()}


async def test_the_schema_is_kept(platform: Platform, tickets: Collection) -> None:
    """The same schema is accepted again, an omitted schema keeps it, and another schema is a conflict."""
    assert (await tickets.info()).schema == SCHEMA
    await platform.collection("tickets", schema=SCHEMA)
    assert (await (await platform.collection("tickets")).info()).schema == SCHEMA
    with pytest.raises(ConflictError, match="made with another schema, which stays"):
        await platform.collection("tickets", schema={"required": ["hours"]})
    await platform.remove_collection("free")
    assert (await (await platform.collection("free")).info()).schema is None
    with pytest.raises(ConflictError, match="made with no schema, which stays"):
        await platform.collection("free", schema=SCHEMA)


async def test_every_violation_is_named(tickets: Collection) -> None:
    """By attribute, on one line."""
    with pytest.raises(InvalidItemError) as caught:
        await tickets.add([{**BAD, "owner": {}}])
    assert str(caught.value) == (
        "item 'bad' does not fit the collection's schema: attribute 'hours': -1 is less than the minimum of 0; "
        "attribute 'owner': 'name' is a required property; attribute 'priority': 'Urgent' is not one of ['High', 'Low']"
    )
    assert caught.value.item_id == "bad"


async def test_nothing_is_added_where_one_item_does_not_fit(tickets: Collection) -> None:
    """The same holds of any invalid item; also in a call whose items are stored part by part."""
    many = [{**GOOD, "id": f"g{number}"} for number in range(2100)]
    for items in ([GOOD, BAD], [*many, BAD]):
        with pytest.raises(InvalidItemError, match="item 'bad' does not fit"):
            await tickets.add(items)
        assert await stored_ids(tickets) == set()
    with pytest.raises(InvalidItemError, match="item 'bad' does not fit"):
        await add_new(handle_of(tickets), BAD)
    assert await stored_ids(tickets) == set()
    assert (await tickets.add([GOOD])).added == 1


async def test_each_item_has_its_own_outcome(tickets: Collection) -> None:
    """The valid items are stored."""
    added = await add_each(handle_of(tickets), [GOOD, BAD, {"id": "none", "text": "no attributes"}])
    assert [outcome.error is None for outcome in added.outcomes] == [True, False, False]
    assert "attributes: 'priority' is a required property" in str(added.outcomes[2].error)
    assert await stored_ids(tickets) == {"good"}


async def test_bad_lines_of_files_are_reported_with_their_place(tickets: Collection, tmp_path: Path) -> None:
    """They stop the run, or are put aside while the others are stored."""
    file = tmp_path / "items.csv"
    file.write_text("id,text,priority,hours\ngood,fits,High,3\nbad,does not,Urgent,1\nlast,fits,Low,2\n")
    with pytest.raises(BadLineError, match=r"items.csv:3: item 'bad' does not fit .* 'Urgent' is not one of"):
        await tickets.ingest(read_items(file))
    rejected: list[Any] = []
    report = await tickets.ingest(read_items(file), rejected=rejected.append)
    assert (report.read, report.rejected, [line.line for line in rejected]) == (2, 1, [3])
    assert await stored_ids(tickets) == {"good", "last"}


async def test_changes_fit_too(tickets: Collection) -> None:
    """Put, patch and change leave the stored item unchanged."""
    await tickets.add([GOOD])
    before = (await tickets.stored(["good"]))["good"]
    with pytest.raises(InvalidItemError):
        await tickets.put({**GOOD, "priority": "Urgent"})
    with pytest.raises(InvalidItemError):
        await tickets.put({**GOOD, "priority": "Urgent"}, version=before.version)
    with pytest.raises(InvalidItemError):
        await tickets.patch("good", {"attributes": {"priority": None}})
    for keeps_time in (False, True):
        with pytest.raises(InvalidItemError):
            await tickets.change(["good"], _urgent, keeps_time=keeps_time)
    assert (await tickets.stored(["good"]))["good"] == before
    assert (await tickets.patch("good", {"attributes": {"priority": "Low"}})).item.attributes["priority"] == "Low"


def _urgent(_: str, item: Item | None) -> Item | None:
    return item and item.changed(attributes={"priority": "Urgent"})


async def test_documents_fit_too(tickets: Collection) -> None:
    """A document that does not fit is reported, and the others are stored."""
    report = await tickets.add_documents([
        {"id": "a", "text": "# A\nOne.", "metadata": {"priority": "High"}}, {"id": "b", "text": "# B\nTwo."},
    ])  # fmt: skip
    assert (report.added, [name for name, _ in report.failed]) == (1, ["b"])
    assert "'priority' is a required property" in report.failed[0][1]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (["priority"], "a schema is a JSON Schema of the attributes"),
        ({"type": "colour"}, "the schema is not a JSON Schema: 'colour' is not valid"),
        ({"type": "array"}, "attributes are an object"),
        ({"properties": {"a": {"$ref": "https://example.com/a.json"}}}, "put that into its $defs"),
        ({"properties": {"a": {"const": float("nan")}}}, "the schema is not a JSON Schema"),
        ({"description": "x" * 70_000}, "at most 65,536 bytes"),
        ({"description": "a\x00b"}, "no NUL"),
        ({"properties": {"a": {"const": object()}}}, "the schema is not a JSON Schema"),
        ({"properties": {"a": {"pattern": "("}}}, "the schema is not a JSON Schema"),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, "a schema has no 'pattern'"),
        ({"patternProperties": {"^x": {}}}, "no 'patternProperties'"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "'#/$defs/none', which is not in it"),
        ({"$ref": "#"}, "refers to itself endlessly"),
    ],
)
async def test_an_invalid_schema_is_refused(platform: Platform, schema: Any, message: str) -> None:
    """On one line, and no collection is made."""
    with pytest.raises(InvalidRequestError) as caught:
        await platform.collection("never", schema=schema)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "never" not in [collection.name for collection in await platform.collections()]


async def test_a_property_may_have_the_name_of_a_keyword(platform: Platform) -> None:
    """A value may hold one too: neither is read as a regular expression or a reference."""
    constant = {"pattern": "x", "$ref": "https://example.com/a.json"}
    schema = {"properties": {"pattern": {"type": "string"}, "b": {"const": constant}}}
    await platform.remove_collection("named")
    named = await platform.collection("named", schema=schema)
    report = await named.add([{"id": "1", "text": "x", "pattern": "stripes"}])
    assert report.added == 1
