"""The lexical index: BM25 as a reference computes it, statistics that always add up, and texts of every sort."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from retrieval import Collection, Item, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items import items as store
from retrieval.adapters.store.search.terms import DRIFT, fold_statistics, refresh_weights
from retrieval.collection import handle_of
from retrieval.engine.collection_search import leg_rankings
from tests.support.database import SCHEMA, until_somebody_waits

Connection = psycopg.AsyncConnection[Any]
NewDatabase = Callable[..., str]

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau".split()  # noqa: SIM905
K1, B = 1.2, 0.75


async def _number(collection: Collection) -> int:
    return (await collection.refresh()).collection_id


async def _tokens(connection: Connection, text: str) -> Counter[str]:
    """The text's lexemes as PostgreSQL sees them."""
    cursor = await connection.execute(
        "SELECT lexeme, cardinality(positions) FROM unnest(to_tsvector('english', %s))", (text,)
    )
    return Counter(dict(await cursor.fetchall()))


async def _statistics(connection: Connection, number: int) -> dict[str, Any]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute("SELECT * FROM collection_statistics WHERE collection_id = %s", (number,))
        row = await cursor.fetchone()
    # A collection without writes has none.
    return row or {"documents": 0, "total_length": 0, "weighed_length": None, "weighing_after": None}


async def assert_statistics_are_exact(platform: Platform, connection: Connection, number: int) -> None:
    """The statistics that were added up equal a count of all rows."""
    await fold_statistics(CollectionPlace(platform.database, platform.tenant_id, number))
    cursor = await connection.execute(
        """
        (SELECT lexeme, count(*)::integer FROM item_terms, unnest(lexemes) AS lexeme
         WHERE collection_id = %(n)s GROUP BY 1
         EXCEPT SELECT lexeme, document_frequency FROM term_statistics WHERE collection_id = %(n)s)
        UNION ALL
        (SELECT lexeme, document_frequency FROM term_statistics WHERE collection_id = %(n)s AND document_frequency <> 0
         EXCEPT SELECT lexeme, count(*) FROM item_terms, unnest(lexemes) AS lexeme
         WHERE collection_id = %(n)s GROUP BY 1)
        """,
        {"n": number},
    )
    assert await cursor.fetchall() == []
    cursor = await connection.execute(
        "SELECT (SELECT count(*) FROM items WHERE collection_id = %(n)s AND status <> 'archived'), count(*), "
        "coalesce(sum(length), 0)::bigint FROM item_terms WHERE collection_id = %(n)s",
        {"n": number},
    )
    row = await cursor.fetchone()
    assert row is not None
    totals = await _statistics(connection, number)
    assert (totals["documents"], totals["documents"], totals["total_length"]) == row
    assert totals["weighing_after"] is None


async def assert_scores_are_bm25(
    platform: Platform, connection: Connection, collection: Collection, texts: dict[str, str]
) -> None:
    """Every score of the lexical leg is the reference's, and no item is missing."""
    number = await _number(collection)
    await fold_statistics(CollectionPlace(platform.database, platform.tenant_id, number))
    await refresh_weights(CollectionPlace(platform.database, platform.tenant_id, number))
    totals = await _statistics(connection, number)
    documents = {key: await _tokens(connection, text) for key, text in texts.items()}
    frequency = Counter(term for terms in documents.values() for term in terms)
    average = max(totals["weighed_length"] or 0, 1)
    exact = sum(terms.total() for terms in documents.values()) / max(len(documents), 1)
    assert not exact or abs(exact / totals["weighed_length"] - 1) <= DRIFT * 1.001
    for query in ("alpha", "beta gamma delta", "kappas of the pi nowhere", " ".join(WORDS)):
        expected = {}
        for key, terms in documents.items():
            norm = K1 * (1 - B + B * terms.total() / average)
            score = sum(
                math.log(1 + (len(documents) - frequency[term] + 0.5) / (frequency[term] + 0.5))
                * (terms[term] * (K1 + 1) / (terms[term] + norm))
                for term in await _tokens(connection, query)
                if term in terms
            )
            if score:
                expected[key] = score
        ranking = (await leg_rankings(handle_of(collection), query, legs=["lexical"], depth=1000))["lexical"]
        assert {candidate.item_id: candidate.score for candidate in ranking} == pytest.approx(expected, abs=1e-4)
        filtered = await leg_rankings(handle_of(collection), query, legs=["lexical"], where={"kind": ""}, depth=1000)
        assert {candidate.item_id: candidate.score for candidate in filtered["lexical"]} == pytest.approx(
            expected, abs=1e-4
        )


@pytest.mark.parametrize("seed", range(4))
async def test_scores_are_bm25_and_statistics_exact_after_any_changes(
    platform: Platform, connection: Connection, seed: int
) -> None:
    """Adding, changing, archiving, reviving and deleting in any order leaves nothing behind."""
    chance = random.Random(seed)
    collection = await platform.collection("docs")
    texts: dict[str, str] = {}

    def text() -> str:
        return " ".join(chance.choices(WORDS, k=chance.choice((0, 1, 3, 10, 40))))

    for _ in range(12):
        batch = {str(chance.randrange(15)): text() for _ in range(chance.randrange(1, 8))}
        match chance.choice(("add", "add", "add", "archive", "delete", "title")):
            case "add":
                await collection.add([{"_id": key, "text": body} for key, body in batch.items()])
                texts |= batch
            case "title":
                await collection.add([{"_id": key, "title": body, "text": "alpha"} for key, body in batch.items()])
                texts |= {key: f"{body}\nalpha" for key, body in batch.items()}
            case "archive":
                await collection.add([{"_id": key, "text": body, "status": "archived"} for key, body in batch.items()])
                texts = {key: body for key, body in texts.items() if key not in batch}
            case "delete":
                await collection.delete(list(batch))
                texts = {key: body for key, body in texts.items() if key not in batch}
        await assert_statistics_are_exact(platform, connection, await _number(collection))
    await collection.add([{"_id": "last", "text": text()}])
    items = await collection.get(["last"])
    await assert_scores_are_bm25(platform, connection, collection, texts | {"last": items["last"].indexed_text})


async def test_the_same_texts_rank_the_same_in_every_collection(platform: Platform) -> None:
    """This also holds if only a rounding in the sum distinguishes two texts."""
    words = [WORDS[:2], WORDS[2:5], WORDS[5:9], WORDS[9:14]]
    texts = [" ".join(some) for some in product(*words)]
    orders = set()
    for name in ("one", "two", "three", "four", "five"):
        collection = await platform.collection(name)
        await collection.add([{"_id": f"i{place:03}", "text": text} for place, text in enumerate(texts)])
        hits = await collection.search(" ".join(WORDS[:14]), legs=["lexical"], limit=200)
        orders.add(tuple(hit.item_id for hit in hits))
    assert [len(order) for order in orders] == [120]


async def test_concurrent_writers_end_with_exact_statistics(platform: Platform, connection: Connection) -> None:
    """Eight writers of overlapping items, changing, archiving and deleting, neither deadlock nor miscount."""
    collection = await platform.collection("docs")

    async def write(writer: int) -> None:
        chance = random.Random(writer)
        for _ in range(6):
            keys = [str(number) for number in chance.sample(range(30), 12)]
            body = " ".join(chance.choices(WORDS, k=20))
            if chance.random() < 0.2:
                await collection.delete(keys[:6])
            else:
                status = chance.choice(["active", "active", "archived"])
                await collection.add([{"_id": key, "text": f"{body} {key}", "status": status} for key in keys])

    await asyncio.gather(*map(write, range(8)))
    number = await _number(collection)
    await assert_statistics_are_exact(platform, connection, number)
    stored = await collection.get([str(key) for key in range(30)])
    texts = {key: item.indexed_text for key, item in stored.items() if item.status != "archived"}
    await collection.add([{"_id": "last", "text": "alpha"}])
    await assert_scores_are_bm25(platform, connection, collection, texts | {"last": "alpha"})
    assert (await collection.info()).pending == 0


async def test_an_item_that_is_added_while_its_key_is_deleted_is_not_half_deleted(
    platform: Platform, connection: Connection
) -> None:
    """Deleting a missing key leaves alone what another writer stores under it meanwhile."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": "1", "text": "alpha"}])
    number = await _number(collection)
    async with platform.database.transaction(platform.tenant_id) as holder:
        await store.hold_item(holder, number, "1")
        deleting = asyncio.create_task(collection.delete(["1", "2"]))
        await until_somebody_waits(platform)
        await collection.add([{"_id": "2", "text": "beta"}])  # of equal length, so that no weights change
    assert await deleting == 1
    assert set(await collection.get(["1", "2"])) == {"2"}
    await assert_statistics_are_exact(platform, connection, number)


async def test_an_archived_item_has_no_vector_whatever_was_written_at_the_same_time(
    platform: Platform, connection: Connection
) -> None:
    """Archiving and embedding one item at the same moment never leaves a vector that a search would find."""
    collection = await platform.collection("docs")
    for round_ in range(10):
        await asyncio.gather(
            collection.add([{"_id": "1", "text": f"words {round_}"}]),
            collection.add([{"_id": "1", "text": f"words {round_}", "status": "archived"}]),
        )
        stored = (await collection.get(["1"]))["1"]
        hits = await collection.search("words")
        assert [hit.status for hit in hits] == ([] if stored.status == "archived" else ["active"])
    await assert_statistics_are_exact(platform, connection, await _number(collection))


async def test_the_first_items_being_empty_does_not_spoil_the_weights(
    platform: Platform, connection: Connection
) -> None:
    """A collection whose first items have no words is weighed by its average length once it has one."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": "empty"}, {"_id": "stop", "text": "the of and"}])
    body = " ".join(WORDS)
    await collection.add([{"_id": str(number), "text": f"{body} alpha"} for number in range(5)])
    texts = {"empty": "", "stop": "the of and"} | {str(number): f"{body} alpha" for number in range(5)}
    await assert_scores_are_bm25(platform, connection, collection, texts)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("東京タワーは港区にある", "港区"),
        ("我们在北京的图书馆学习", "图书馆"),
        ("서울특별시청에서 만나요", "특별시"),
        ("กรุงเทพมหานครเป็นเมืองหลวง", "เมืองหลวง"),
        ("error コード in the 印刷 module", "印刷"),
        ("error コード in the 印刷 module", "modules"),
        ("Übergrößenträger", "übergrößenträger"),
        ("Ошибка соединения", "соединения"),
    ],
)
async def test_text_of_every_script_is_found_by_its_words(platform: Platform, text: str, query: str) -> None:
    """Scripts without spaces are found by their bigrams, alone or among others."""
    collection = await platform.collection("docs")
    other = {"_id": "other", "text": "nothing of the sort 别的东西 ほかのもの อื่นๆ"}
    await collection.add([{"_id": "it", "text": text}, other])
    assert [hit.item_id for hit in await collection.search(query, legs=["lexical"])] == ["it"]


NAMES = """
at org.apache.hadoop.hdfs.DFSClient.open(DFSClient.java:123), see https://issues.example.org/browse/HDFS-1234
a lock for read/write in /var/log/kafka/server.log, written by ann@example.org for a Map<String, List<Integer>>
if count<least and highest>most on 2024-05-01T10:00 then <b>stop</b> at -7 or 2.7.3 of well-known or e.g. U.S. parts
"""


@pytest.mark.parametrize(
    "query",
    [
        *(
            "DFSClient",
            "dfsclient.java",
            "org.apache.hadoop.hdfs.DFSClient",
            "browse",
            "issues.example.org",
            "HDFS-1234",
        ),
        *(
            "1234",
            "hdfs 1234",
            "write",
            "read/write",
            "kafka",
            "server.log",
            "/var/log/kafka/server.log",
            "ann",
            "example",
        ),
        *("ann@example.org", "String", "Integer", "least", "highest", "05", "2024-05-01", "-7", "2.7.3", "well-known"),
        *("known", "U.S.", '"read write"', '"var log"', '"DFSClient open"', "dfscl*", "org.apache.had*", "HDFS-12*"),
    ],
)
async def test_a_word_within_a_path_a_name_or_an_address_is_found(platform: Platform, query: str) -> None:
    """PostgreSQL's parser reads some of these as one word, and leaves others out."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": "it", "text": NAMES}, {"_id": "other", "text": "nothing of the sort"}])
    assert [hit.item_id for hit in await collection.search(query, legs=["lexical"])] == ["it"]


@pytest.mark.parametrize("query", ["7", "2.7", "b", "3"])
async def test_parts_of_numbers_and_tags_are_no_words(platform: Platform, query: str) -> None:
    """A version is one word, and a minus that follows no word belongs to its number."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": "it", "text": NAMES}])
    assert not await collection.search(query, legs=["lexical"])


@pytest.mark.parametrize(
    "query",
    [
        "the of and",
        "'",
        "''",
        "&|!()",
        "\\",
        "a & b | !c",
        "🙂",
        "%",
        "{}",
        ":*",
        "<->",
        "\x01",
        "x" * 3000,
        "?!…",
        "-" * 50,
    ],
)
async def test_an_odd_query_is_not_an_error(platform: Platform, query: str) -> None:
    """A query without any known word finds nothing by words, and raises no error."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": "1", "text": "ordinary words"}])
    assert list(await collection.search(query, legs=["lexical"])) == []
    assert list(await collection.search(query, legs=["lexical"], where={"kind": ""})) == []


def _hyphenated(first_letter: int, letters: int) -> str:
    """Distinct words in pairs: in a tsvector, each pair and each word."""
    digits = [chr(first_letter + place) for place in range(letters)]
    words = (digits[a] + digits[b] + digits[c] for a in range(letters) for b in range(letters) for c in range(letters))
    return " ".join(f"{word}-{next(words)}" for word in words)


HUGE = {
    "20,000 words": lambda: " ".join(f"word{number}" for number in range(20_000)),
    "one megabyte of words": lambda: " ".join(f"w{number:x}" for number in range(180_000)),
    "hyphens in three-byte letters": lambda: _hyphenated(0x915, 40),
    "hyphens in four-byte letters": lambda: _hyphenated(0x10400, 40),
    "one word": lambda: "x" * 2_000_000,
    "unspaced": lambda: "".join(chr(0x4E00 + number * 7 % 20_000) for number in range(300_000)),
    "paths": lambda: " ".join(f"/a{number}/b{number}.c{number}" for number in range(20_000)),
}  # fmt: skip
"""Made where they are needed: to make all takes as long as to load a hundred tests."""


@pytest.mark.parametrize("name", HUGE)
async def test_a_huge_text_is_stored_and_found(platform: Platform, name: str) -> None:
    """More words than a vector holds, and more bytes than PostgreSQL can index, fail neither item nor batch."""
    collection = await platform.collection("docs", space=None)
    text = f"needle {HUGE[name]()}"
    report = await collection.add([{"_id": "huge", "text": text}, {"_id": "small", "text": "small"}])
    assert report.added == 2
    ranking = (await leg_rankings(handle_of(collection), "small", legs=["lexical"]))["lexical"]
    assert [hit.item_id for hit in ranking] == ["small"]


async def test_a_query_of_100_kilobytes_is_answered(new_database: NewDatabase, settings: Settings) -> None:
    """A query with more known words than a sparse vector holds is answered by its rarest, where the bound allows it."""
    # In a separate database: statistics of other tests' words would affect the duration.
    url = new_database()
    async with (
        connect(url, settings=settings.changed(max_query_bytes=200_000), embedder=HashingEmbedder()) as platform,
        await psycopg.AsyncConnection.connect(url) as connection,
    ):
        await connection.execute("SELECT set_config('search_path', %s, true)", (f'"{SCHEMA}", public, pg_temp',))
        await _ask_100_kilobytes(platform, connection)


async def _ask_100_kilobytes(platform: Platform, connection: Connection) -> None:
    collection = await platform.collection("docs")
    words = [f"w{number}" for number in range(20_000)]
    await collection.add(
        [{"_id": str(start), "text": " ".join(words[start : start + 5000])} for start in range(0, 20_000, 5000)]
    )
    query = " ".join(words)
    assert len(query) > 100_000
    ranking = (await leg_rankings(handle_of(collection), query, legs=["lexical"]))["lexical"]
    assert {candidate.item_id for candidate in ranking} == {"0", "5000", "10000", "15000"}
    filtered = await leg_rankings(handle_of(collection), query, legs=["lexical"], where={"kind": ""})
    assert {candidate.item_id for candidate in filtered["lexical"]} == {"0", "5000", "10000", "15000"}
    await assert_statistics_are_exact(platform, connection, await _number(collection))


async def test_an_item_without_words_is_stored_and_not_found_by_words(platform: Platform) -> None:
    """An empty text takes part in the statistics and in nothing else."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": "empty"}, {"_id": "1", "text": "words"}])
    assert [hit.item_id for hit in await collection.search("words", legs=["lexical"])] == ["1"]
    assert (await collection.info()).items == 2


async def _waiting(platform: Platform, number: int) -> int:
    """The number of writes whose differences are not added up."""
    statement = Compiled("SELECT count(*) FROM statistics_changes WHERE collection_id = %(n)s", {"n": number})
    return int((await platform.database.read(platform.tenant_id, statement))[0][0])


async def test_statistics_that_are_not_added_up_yet_count(platform: Platform) -> None:
    """A word of the last item alone is found by itself and by its beginning, as one that a single item has."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": str(number), "text": f"common word{number}"} for number in range(100)])
    number = await _number(collection)
    assert await _waiting(platform, number) == 0
    await collection.add([{"_id": "late", "text": "common xylophone"}])
    assert await _waiting(platform, number) == 1
    [before] = (await leg_rankings(handle_of(collection), "xylophone", legs=["lexical"]))["lexical"]
    assert before.item_id == "late"
    assert [hit.item_id for hit in await collection.search("xyl*", legs=["lexical"])] == ["late"]
    assert [hit.item_id for hit in await collection.search("nowhere", legs=["lexical"])] == []
    assert (await collection.refresh()).documents == 101
    await fold_statistics(CollectionPlace(platform.database, platform.tenant_id, number))
    assert await _waiting(platform, number) == 0
    assert [hit.item_id for hit in await collection.search("xylophone", legs=["lexical"])] == ["late"]
    [after] = (await leg_rankings(handle_of(collection), "xylophone", legs=["lexical"]))["lexical"]
    assert after.score == pytest.approx(before.score, rel=0.02)


async def test_writers_of_other_items_do_not_wait_for_one_that_is_not_done(
    platform: Platform, connection: Connection
) -> None:
    """Adding, changing and removing do not wait for the open transaction; neither do its statistics."""
    collection = await platform.collection("docs")
    await collection.add([{"_id": str(number), "text": f"common word{number}", "tags": ["t"]} for number in range(50)])
    number = await _number(collection)
    async with platform.database.transaction(platform.tenant_id) as open_one:
        await store.write_items(
            open_one, store.ItemWrite(number, [Item(item_id="open", body="common open", tags=("t",))])
        )
        async with asyncio.timeout(10):
            await collection.add([{"_id": "new", "text": "common other", "tags": ["t"]}])
            await collection.add([{"_id": "1", "text": "common changed", "tags": ["u"]}])
            assert await collection.delete("2")
    await assert_statistics_are_exact(platform, connection, number)
    assert (await collection.refresh()).documents == 51
