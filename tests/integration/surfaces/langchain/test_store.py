"""LangGraph's store on a collection: what graphs remember, by namespace, filter, words and time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from langgraph.store.base import GetOp, Item, ListNamespacesOp, MatchCondition, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.collection import Collection, handle_of
from retrieval.domain.errors import (
    ConfigurationError,
    ConflictError,
    InvalidLimitError,
    InvalidRequestError,
    RunningLoopError,
)
from retrieval.engine.reading import latest
from retrieval.surfaces.langchain import RetrievalStore
from retrieval.surfaces.langchain import store as store_operations
from retrieval.surfaces.langchain.store_items import item_id_of
from tests.support.database import SCHEMA

pytestmark = pytest.mark.asyncio(loop_scope="module")

MINUTE = 60.0


@dataclass
class Now:
    """A clock that is set."""

    seconds: float = 1_750_000_000.0

    def __call__(self) -> float:
        """Seconds since 1970."""
        return self.seconds


NewStore = Callable[..., Any]
_numbers = itertools.count()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(database_url: str) -> AsyncIterator[Platform]:
    """A platform for all the stores."""
    settings = Settings(tenant="graph-stores", database_schema=SCHEMA, embedder="none", pool_size=8)
    async with connect(database_url, settings=settings, embedder=HashingEmbedder(16)) as platform:
        yield platform


@pytest.fixture
def new_store(opened: Platform) -> NewStore:
    """Makes stores, each on a collection of its own unless one is named."""

    async def make(name: str | None = None, **more: Any) -> RetrievalStore:
        return RetrievalStore(await opened.collection(name or f"store-{next(_numbers)}"), **more)

    return make


def keys_of(items: Any) -> list[tuple[tuple[str, ...], str]]:
    """The found items, in order."""
    return [(item.namespace, item.key) for item in items]


LABELS = st.sampled_from(["a", "ab", "a.b", "%", "a_", "é'\""])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES = st.lists(LABELS, max_size=2).map(tuple)
PATHS = st.lists(LABELS | st.just("*"), max_size=3).map(tuple)
NUMBERS = st.sampled_from([-1, 2, 9, 10, 9.5])
VALUES = st.fixed_dictionaries(
    {"n": NUMBERS, "text": st.sampled_from(["cats", "dogs run", "birds"])},
    optional={"deep": st.fixed_dictionaries({"n": NUMBERS}), "list": st.lists(NUMBERS, max_size=2)},
)
FILTERS = st.none() | st.one_of(
    st.builds(lambda n: {"n": n}, NUMBERS),
    st.builds(lambda how, n: {"n": {how: n}}, st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), NUMBERS),
    st.builds(lambda n: {"deep": {"n": n}}, NUMBERS),
    st.builds(lambda each: {"list": each}, st.lists(NUMBERS, max_size=2)),
    st.just({"deep": None, "text": "cats"}),
)
KEYS = st.sampled_from(["1", "2", "a/b"])
SEARCHES = st.tuples(PREFIXES, FILTERS, st.just(50), st.just(0), st.none() | st.just("cats"))
MATCHES = st.lists(st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), PATHS), max_size=2).map(tuple)
LISTINGS = st.tuples(MATCHES, st.none() | st.integers(1, 3), st.integers(0, 4), st.integers(0, 2))
BATCHES = st.lists(
    st.lists(
        st.tuples(NAMESPACES, KEYS, VALUES | st.none()).map(lambda arguments: PutOp(*arguments))
        | st.tuples(NAMESPACES, KEYS, VALUES).map(lambda arguments: PutOp(*arguments))
        | st.tuples(NAMESPACES, KEYS).map(lambda arguments: GetOp(*arguments))
        | SEARCHES.map(lambda arguments: SearchOp(*arguments))
        | LISTINGS.map(lambda arguments: ListNamespacesOp(*arguments)),
        min_size=2,
        max_size=9,
    ),
    min_size=2,
    max_size=4,
)


def plain(result: Any) -> Any:
    """A result without times, scores, and the order of unordered values."""
    if isinstance(result, Item):
        return result.namespace, result.key, result.value
    if isinstance(result, list) and all(isinstance(item, Item) for item in result):
        return sorted(map(plain, result), key=repr)
    return result


@examples(max_examples=8, phases=[Phase.explicit, Phase.generate])
@given(batches=BATCHES)
async def test_the_store_answers_like_the_in_memory_store(new_store: NewStore, batches: list[list[Op]]) -> None:
    """Any batches of puts, deletions, reads, searches and listings, with similar namespaces."""
    store, model = await new_store(), InMemoryStore()
    for number, batch in enumerate(batches):
        # The in-memory store lists namespaces that were only read, or emptied.
        ops = sorted(batch, key=lambda op: not isinstance(op, ListNamespacesOp))
        namespaces = model._data  # noqa: SLF001 - it has no other way
        for namespace in [name for name, items in namespaces.items() if not items]:
            del namespaces[namespace]
        results, expected = await store.abatch(ops), await model.abatch(ops)
        assert [plain(item) for item in results] == [plain(item) for item in expected], number


async def test_reads_see_what_was_before_the_batch_and_the_last_put_counts(new_store: NewStore) -> None:
    """The order within the batch does not matter; a deletion is a put too."""
    store = await new_store()
    await store.aput(("a",), "gone", {"n": 0})
    results = await store.abatch(
        [
            PutOp(("a",), "k", {"n": 1}),
            GetOp(("a",), "k"),
            SearchOp(("a",)),
            PutOp(("a",), "k", {"n": 2}),
            PutOp(("a",), "gone", None),
            ListNamespacesOp(),
        ]
    )
    assert [results[place] for place in (0, 1, 3, 4, 5)] == [None, None, None, None, [("a",)]]
    assert keys_of(results[2]) == [(("a",), "gone")]
    assert [item.value for item in await store.asearch(("a",))] == [{"n": 2}]


async def test_a_batch_that_cannot_be_understood_changes_nothing(new_store: NewStore) -> None:
    """It is refused before anything is read or written."""
    store = await new_store()
    for bad in (
        PutOp(("a",), "k", {"n": {1, 2}}),
        PutOp(("a", ""), "k", {}),
        PutOp(("a",), 7, {}),  # type: ignore[arg-type]
        "get",
        ListNamespacesOp((MatchCondition("infix", ("a",)),)),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidRequestError):
            await store.abatch([PutOp(("a",), "good", {"n": 1}), bad])
    for page in ({"limit": -1}, {"offset": -1}):
        with pytest.raises(InvalidLimitError):
            await store.asearch((), **page)
    assert await store.asearch(()) == []


async def test_times_tell_when_an_item_was_made_and_changed(new_store: NewStore) -> None:
    """A put of an existing key keeps the creation time; a missing key is None."""
    store = await new_store()
    assert await store.aget(("a",), "k") is None
    await store.aput(("a",), "k", {"n": 1})
    first = await store.aget(("a",), "k")
    await store.aput(("a",), "k", {"n": 1})
    second = await store.aget(("a",), "k")
    assert first.created_at == first.updated_at == second.created_at < second.updated_at
    await store.adelete(("a",), "k")
    await store.adelete(("a",), "k")
    assert await store.aget(("a",), "k") is None


async def test_pages_are_full_and_leave_nothing_out(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a filter, with words, and past the steps in which hits are fetched; items without words come last."""
    monkeypatch.setattr(store_operations, "FIRST_HITS", 3)
    monkeypatch.setattr(store_operations, "MAX_LIMIT", 4)
    monkeypatch.setattr(store_operations, "MAX_LISTED", 4)
    store = await new_store(index={"fields": ["text"]})
    puts = [
        PutOp(("a", str(n % 3)), str(n), {"n": n, "text": f"cats and {n} dogs"}, index=False if n > 20 else None)
        for n in range(24)
    ]
    await store.abatch(puts)

    for query, unscored in (("cats", {21, 22, 23}), (None, set(range(2, 24)))):
        pages = [
            await store.asearch(("a",), query=query, filter={"n": {"$gte": 2}}, limit=5, offset=offset)
            for offset in range(0, 25, 5)
        ]
        items = [item for page in pages for item in page]
        assert [len(page) for page in pages] == [5, 5, 5, 5, 2]
        assert sorted(item.value["n"] for item in items) == list(range(2, 24))
        whole = await store.asearch(("a",), query=query, filter={"n": {"$gte": 2}}, limit=1000)
        assert keys_of(whole) == keys_of(items)
        scores = [item.score for item in whole if item.score is not None]
        assert scores == sorted(scores, reverse=True)
        assert {item.value["n"] for item in whole if item.score is None} == unscored
    assert await store.asearch(("a",), limit=0) == []
    assert len(await store.alist_namespaces(limit=1000)) == 3


async def test_words_find_what_the_fields_say(new_store: NewStore) -> None:
    """The fields are those of the store, or of the put; the best hits come first."""
    store = await new_store(index={"fields": ["text", "more[*].said"]})
    await store.aput(("m",), "pizza", {"text": "Ada likes pizza", "other": "trains"})
    await store.aput(("m",), "trains", {"text": "Ada rides", "more": [{"said": "fast trains"}]})
    await store.aput(("m",), "own", {"text": "trains", "note": "bicycles"}, index=["note"])

    [first, *_] = await store.asearch(("m",), query="fast trains")
    assert (first.key, first.score > 0) == ("trains", True)
    assert (await store.asearch(("m",), query="bicycles"))[0].key == "own"
    assert (await store.asearch(("m",), query=" "))[0].score is None


async def test_an_item_is_gone_to_the_moment(new_store: NewStore) -> None:
    """Reads, searches, listings and counts all exclude it, before and after the sweep."""
    now = Now()
    store = await new_store(wall_clock=now)
    await store.aput(("a",), "short", {"n": 1}, ttl=1)
    await store.aput(("b",), "long", {"n": 1}, ttl=2)
    await store.aput(("c",), "for ever", {"n": 1})

    now.seconds += MINUTE - 0.001
    assert len(await store.asearch((), refresh_ttl=False)) == 3
    now.seconds += 0.001
    assert await store.aget(("a",), "short", refresh_ttl=False) is None
    for query in (None, "1"):
        items = await store.asearch((), query=query, filter={"n": 1}, limit=2, refresh_ttl=False)
        assert {item.key for item in items} == {"long", "for ever"}
    assert await store.alist_namespaces() == [("b",), ("c",)]
    assert await store.asweep_ttl() == 1
    assert await store.asweep_ttl() == 0
    now.seconds += MINUTE
    assert keys_of(await store.asearch(())) == [(("c",), "for ever")]


async def test_use_puts_the_end_off(new_store: NewStore) -> None:
    """A read and a search extend it, unless they are told not to; ``updated_at`` stays."""
    now = Now()
    store = await new_store(wall_clock=now, ttl={"default_ttl": 1})
    await store.aput(("a",), "k", {"n": 1})
    before = await store.aget(("a",), "k", refresh_ttl=False)
    uses: list[Callable[[], Any]] = [
        lambda: store.aget(("a",), "k"),
        lambda: store.asearch(("a",)),
        lambda: store.asearch(("a",), query="1"),
        lambda: store.aput(("a",), "other", {"n": 2}, ttl=None),
    ]
    for use in uses:
        now.seconds += 0.75 * MINUTE
        await use()
    assert (await store.aget(("a",), "k", refresh_ttl=False)).updated_at == before.updated_at
    now.seconds += 0.25 * MINUTE
    assert await store.aget(("a",), "k") is None
    assert (await store.aget(("a",), "other")).value == {"n": 2}
    await store.aput(("a",), "k", {"n": 3})
    assert (await store.aget(("a",), "k")).value == {"n": 3}


async def test_the_first_item_that_expires_is_seen_from_elsewhere(new_store: NewStore) -> None:
    """Another handle, which has not seen an expiry yet, does not return it either."""
    now = Now()
    store = await new_store("shared", wall_clock=now, ttl={"refresh_on_read": False})
    await store.aput(("a",), "k", {"n": 1})
    other = await new_store("shared", wall_clock=now)
    await other.asearch(())
    await store.aput(("a",), "k", {"n": 1}, ttl=0)
    await store.aput(("a",), "kept", {"n": 1}, ttl=1)
    assert keys_of(await other.asearch(())) == [(("a",), "kept")]


async def test_writes_sweep_in_time(new_store: NewStore, opened: Platform) -> None:
    """After the interval, the next put removes expired items."""
    now = Now()
    store = await new_store("swept", wall_clock=now, ttl={"sweep_interval_minutes": 2})
    await store.aput(("a",), "k", {"n": 1}, ttl=1)
    collection = await opened.collection("swept")
    for minutes, remaining in ((1.5, 2), (0.5, 2)):
        now.seconds += minutes * MINUTE
        await store.aput(("a",), str(minutes), {"n": 1})
        assert len(await latest(handle_of(collection))) == remaining
    assert await store.asweep_ttl() == 0


async def test_puts_at_once_lose_nothing_and_raise_nothing(new_store: NewStore) -> None:
    """One key and many keys, from many tasks and two independent stores, together with deletions."""
    store = await new_store("busy")
    other = await new_store("busy")
    both = itertools.cycle([store, other])
    await asyncio.gather(
        *(next(both).aput(("a",), "same", {"n": n}) for n in range(150)),
        *(next(both).aput(("a",), f"own {n}", {"n": n}) for n in range(150)),
        *(next(both).adelete(("a",), f"gone {n}") for n in range(10)),
        *(next(both).abatch([PutOp(("a",), f"x{n % 3}", {"n": n}), PutOp(("a",), "y", None)]) for n in range(20)),
    )
    values = {item.key: item.value["n"] for item in await store.asearch(("a",), limit=1000)}
    assert values.keys() == {"same", "x0", "x1", "x2", *(f"own {n}" for n in range(150))}
    assert values["same"] in {148, 149}
    assert {key: values[key] for key in values if key.startswith("own")} == {f"own {n}": n for n in range(150)}


async def test_puts_that_wait_are_stored_together_and_each_has_its_own_outcome(
    new_store: NewStore, opened: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is refused costs no other, nor does one that is cancelled while it is made or waits."""
    collection = await opened.collection("together")
    store = await new_store("together")
    await collection.add([{"id": (foreign := item_id_of(("a",), "foreign")), "text": "another's"}])
    change, calls, begun, allowed = Collection.change, list[int](), asyncio.Event(), asyncio.Event()

    async def slow(self: Collection, ids: list[str], *arguments: Any, **more: Any) -> Any:
        calls.append(len(ids))
        begun.set()
        await allowed.wait()
        return await change(self, ids, *arguments, **more)

    monkeypatch.setattr(Collection, "change", slow)
    first = asyncio.create_task(store.aput(("a",), "first", {"n": 0}))
    await begun.wait()
    later = {key: asyncio.create_task(store.aput(("a",), key, {"n": 1})) for key in ("b", "foreign", "gone", "c")}
    await asyncio.sleep(0.1)
    first.cancel()
    later["gone"].cancel()
    await asyncio.sleep(0)
    allowed.set()
    outcomes = await asyncio.gather(first, *later.values(), return_exceptions=True)

    wanted = [asyncio.CancelledError, type(None), ConflictError, asyncio.CancelledError, type(None)]
    assert [type(outcome) for outcome in outcomes] == wanted
    assert {item.key for item in await store.asearch(("a",))} == {"first", "b", "c"}
    assert calls == [1, 3, 1, 1, 1]
    assert foreign in await collection.get([foreign])


async def test_other_items_of_the_collection_are_ignored(new_store: NewStore, opened: Platform) -> None:
    """They are neither found nor listed nor swept, even if they are similar."""
    collection = await opened.collection("mixed")
    foreign = {"_id": "foreign", "text": "cats", "tags": ["namespace", "a"], "expires_at": 1, "namespace": "a"}
    await collection.add([{**foreign, "tags": ["a"]}])
    store = await new_store("mixed")
    assert await store.asearch((), query="cats") == await store.alist_namespaces() == []
    await store.aput(("a",), "k", {"text": "dogs"})
    assert keys_of(await store.asearch((), query="cats")) == [(("a",), "k")]
    assert await store.alist_namespaces() == [("a",)]
    assert await store.asweep_ttl() == 0
    assert "foreign" in await collection.get(["foreign"])


async def test_values_come_back_as_json_has_them(new_store: NewStore) -> None:
    """This holds for any values; for long namespaces and keys too."""
    store = await new_store()
    value = {"": None, "é": [1, 1.5, True, "x", {"a": []}], "big": 10**30, "n\n": "\u2028'\"%_$", "$gt": 1}
    namespace, key = ("long" * 100, "other" * 60), "key" * 300
    await store.aput(namespace, key, value)
    assert (await store.aget(namespace, key)).value == value
    assert keys_of(await store.asearch(namespace[:1])) == [(namespace, key)]
    assert await store.asearch(("long" * 99,)) == []
    await store.aput(namespace, key, {"at": datetime(2026, 5, 1, tzinfo=UTC), "pair": (1, 2), "large": 1e22})
    came_back = (await store.aget(namespace, key)).value
    assert came_back == {"at": "2026-05-01T00:00:00+00:00", "pair": [1, 2], "large": 10**22}
    assert await store.alist_namespaces(suffix=namespace[1:]) == [namespace]


async def test_unsupported_options_are_refused(new_store: NewStore) -> None:
    """The collection embeds; a sync method would freeze the loop."""
    with pytest.raises(ConfigurationError, match="index takes 'fields' alone, not 'dims'"):
        await new_store(index={"fields": ["a"], "dims": 16})
    for fields in ("text", ["a["]):
        with pytest.raises(ConfigurationError, match="list of paths"):
            await new_store(index={"fields": fields})
    store = await new_store()
    with pytest.raises(RunningLoopError):
        store.get(("a",), "k")
    assert await asyncio.to_thread(store.get, ("a",), "k") is None


async def test_other_items_of_the_collection_are_neither_given_nor_changed(
    opened: Platform, new_store: NewStore
) -> None:
    """This holds even if their ids or tags are similar; items that the store put are changed."""
    others: list[dict[str, Any]] = [
        {"_id": "ada/1", "text": "cats"},
        {"_id": "other", "text": "cats", "tags": ["namespace", "namespace:ada"], "namespace": ["ada"], "key": "x"},
    ]
    collection = await opened.collection("shared")
    await collection.add(others)
    before = await collection.get(["ada/1", "other"])
    store = await new_store("shared")
    await store.aput(("ada",), "2", {"text": "cats"})

    assert await store.aget(("ada",), "1") is None
    assert keys_of(await store.asearch(())) == keys_of(await store.asearch((), query="cats")) == [(("ada",), "2")]
    for write in (store.aput(("ada",), "1", {"text": "dogs"}), store.adelete(("ada",), "1")):
        with pytest.raises(ConflictError, match=r"'ada/1' .* was not written by a store"):
            await write
    assert await collection.get(["ada/1", "other"]) == before
