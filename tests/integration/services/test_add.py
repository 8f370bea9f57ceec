"""Adding items: all or nothing where the input is wrong, and nothing lost where the embedder is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg
import pytest

from retrieval import EmbeddingSpace, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.items.items import ItemWrite, WrittenItems, settle, store_items, write_items
from retrieval.adapters.store.search.terms import fold_statistics
from retrieval.collection import handle_of
from retrieval.domain.errors import (
    DatabaseError,
    EmbedderError,
    EmbedderRejectedError,
    EmbedderUnavailableError,
    InvalidItemError,
    InvalidRequestError,
    InvalidVectorError,
    WrongDimensionError,
)
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.domain.items.item import Item
from retrieval.services import add
from retrieval.services.items import add_each, add_new, set_status
from tests.support.cluster import LOCK_WAITS
from tests.support.database import opened, until_somebody_waits

SPACE = EmbeddingSpace(provider="test", model="given", dimensions=3)


class RefusingEmbedder(HashingEmbedder):
    """An embedder that refuses on demand."""

    refuses = True

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """The vectors, or ``EmbedderRejectedError``."""
        if self.refuses and role is TextRole.DOCUMENT:
            raise EmbedderRejectedError("the key is not valid; set another")
        return await super().embed(texts, role)


async def test_two_simultaneous_writers_add_an_item_once(
    platform: Platform, connection: psycopg.AsyncConnection[Any]
) -> None:
    """Both see no item first: the second writer finds the same text unchanged, and changes another text."""
    collection = await platform.collection("docs")
    await connection.execute("LOCK TABLE items IN SHARE MODE")
    each = [asyncio.create_task(collection.add([{"_id": "1", "text": "same"}, {"_id": "2", "text": own}]))
            for own in ("one", "another")]  # fmt: skip
    await until_somebody_waits(platform, 2)
    await connection.rollback()
    reports = [await add for add in each]
    assert sorted((report.added, report.changed, report.unchanged) for report in reports) == [(0, 1, 1), (2, 0, 0)]
    assert (await collection.info()).items == 2


async def test_an_unusable_item_keeps_the_whole_call_out(platform: Platform) -> None:
    """One item that cannot be stored, and none of the call's items is."""
    collection = await platform.collection("docs")
    with pytest.raises(InvalidItemError, match="'2'"):
        await collection.add([{"_id": "1", "text": "fine"}, {"_id": "2", "text": "NUL \x00"}])
    assert (await collection.info()).items == 0


@pytest.mark.parametrize(
    ("vectors", "error"),
    [
        ([[1, 0, 0], [0, 1]], InvalidVectorError),
        ([[1, 0, 0]], InvalidVectorError),
        ([[1, 0], [0, 1]], WrongDimensionError),
        ([[1, 0, 0], [0, 0, 0]], InvalidVectorError),
        ([[1, 0, 0], [0, float("nan"), 0]], InvalidVectorError),
        ([[1, 0, 0], [0, float("inf"), 0]], InvalidVectorError),
    ],
)
async def test_an_unusable_vector_keeps_the_whole_call_out(
    platform: Platform, vectors: object, error: type[InvalidVectorError]
) -> None:
    """If a vector cannot be compared, nothing of the call is stored."""
    collection = await platform.collection("docs", space=SPACE)
    with pytest.raises(error):
        await collection.add([{"_id": "1"}, {"_id": "2"}], embeddings=vectors)
    assert (await collection.info()).items == 0


@pytest.mark.parametrize("pool_size", [1, 4])
async def test_parts_that_are_written_at_once_are_as_if_one_after_the_other(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, pool_size: int
) -> None:
    """The last version of an item counts, whatever its position, and the statistics add up."""
    monkeypatch.setattr(add, "_BATCH_WITH_VECTORS", 7)
    new_items = [
        {"_id": f"i{n % 50}", "text": f"word{n % 9} is old" if n < 50 else f"word{n} is new"} for n in range(60)
    ]
    vectors = np.random.default_rng(1).normal(size=(60, 3))
    async with connect(database_url, settings=settings.changed(pool_size=pool_size)) as platform:
        collection = await platform.collection("docs", space=SPACE)
        report = await collection.add(new_items, embeddings=vectors)
        assert (report.added, report.changed, report.embedded) == (50, 0, 50)
        assert (await collection.add(new_items, embeddings=vectors)).unchanged == 50
        [hit] = await collection.search(vector=vectors[55], legs=["dense"], limit=1)
        assert (hit.item_id, hit.body) == ("i5", "word55 is new")
        assert len(await collection.search("old", legs=["lexical"], limit=100)) == 40
        number = (await collection.refresh()).collection_id
        query = "SELECT documents, total_length FROM collection_statistics WHERE collection_id = %(n)s"
        added_up = "SELECT count(*), sum(length) FROM item_terms WHERE collection_id = %(n)s"
        tenant = platform.tenant_id
        await fold_statistics(CollectionPlace(platform.database, tenant, number))
        assert await platform.database.read(tenant, Compiled(query, {"n": number})) == await platform.database.read(
            tenant, Compiled(added_up, {"n": number})
        )


async def test_parts_of_a_larger_write_add_up_when_it_has_doubled_the_collection(platform: Platform) -> None:
    """Only a doubling and the end of the write update the count, however little waits."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": f"first{n}", "text": "known"} for n in range(10)])
    database, tenant, number = platform.database, platform.tenant_id, (await collection.refresh()).collection_id

    async def documents() -> int:
        query = Compiled("SELECT documents FROM collection_statistics WHERE collection_id = %(n)s", {"n": number})
        return int((await database.read(tenant, query))[0][0])

    async def write(name: str, count: int) -> None:
        items = [Item(item_id=f"{name}{n}", body="new") for n in range(count)]
        await store_items(database, tenant, ItemWrite(number, items, goes_on=True))

    assert await documents() == 10
    await write("second", 9)
    assert await documents() == 10
    await write("third", 2)
    assert await documents() == 21
    await write("fourth", 5)
    assert await documents() == 21
    await settle(CollectionPlace(database, tenant, number), 5)
    assert await documents() == 26


async def test_a_failed_part_is_reported_and_the_call_can_be_repeated(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other parts stay written."""
    monkeypatch.setattr(add, "_BATCH_WITH_VECTORS", 4)
    collection = await platform.collection("docs", space=SPACE)
    new_items, vectors = [{"_id": f"i{n:02}", "text": f"t{n}"} for n in range(20)], np.ones((20, 3))

    async def failing(database: Database, tenant_id: int, write: ItemWrite) -> WrittenItems:
        if any(item.item_id == "i05" for item in write.items):
            raise DatabaseError("the disk is full")
        return await store_items(database, tenant_id, write)

    with monkeypatch.context() as broken:
        broken.setattr("retrieval.adapters.store.items.items.store_items", failing)
        with pytest.raises(DatabaseError, match="disk is full"):
            await collection.add(new_items, embeddings=vectors)
    assert 4 <= (await collection.info()).items < 20
    waiting = "SELECT count(*) FROM statistics_changes WHERE collection_id = %(n)s"
    number = Compiled(waiting, {"n": (await collection.refresh()).collection_id})
    assert await platform.database.read(platform.tenant_id, number) == [(0,)], "what is stored is weighed right"
    await collection.add(new_items, embeddings=vectors)
    assert (await collection.info()).items == 20


async def test_given_vectors_are_stored_normalised_and_found(platform: Platform) -> None:
    """Callers' vectors need no embedder; their length does not matter."""
    collection = await platform.collection("docs", space=SPACE)
    items = [{"_id": "x", "text": "one"}, {"_id": "y", "text": "two"}]
    report = await collection.add(items, embeddings=np.array([[10, 0, 0], [0, 0.1, 0]]))
    assert (report.added, report.embedded, report.pending) == (2, 2, 0)
    hits = await collection.search(vector=[0, 7, 0])
    assert [hit.item_id for hit in hits] == ["y", "x"]
    assert hits[0].explanation.contributions[0].raw_score == pytest.approx(1, abs=1e-3)
    changed = await collection.add(items, embeddings=[[0, 1, 0], [1, 0, 0]])
    assert changed.unchanged == 2
    assert [hit.item_id for hit in await collection.search(vector=[0, 7, 0])] == ["x", "y"]


async def test_of_items_with_one_key_the_last_counts_with_its_vector(platform: Platform) -> None:
    """A key given twice in one call is one item."""
    collection = await platform.collection("docs", space=SPACE)
    items = [{"_id": "x", "text": "one"}, {"_id": "x", "text": "two"}]
    report = await collection.add(items, embeddings=[[1, 0, 0], [0, 1, 0]])
    assert (report.added, report.embedded, report.repeated) == (1, 1, 1)
    assert "1 id appears more than once ('x'); the last of each was kept" in report.notes
    added = await add_each(handle_of(collection), items)
    assert added.report.repeated == 1
    more = await collection.add([*items, *items, {"_id": "y"}, {"_id": "y"}])
    assert "2 ids appear more than once, such as 'x'; the last of each was kept" in more.notes
    hits = await collection.search("two", vector=[0, 1, 0])
    assert hits[0].body == "two"
    assert {part.leg: part.raw_score for part in hits[0].explanation.contributions}["dense"] == pytest.approx(1)


async def test_vectors_without_a_space_are_refused_with_what_to_do(database_url: str, settings: Settings) -> None:
    """A collection that was made without an embedder has nowhere to put a vector."""
    async with connect(database_url, settings=settings) as platform:
        collection = await platform.collection("docs")
        with pytest.raises(InvalidRequestError, match="no embedding space"):
            await collection.add([{"_id": "1"}], embeddings=[[1.0]])


async def test_the_same_call_again_embeds_what_the_first_could_not(database_url: str, settings: Settings) -> None:
    """Unchanged items that still wait for their vector get it, so that trying again is enough."""
    embedder = RefusingEmbedder(64)
    async with connect(database_url, settings=settings, embedder=embedder) as platform:
        collection = await platform.collection("docs")
        items = [{"_id": str(number), "text": f"word{number}"} for number in range(5)]
        report = await collection.add(items)
        assert (report.added, report.embedded, report.pending) == (5, 0, 5)
        [note] = report.notes
        assert note.startswith("5 items, such as '0', are not embedded: ")
        assert "the key is not valid" in note
        assert [hit.item_id for hit in await collection.search("word3", legs=["lexical"])] == ["3"]
        embedder.refuses = False
        report = await collection.add(items)
        assert (report.unchanged, report.embedded, report.pending) == (5, 5, 0)
        assert (await collection.info()).pending == 0


@pytest.mark.parametrize("size", [500, 10])
async def test_the_notes_count_the_refused_items_and_those_that_wait(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """However many parts the items are stored in: the embedder is not asked for the items after the fifth."""
    monkeypatch.setattr(add, "BATCH_ITEMS", size)
    async with connect(database_url, settings=settings, embedder=RefusingEmbedder(64)) as platform:
        collection = await platform.collection("docs")
        report = await collection.add([{"_id": str(number), "text": f"word{number}"} for number in range(61)])
    assert (report.added, report.pending) == (61, 61)
    refusal, waiting = report.notes
    assert refusal.startswith("5 items, such as '0', are not embedded: ")
    assert waiting == (
        "56 more items wait for their vector: the embedder was not called again after it had refused 5 items"
    )


async def test_an_embedder_that_has_stopped_is_not_asked_for_the_other_parts(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt could take its whole time limit."""
    monkeypatch.setattr(add, "BATCH_ITEMS", 10)
    asked: list[TextRole] = []

    class Away(HashingEmbedder):
        """An embedder that does not answer."""

        async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
            """Never the vectors."""
            asked.append(role)
            raise EmbedderUnavailableError(f"{len(texts)} texts wait")

    async with connect(database_url, settings=settings, embedder=Away()) as platform:
        collection = await platform.collection("docs")
        report = await collection.add([{"_id": str(number), "text": f"thing {number}"} for number in range(40)])
    assert (report.added, report.pending) == (40, 40)
    assert asked == [TextRole.DOCUMENT, TextRole.QUERY], "a part, and a test word"


async def test_an_item_that_its_embedder_always_fails_on_keeps_no_other_waiting(
    database_url: str, settings: Settings
) -> None:
    """Ollama answers 500 if a model makes a vector of NaN: the same as if it were overloaded."""

    class Choking(HashingEmbedder):
        """An embedder that fails on a text."""

        async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
            """The vectors, if that text is not among them."""
            if "poison" in texts:
                raise EmbedderUnavailableError("the server answered 500 (tried 6 times)")
            return await super().embed(texts, role)

    items = [{"_id": str(number), "text": "poison" if number == 3 else f"thing {number}"} for number in range(300)]
    async with connect(database_url, settings=settings, embedder=Choking(16)) as platform:
        collection = await platform.collection("docs")
        report = await collection.add(items)
        assert (report.embedded, report.pending) == (299, 1)
        assert report.notes == ("item '3' is not embedded: the server answered 500 (tried 6 times)",)
        assert not platform.outages, "searches still ask the embedder"


async def test_an_item_for_which_its_embedder_hangs_costs_a_few_items_about_twice_the_time_of_a_call(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retries of a server that hangs take minutes, and each half of the items is tried."""
    monkeypatch.setattr(add, "_FEW_SECONDS", 1.6)
    waits: list[float] = []

    class Hanging(HashingEmbedder):
        """An embedder that hangs on a text."""

        async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
            """The vectors, if that text is not among them."""
            if "poison" in texts:
                began = time.monotonic()
                try:
                    await asyncio.Event().wait()
                finally:
                    waits.append(time.monotonic() - began)
            return await super().embed(texts, role)

    items = [{"_id": str(number), "text": "poison" if number == 3 else f"thing {number}"} for number in range(20)]
    quick = settings.changed(embedding_budget_seconds=0.1)
    async with connect(database_url, settings=quick, embedder=Hanging(16)) as platform:
        collection = await platform.collection("docs")
        report = await collection.add(items)
    assert (report.embedded, report.pending, len(report.notes)) == (19, 1, 1)
    assert report.notes[0].startswith("item '3' is not embedded: no answer within ")
    assert len(waits) > 4, "halved down to the item"
    assert sum(waits) < 3 * waits[0]


async def test_an_exception_of_an_embedder_of_ones_own_is_that_of_an_item(
    database_url: str, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has its traceback; the other items are embedded."""

    class Faulty(HashingEmbedder):
        """An embedder with a fault for some texts."""

        async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
            """The vectors of other texts."""
            if any("odd" in text for text in texts):
                raise ZeroDivisionError("division by zero")
            return await super().embed(texts, role)

    items = [{"_id": str(number), "text": f"{'odd' if number in {4, 30} else ''} {number}"} for number in range(40)]
    async with connect(database_url, settings=settings, embedder=Faulty(16)) as platform:
        report = await (await platform.collection("docs")).add(items)
    assert (report.embedded, report.pending) == (38, 2)
    assert report.notes == (
        "2 items, such as '4', are not embedded: the embedder failed: ZeroDivisionError: division by zero",
    )
    assert all(record.exc_info for record in caplog.records if record.levelno == logging.WARNING)


@pytest.mark.parametrize("fault", ["nan", "too few", "an exception"])
async def test_a_search_whose_embedder_is_at_fault_is_answered_by_words(
    database_url: str, settings: Settings, fault: str
) -> None:
    """The caller gave no vector, so that the search is not refused."""

    class Faulty(HashingEmbedder):
        """An embedder with a fault."""

        async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
            """No usable vector of a query."""
            vectors = await super().embed(texts, role)
            if role is TextRole.DOCUMENT:
                return vectors
            if fault == "an exception":
                raise ZeroDivisionError("division by zero")
            return vectors[:0] if fault == "too few" else vectors * np.nan

    async with connect(database_url, settings=settings, embedder=Faulty(16)) as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": "1", "text": "a full disk"}])
        result = await collection.search("disk")
        assert [hit.item_id for hit in result] == ["1"]
        [note] = result.notes
        assert "the embedder" in note
        with pytest.raises(EmbedderError):
            await collection.search("disk", legs=["dense"])


async def test_vectors_of_another_length_are_told_once(
    database_url: str, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """The embedder is at fault, so it is not asked about each item; what a note says is no warning as well."""
    asked: list[int] = []

    class OtherLength(HashingEmbedder):
        async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:  # noqa: ARG002 - the protocol
            """Three dimensions, whatever the space has."""
            asked.append(len(texts))
            return np.ones((len(texts), 3), dtype=np.float32)

    embedder = OtherLength(64)
    async with connect(database_url, settings=settings, embedder=embedder) as platform:
        collection = await platform.collection("docs")
        report = await collection.add([{"_id": str(number), "text": f"word{number}"} for number in range(9)])
        assert (report.pending, asked) == (9, [9])
        [note] = report.notes
        assert note.startswith("embedding stopped: the vector of '0' has 3 dimensions and the embedding space ")
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
        [note] = (await collection.search("word1")).notes
        assert "the vector of the query has 3 dimensions" in note


async def test_adding_nothing_does_nothing(platform: Platform) -> None:
    """An empty call is not an error."""
    collection = await platform.collection("docs")
    assert await collection.add([]) == await collection.add(iter([]))


async def test_deleting_takes_items_out_of_everything(platform: Platform) -> None:
    """Terms, vectors and counts are deleted with the item; a missing key counts as 0."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": str(number), "text": f"the word{number}"} for number in range(3)])
    assert await collection.delete(["1", "nowhere"]) == 1
    info = await collection.info()
    assert (info.items, info.pending) == (2, 0)
    assert "1" not in {hit.item_id for hit in await collection.search("the word1")}


async def test_a_new_item_replaces_none(platform: Platform) -> None:
    """An existing id, archived or not, is refused and named."""
    collection = await platform.collection("docs")
    report = await add_new(handle_of(collection), {"_id": "1", "text": "one"})
    report += await add_new(handle_of(collection), {"_id": "2", "text": "two", "status": "archived"})
    assert (report.added, report.embedded) == (2, 1)

    for item_id in ("1", "2"):
        with pytest.raises(InvalidItemError, match=f"item '{item_id}' already exists"):
            await add_new(handle_of(collection), {"_id": item_id, "text": "another"})

    stored = await collection.get(["1", "2"])
    assert {key: item.body for key, item in stored.items()} == {"1": "one", "2": "two"}
    assert [hit.item_id for hit in await collection.search("one")] == ["1"]


async def test_a_new_item_waits_for_who_is_storing_it_and_does_not_replace_it(
    platform: Platform, database_url: str
) -> None:
    """Also where the other one does not mind that it may be there already."""
    collection = await platform.collection("docs")
    number = (await collection.refresh()).collection_id
    with opened(database_url) as watcher:
        async with platform.database.transaction(platform.tenant_id) as connection:
            await write_items(connection, ItemWrite(number, [Item(item_id="1", body="theirs")]))
            adding = asyncio.create_task(add_new(handle_of(collection), {"_id": "1", "text": "ours"}))
            while watcher.execute(LOCK_WAITS.encode()).fetchone() == (0,) and not adding.done():  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0)
    with pytest.raises(InvalidItemError, match="item '1' already exists"):
        await adding
    assert {key: item.body for key, item in (await collection.get(["1"])).items()} == {"1": "theirs"}


async def test_many_items_take_as_many_statements_as_few(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items without vectors are stored in one round trip of each kind, without additional locks."""
    collection = await platform.collection("docs")
    statements: list[Any] = []
    read_rows = Database._read  # noqa: SLF001 - it is what goes over the wire

    async def counted(self: Database, *arguments: Any) -> Any:
        statements.append(arguments)
        return await read_rows(self, *arguments)

    monkeypatch.setattr(Database, "_read", counted)
    counts = []
    for name, number in (("few", 2), ("many", 50)):
        statements.clear()
        await collection.add([{"_id": f"{name}{place}", "status": "archived"} for place in range(number)])
        counts.append(len(statements))
    assert counts[0] == counts[1] > 0


async def test_an_archived_item_is_not_found_by_a_space_that_has_just_come(
    platform: Platform, database_url: str, settings: Settings
) -> None:
    """The one who archives it may not know that the collection has vectors."""
    async with connect(database_url, settings=settings.changed(embedder="none")) as words_only:
        stale = await words_only.collection("docs")
        await stale.add([{"_id": "1", "text": "the cat sat"}, {"_id": "2", "text": "the dog sat"}])
        collection = await platform.collection("docs")
        await collection.add([{"_id": "1", "text": "the cat sat"}, {"_id": "2", "text": "the dog sat"}])
        assert await set_status(handle_of(stale), "1", "archived")
    assert list(await collection.embeddings(["1", "2"])) == ["2"]


class SlowEmbedder(HashingEmbedder):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """The vectors, once it may answer."""
        if role is TextRole.DOCUMENT:
            await self.may_answer.wait()
        return await super().embed(texts, role)


async def test_a_change_of_attributes_alone_embeds_nothing(platform: Platform) -> None:
    """The vector stays; an item whose vector is missing gets one."""
    collection = await platform.collection("docs", space=SPACE)
    await collection.add([{"_id": "1", "text": "one"}], embeddings=[[1, 0, 0]])
    await collection.add([{"_id": "2", "text": "two"}])

    report = await collection.add([{"_id": "1", "text": "one", "n": 1}, {"_id": "2", "text": "two", "n": 2}])

    assert (report.changed, report.embedded, report.pending) == (2, 0, 1)
    assert set(await collection.embeddings(["1", "2"])) == {"1"}
    assert [hit.id for hit in await collection.search(vector=[1, 0, 0], where={"n": 1})] == ["1"]


@pytest.mark.parametrize("call", ["add", "put", "patch", "change"])
async def test_no_search_compares_the_vector_of_a_former_text(database_url: str, settings: Settings, call: str) -> None:
    """An item whose text changes while the embedder is away has no vector until it has a new one."""
    embedder = RefusingEmbedder()
    embedder.refuses = False
    async with connect(database_url, settings=settings, embedder=embedder) as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": "1", "text": "the secret plan"}, {"_id": "2", "text": "the weather"}])
        embedder.refuses = True
        changed = {"id": "1", "text": "a holiday"}
        match call:
            case "add":
                await collection.add([changed])
            case "put":
                await collection.put(changed)
            case "patch":
                await collection.patch("1", {"text": "a holiday"})
            case "change":
                await collection.change(["1"], lambda *_: Item(item_id="1", body="a holiday"))
        assert [hit.id for hit in await collection.search("the secret plan", legs=["dense"])] == ["2"]
        assert (await collection.info()).pending == 1
        embedder.refuses = False
        assert (await collection.add([changed])).embedded == 1
        assert [hit.id for hit in await collection.search("a holiday", legs=["dense"])] == ["1", "2"]


async def test_items_do_not_wait_long_for_their_vectors(
    database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the embedder takes its time they are stored and found by words; then one call has done both."""
    monkeypatch.setattr(add, "SOON_SECONDS", 0.05)
    embedder = SlowEmbedder()
    async with connect(database_url, settings=settings, embedder=embedder) as platform:
        collection = await platform.collection("docs")
        adding = asyncio.create_task(collection.add([{"_id": "1", "text": "the cat sat"}]))
        async with asyncio.timeout(10):
            while not await collection.get(["1"]):
                assert not adding.done()
        assert [hit.item_id for hit in await collection.search("cat", legs=["lexical"])] == ["1"]
        assert (await collection.info()).pending == 1
        embedder.may_answer.set()
        report = await adding
        assert (report.added, report.embedded, report.pending) == (1, 1, 0)
        assert list(await collection.embeddings(["1"])) == ["1"]


async def test_an_item_whose_vector_comes_soon_is_stored_with_it_in_one_transaction(platform: Platform) -> None:
    """One transaction stores rows and vectors, so no reader sees an item without its vector."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": str(number), "text": f"word{number}"} for number in range(20)])
    stored = await collection.refresh()
    assert stored.space is not None
    transactions = Compiled(
        "SELECT DISTINCT i.xmin::text, e.xmin::text, t.xmin::text FROM items i "  # noqa: S608 - a number of its own
        f"JOIN {stored.space.table_name} e USING (collection_id, item_id) "
        "JOIN item_terms t USING (collection_id, item_id) WHERE collection_id = %(id)s",
        {"id": stored.collection_id},
    )
    [(items, vectors, terms)] = await platform.database.read(platform.tenant_id, transactions)
    assert items == vectors == terms
