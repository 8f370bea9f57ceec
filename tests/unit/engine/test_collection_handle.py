"""A collection's handle: an old state is read once, by any number of calls."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from types import SimpleNamespace
from typing import Any, cast

import pytest

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain.errors import DatabaseUnreachableError, InvalidFilterError
from retrieval.domain.search.filters import parse_where
from retrieval.domain.search.query import DEFAULT_BOUNDS, SearchBounds
from retrieval.engine import collection_handle as module
from retrieval.engine.collection_handle import CollectionHandle, CollectionParts, parsed_filter
from tests.unit.engine.test_plan import SMALL


class Reading:
    """Takes the place of the look-up in the database; it answers when it is let."""

    def __init__(self) -> None:
        self.times = 0
        self.fails = 0
        self.answers = asyncio.Event()

    async def __call__(self, *_: object) -> StoredCollection:
        """The collection; the first ``fails`` times, an error."""
        self.times += 1
        failing = self.times <= self.fails
        await self.answers.wait()
        if failing:
            raise DatabaseUnreachableError("away")
        return SMALL


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    """A stand-in for the query."""
    reader = Reading()
    monkeypatch.setattr(module, "find_collection", reader)
    return reader


def _aged(seconds: float) -> tuple[CollectionHandle, list[float]]:
    """A handle that was read that long ago, with its clock."""
    now = [0.0]
    parts = SimpleNamespace(database=None, tenant_id=1, clock=lambda: now[0], embedders=lambda _: None)
    handle = CollectionHandle(cast("CollectionParts", parts), SMALL)
    now[0] = seconds
    return handle, now


async def _many(handle: CollectionHandle, reading: Reading) -> list[StoredCollection | BaseException]:
    calls = [asyncio.create_task(handle.refresh(older_than_seconds=1.0)) for _ in range(5)]
    await asyncio.sleep(0)
    reading.answers.set()
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_calls_that_find_it_old_at_once_share_one_reading(reading: Reading) -> None:
    """They wait for the first call's query, and share its result."""
    handle, _ = _aged(2.0)
    assert await _many(handle, reading) == [SMALL] * 5
    assert reading.times == 1


async def test_a_reading_that_fails_is_the_first_calls_alone(reading: Reading) -> None:
    """The waiting calls read for themselves."""
    handle, _ = _aged(2.0)
    reading.fails = 1
    failed, *others = await _many(handle, reading)
    assert isinstance(failed, DatabaseUnreachableError)
    assert others == [SMALL] * 4


async def test_a_call_that_wants_it_as_it_is_now_reads_for_itself(reading: Reading) -> None:
    """A reading in progress may have begun before the change."""
    handle, _ = _aged(2.0)
    calls = [asyncio.create_task(handle.refresh(older_than_seconds=1.0)), asyncio.create_task(handle.refresh())]
    await asyncio.sleep(0)
    assert reading.times == 2
    reading.answers.set()
    await asyncio.gather(*calls)


async def test_a_fresh_state_is_not_read_again(reading: Reading) -> None:
    """Up to the age that the call allows."""
    handle, now = _aged(1.0)
    assert await handle.refresh(older_than_seconds=1.0) is SMALL
    assert reading.times == 0
    now[0] = 1.5
    reading.answers.set()
    await handle.refresh(older_than_seconds=1.0)
    assert reading.times == 1


@pytest.mark.parametrize("where", [{"year": 1979}, {"kind": ["a", "b"]}, {"year": {"gte": 1, "lt": 2.5}, "open": True}])
async def test_the_same_small_mapping_gives_the_same_filter_object(where: dict[str, Any]) -> None:
    """By its content, in whichever objects it comes."""
    first, again = [await parsed_filter(deepcopy(where), DEFAULT_BOUNDS) for _ in range(2)]
    assert first is again
    assert first == parse_where(where)


async def test_mappings_that_differ_only_in_type_or_order_are_distinguished() -> None:
    """To Python 1, 1.0 and True are equal, and so are mappings in another order."""
    each: list[dict[str, Any]] = [{"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {"a": 1, "b": 2}, {"b": 2, "a": 1}]
    filters = [await parsed_filter(where, DEFAULT_BOUNDS) for where in each]
    assert len({id(parsed) for parsed in filters}) == len(each)
    assert [repr(parsed) for parsed in filters] == [repr(parse_where(where)) for where in each]


async def test_a_changed_mapping_is_parsed_again() -> None:
    """The caller may use it for the next search."""
    where = {"kind": ["a"]}
    first = await parsed_filter(where, DEFAULT_BOUNDS)
    where["kind"].append("b")
    assert await parsed_filter(where, DEFAULT_BOUNDS) == parse_where(where) != first


@pytest.mark.parametrize("where", [{"a": list(range(9))}, {"a": {"in": [[[["x"]]]]}}, {1: "a"}, {"a": "x" * 2000}])
async def test_other_mappings_are_parsed_each_time(where: Any) -> None:
    """With the same filter or the same error as ever."""
    for _ in range(2):
        try:
            expected = repr(parse_where(where))
        except InvalidFilterError as error:
            expected = repr(error)
        try:
            message = repr(await parsed_filter(where, DEFAULT_BOUNDS))
        except InvalidFilterError as error:
            message = repr(error)
        assert message == expected


async def test_narrower_bounds_refuse_what_wider_ones_let_through() -> None:
    """A filter kept for one installation is not used for another."""
    where = {"a": ["x", "y", "z"]}
    await parsed_filter(where, DEFAULT_BOUNDS)
    with pytest.raises(InvalidFilterError):
        await parsed_filter(where, SearchBounds(filter_values=2))
