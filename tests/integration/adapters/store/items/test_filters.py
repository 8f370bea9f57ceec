"""The filter language in the database means what it means in Python: a reference evaluator decides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
import sqlalchemy as sa
from hypothesis import given, reject
from hypothesis import settings as examples

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.compiled import compiled
from retrieval.adapters.store.items.conditions import condition
from retrieval.adapters.store.tables import items
from retrieval.collection import handle_of
from retrieval.domain.errors import IncomparableValueError
from retrieval.domain.search.filters import Filter, parse_where
from retrieval.engine.collection_search import leg_rankings
from tests.support.database import SCHEMA
from tests.support.filtering import ITEMS, matches, wheres


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(database_url: str) -> AsyncIterator[tuple[Platform, Collection]]:
    """A collection of the items."""
    settings = Settings(tenant="filters", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings, embedder=HashingEmbedder(16)) as platform:
        collection = await platform.collection("docs")
        await collection.add(ITEMS)
        await collection.refresh()
        yield platform, collection


async def _matching_ids(platform: Platform, collection: Collection, filter_: Filter) -> set[str]:
    number = (await collection.refresh()).collection_id
    statement = sa.select(items.c.item_id).where(
        items.c.collection_id == sa.literal_column(str(number)), condition(filter_, number)
    )
    return {row[0] for row in await platform.database.read(platform.tenant_id, compiled(statement))}


@pytest.mark.asyncio(loop_scope="module")
@examples(max_examples=150)
@given(where=wheres)
async def test_a_filter_finds_what_the_reference_finds(
    opened: tuple[Platform, Collection], where: Mapping[str, Any]
) -> None:
    """Equality and order by type, lists, absence, tags, times, and every way of putting them together."""
    filter_ = parse_where(where)
    assert filter_ is not None
    assert await _matching_ids(*opened, filter_) == {item.item_id for item in ITEMS if matches(item, filter_)}


@pytest.mark.asyncio(loop_scope="module")
@examples(max_examples=40)
@given(where=wheres)
async def test_every_leg_searches_among_the_matching_items_and_all_of_them(
    opened: tuple[Platform, Collection], where: Mapping[str, Any]
) -> None:
    """Both legs return exactly the items that match, when there is room."""
    filter_ = parse_where(where)
    assert filter_ is not None
    expected = {item.item_id for item in ITEMS if matches(item, filter_)}
    try:
        rankings = await leg_rankings(handle_of(opened[1]), "any words", where=where, depth=1000)
    except IncomparableValueError:
        # No item has a value of "deep" that is ordered; other parts of the filter may match items.
        reject()
    assert {leg: {row.item_id for row in rows} for leg, rows in rankings.items()} == {
        "dense": expected,
        "lexical": expected,
    }


@pytest.mark.asyncio(loop_scope="module")
async def test_numbers_are_ordered_as_numbers_and_never_equal_texts(opened: tuple[Platform, Collection]) -> None:
    """9 < 10, "9" > "10", and neither has to do with the other; true is no 1."""
    for where in ({"n": {"lt": 10}}, {"n": {"gt": "10"}}, {"n": 1}, {"n": True}, {"n": "1"}, {"n": [1, "1"]}):
        filter_ = parse_where(where)
        assert filter_ is not None
        expected = {item.item_id for item in ITEMS if matches(item, filter_)}
        assert expected, "no item to find: the test would prove nothing"
        assert await _matching_ids(*opened, filter_) == expected
        hits = await opened[1].search("any words", where=where, limit=100)
        assert {hit.item_id for hit in hits} == expected


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["item_id", "s", "tags", "kind"])
async def test_a_list_of_thousands_is_one_condition(opened: tuple[Platform, Collection], name: str) -> None:
    """Ten thousand values in a filter are not an error, and match the same items as the few values that exist."""
    values = [*(f"none{number}" for number in range(9_996)), "a", "x", "bug", "7"]
    filter_ = parse_where({name: values})
    assert filter_ is not None
    hits = await opened[1].search("any words", where={name: values}, limit=100)
    assert {hit.item_id for hit in hits} == {item.item_id for item in ITEMS if matches(item, filter_)}
    assert hits


@pytest.mark.asyncio(loop_scope="module")
async def test_when_an_item_was_stored_can_be_filtered_by(opened: tuple[Platform, Collection]) -> None:
    """``created_at`` is the database's own time."""
    now = datetime.now(UTC)
    for where, expected in (
        ({"created_at": {"gt": now - timedelta(hours=1)}}, len(ITEMS)),
        ({"created_at": {"gt": now + timedelta(hours=1)}}, 0),
    ):
        filter_ = parse_where(where)
        assert filter_ is not None
        assert len(await _matching_ids(*opened, filter_)) == expected
