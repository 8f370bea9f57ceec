"""The bounds of one search in Python; HTTP's are in ``surfaces/http``."""

from __future__ import annotations

import threading
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, ItemsView
from typing import Any

import pytest
import pytest_asyncio

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.collection import handle_of
from retrieval.domain.errors import InvalidFilterError, InvalidLimitError, InvalidRequestError
from retrieval.domain.search.query import MAX_FILTER_VALUES, MAX_QUERY_BYTES
from retrieval.engine.collection_search import leg_rankings
from tests.support.database import SCHEMA

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONGEST = "ä" * (MAX_QUERY_BYTES // 2)
TOO_LONG = LONGEST + "b"
MOST = list(range(MAX_FILTER_VALUES))
TOO_MANY = [*MOST, -1]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(database_url: str) -> AsyncIterator[Platform]:
    """With bounds as they are by default."""
    settings = Settings(tenant=f"tenant-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none")
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def docs(platform: Platform) -> Collection:
    """Five items."""
    collection = await platform.collection("docs")
    await collection.add(
        {"_id": f"i{n}", "title": f"disk {n}", "level": n, "at": f"2024-05-0{n + 1}"} for n in range(5)
    )
    return collection


Call = Callable[[Collection], Coroutine[Any, Any, Any]]

WORDS: dict[str, Call] = {
    "search": lambda docs: docs.search(TOO_LONG),
    "without syntax": lambda docs: docs.search(TOO_LONG, syntax=False),
    "rewrite": lambda docs: docs.search("disk", rewrites=["full", TOO_LONG]),
    "search_each": lambda docs: docs.search_each(["disk", TOO_LONG]),
    "interleave": lambda docs: docs.interleave(TOO_LONG, profiles={"a": docs.profile, "b": docs.profile}),
    "preview": lambda docs: docs.preview(TOO_LONG, profiles={"a": docs.profile}),
    "leg_rankings": lambda docs: leg_rankings(handle_of(docs), TOO_LONG),
    "record_answer": lambda docs: docs.record_answer(TOO_LONG, [], origin="test", retrieval_time_ms=1.0),
    "expectations": lambda docs: docs.expectations(["i1"], query=TOO_LONG),
}


@pytest.mark.parametrize("name", WORDS)
async def test_a_query_beyond_the_bound_is_refused_and_the_bound_is_named(docs: Collection, name: str) -> None:
    """This applies to every argument with words; the limit is in bytes."""
    with pytest.raises(InvalidRequestError, match=r"more than 32,768 bytes \(RETRIEVAL_MAX_QUERY_BYTES\)"):
        await WORDS[name](docs)


async def test_a_query_at_the_bound_is_answered(docs: Collection) -> None:
    """By words and by meaning, alone and with rewrites of the same size."""
    assert await docs.search(f"disk {LONGEST[:-3]}")
    assert await docs.search("disk", rewrites=[LONGEST[:-1] + str(n) for n in range(10)])


async def test_the_queries_of_one_call_are_bounded_by_their_sum(docs: Collection) -> None:
    """33 of them as long as one may be are too many, and 1,000 short ones are not."""
    with pytest.raises(InvalidRequestError, match=r"1,081,344 bytes together; at most 1,048,576"):
        await docs.search_each([LONGEST] * 33)
    assert len(await docs.search_each(["disk"] * 1000)) == 1000


async def test_the_hits_of_one_call_are_bounded_by_their_sum(docs: Collection) -> None:
    """Ten queries with a thousand hits each, or a thousand with ten."""
    assert len(await docs.search_each(["disk"] * 10, limit=1000)) == 10
    with pytest.raises(InvalidLimitError, match="11 queries with 1000 hits each; at most 10,000 hits in one call"):
        await docs.search_each(["disk"] * 11, limit=1000)


FILTERS: dict[str, Call] = {
    "where": lambda docs: docs.search("disk", where={"level": TOO_MANY}),
    "prefer": lambda docs: docs.search("disk", prefer={"not": {"level": {"in": TOO_MANY}}}),
    "search_each": lambda docs: docs.search_each(["disk"], where={"level": TOO_MANY}),
    "preview": lambda docs: docs.preview("disk", profiles={"a": docs.profile}, where={"level": TOO_MANY}),
    "leg_rankings": lambda docs: leg_rankings(handle_of(docs), "disk", where={"level": TOO_MANY}),
    "page": lambda docs: docs.page({"level": TOO_MANY}),
    "value_counts": lambda docs: docs.value_counts("level", where={"level": TOO_MANY}),
}


@pytest.mark.parametrize("name", FILTERS)
async def test_a_filter_beyond_the_bound_is_refused_and_the_bound_is_named(docs: Collection, name: str) -> None:
    """This applies to every call with a filter."""
    with pytest.raises(InvalidFilterError, match=r"more than 10,000 values \(RETRIEVAL_MAX_FILTER_VALUES\)"):
        await FILTERS[name](docs)


@pytest.mark.parametrize(
    ("where", "expected_hits"),
    [
        ({"level": MOST}, 5),
        ({"level": {"nin": MOST[1:]}}, 1),
        ({"level": [number + 0.5 for number in MOST]}, 0),
        ({"kind": [f'a "quoted" \\ {{{number}}}' for number in MOST[1:]]}, 0),
        ({"item_id": [f"i{number}" for number in MOST]}, 5),
        ({"tags": [f"t{number}" for number in MOST]}, 0),
        ({"at": ["2024-05-01", *map(str, MOST[1:])]}, 1),
        ({"created_at": {"in": [f"2024-05-01T12:00:00.{number:06}Z" for number in MOST]}}, 0),
        ({"verdict_count": MOST}, 5),
        ({"links": [f"q:{number}" for number in MOST]}, 0),
        ({"/level": MOST}, 5),
    ],
)
async def test_a_filter_at_the_bound_finds_what_a_short_one_does(
    docs: Collection, where: dict[str, Any], expected_hits: int
) -> None:
    """Long lists are passed in a special way. The test runs twice, because statements are cached."""
    for _ in range(2):
        assert len(await docs.search("disk", where=where)) == expected_hits
    assert [len(result) for result in await docs.search_each(["disk", "disk full"], where=where)] == [expected_hits] * 2


@pytest.mark.usefixtures("docs")
async def test_the_bounds_are_settings(platform: Platform, database_url: str) -> None:
    """The installation's settings change the bounds in both directions."""
    wide = platform.settings.changed(max_query_bytes=100_000, max_filter_values=20_000)
    async with connect(database_url, settings=wide, embedder=HashingEmbedder()) as opened:
        same = await opened.collection("docs")
        assert await same.search(f"disk {TOO_LONG}", where={"level": TOO_MANY})
    narrow = platform.settings.changed(max_query_bytes=1024, max_filter_values=100)
    async with connect(database_url, settings=narrow, embedder=HashingEmbedder()) as opened:
        same = await opened.collection("docs")
        with pytest.raises(InvalidRequestError, match="more than 1,024 bytes"):
            await same.search("x" * 1025)
        with pytest.raises(InvalidFilterError, match="more than 100 values"):
            await same.search("disk", where={"level": MOST[:101]})


async def test_a_recorded_search_is_replayed_under_lower_bounds(
    platform: Platform, database_url: str, docs: Collection
) -> None:
    """The limits apply to new requests, not to recorded ones."""
    hits = await docs.search("disk", where={"level": MOST})
    assert hits.retrieval_id is not None
    await platform.recorded()
    narrow = platform.settings.changed(max_filter_values=100)
    async with connect(database_url, settings=narrow, embedder=HashingEmbedder()) as opened:
        assert (await opened.replay(hits.retrieval_id)).is_reproduced


class Noting(dict[str, Any]):
    """A mapping that notes in which threads it is read."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.threads = set[str]()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """The members."""
        self.threads.add(threading.current_thread().name.partition("_")[0])
        return super().items().__iter__()  # type: ignore[return-value]


@pytest.mark.parametrize(("values", "is_aside"), [(MOST[:10], False), (MOST, True)])
async def test_a_large_filter_is_read_beside_the_event_loop(
    docs: Collection,
    values: list[int],
    is_aside: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A small one is not: the way there and back takes longer."""
    where = Noting(level=values)
    await docs.search("disk", where=where)
    assert ("aside" in where.threads) is is_aside
