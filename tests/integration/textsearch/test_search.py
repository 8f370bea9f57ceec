"""BM25 by pg_textsearch and the portable way: the same items, the same scores, the same order, whatever happens."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from psycopg import sql

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.search.textsearch import index_name, table_name
from retrieval.collection import handle_of
from retrieval.domain.errors import MissingPrivilegeError
from retrieval.engine.collection_search import leg_rankings
from retrieval.services.textsearch import TextsearchOutcome, keep_textsearch_index
from tests.support.database import act_as

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau".split()  # noqa: SIM905
QUERIES = ("alpha", "beta gamma delta", "kappas of the pi nowhere", "alpha alpha ALPHA mu", " ".join(WORDS))

Ranking = list[tuple[str, float]]


class Both:
    """Two collections that always hold the same items: one has an index of the extension's, the other none."""

    def __init__(self, platform: Platform, portable: Collection, served: Collection) -> None:
        self._platform = platform
        self._portable = portable
        self.served = served

    @classmethod
    async def opened(cls, platform: Platform, language: str = "english") -> Both:
        """Two empty collections; the index is there from the start, so that it sees every change."""
        portable = await platform.collection("portable", space=None, language=language)
        served = await platform.collection("served", space=None, language=language)
        outcome = await keep_textsearch_index(platform.database, await served.refresh(), rows=0)
        assert outcome is TextsearchOutcome.BUILT
        return cls(platform, portable, served)

    async def add(self, items: list[dict[str, Any]]) -> None:
        """Add the items to both."""
        await self._portable.add(items)
        await self.served.add(items)

    async def delete(self, ids: list[str]) -> None:
        """Delete the items from both."""
        await self._portable.delete(ids)
        await self.served.delete(ids)

    async def by_extension(self, query: str, limit: int = 1000) -> Ranking:
        """The ranking by the extension."""
        number = (await self.served.refresh()).collection_id
        return await _by_extension(self._platform, number, query, limit)

    async def agree(self, query: str, limit: int = 1000) -> Ranking:
        """The ranking of both ways, which must agree; with a filter the portable way ranks every item."""
        ranking = await self.by_extension(query, limit)
        rankings = await leg_rankings(
            handle_of(self._portable), query, legs=["lexical"], where={"kind": ""}, depth=limit
        )
        portable = {hit.item_id: hit.score for hit in rankings["lexical"]}
        assert dict(ranking) == pytest.approx(portable, abs=1e-5)
        assert ranking == sorted(ranking, key=lambda pair: (-pair[1], pair[0]))
        return ranking


async def _by_extension(platform: Platform, collection: int, query: str, limit: int) -> Ranking:
    search = Compiled(
        "SELECT item_id, score FROM textsearch_search(%(collection)s::bigint, %(query)s, %(limit)s::integer)",
        {"collection": collection, "query": query, "limit": limit},
    )
    return [(row[0], row[1]) for row in await platform.database.read(platform.tenant_id, search)]


async def _words(admin: psycopg.AsyncConnection[Any], collection: Collection) -> dict[str, str]:
    """The words that the extension has of each item."""
    statement = sql.SQL("SELECT item_id, words FROM {}").format(await _table(collection))
    return dict(await (await admin.execute(statement)).fetchall())


async def _table(collection: Collection) -> sql.Identifier:
    return sql.Identifier(table_name((await collection.refresh()).collection_id))


@pytest.fixture
async def both(platform: Platform) -> Both:
    """The two collections."""
    return await Both.opened(platform)


@pytest.mark.parametrize("seed", range(3))
async def test_both_ways_agree_after_any_changes(both: Both, seed: int) -> None:
    """Adding, changing, archiving, reviving and deleting in any order leaves nothing behind in either."""
    chance = random.Random(seed)
    active: set[str] = set()
    for _ in range(10):
        batch = {
            str(chance.randrange(15)): " ".join(chance.choices(WORDS, k=chance.choice((0, 1, 3, 40)))) for _ in "ab"
        }
        match chance.choice(("add", "add", "add", "archive", "delete", "title")):
            case "add":
                await both.add([{"_id": key, "text": body} for key, body in batch.items()])
                active |= batch.keys()
            case "title":
                await both.add([{"_id": key, "title": body, "text": "alpha"} for key, body in batch.items()])
                active |= batch.keys()
            case "archive":
                await both.add([{"_id": key, "text": body, "status": "archived"} for key, body in batch.items()])
                active -= batch.keys()
            case "delete":
                await both.delete(list(batch))
                active -= batch.keys()
        for query in QUERIES:
            assert {item_id for item_id, _ in await both.agree(query)} <= active
    await both.add([{"_id": "last", "text": "alpha beta"}])
    assert await both.agree("alpha")


async def test_equal_scores_are_ordered_by_item_id(both: Both) -> None:
    """Items with the same words have the same score, and are ordered by id."""
    await both.add([{"_id": f"{number:02}", "text": "alpha beta"} for number in reversed(range(30))])
    await both.add([{"_id": "none", "text": "gamma"}])
    assert [item_id for item_id, _ in await both.agree("alpha")] == [f"{number:02}" for number in range(30)]


async def test_a_page_has_the_requested_number_of_best_items(both: Both) -> None:
    """A short page holds the best of a long one, although the extension rounds lengths."""
    chance = random.Random(1)
    await both.add(
        [{"_id": f"{number:03}", "text": " ".join(chance.choices(WORDS, k=3 + number % 50))} for number in range(400)]
    )
    for query in QUERIES:
        longest = await both.agree(query)
        for limit in (1, 10, 100):
            ranking = await both.by_extension(query, limit)
            assert len(ranking) == min(limit, len(longest))
            assert [score for _, score in ranking] == pytest.approx([score for _, score in longest[:limit]], rel=0.02)


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
async def test_text_of_every_script_is_found_alike(both: Both, text: str, query: str) -> None:
    """The extension gets the platform's own lexemes, so it need not split any script itself."""
    await both.add([{"_id": "it", "text": text}, {"_id": "other", "text": "nothing 别的东西 ほかのもの อื่นๆ"}])
    assert [item_id for item_id, _ in await both.agree(query)] == ["it"]


@pytest.mark.parametrize(
    "query",
    ["", "the of and", "'", "''", "&|!()", "\\", "a & b | !c", "%s", "{}", ":*", "<->", "x" * 3000, "-" * 50, "12345"],
)
async def test_an_odd_query_is_not_an_error(both: Both, query: str) -> None:
    """A query without any known word finds nothing, and is not sent to the extension."""
    await both.add([{"_id": "1", "text": "ordinary words"}])
    assert await both.by_extension(query) == []


HUGE = {
    "20,000 words": lambda: " ".join(f"word{number}" for number in range(20_000)),
    "one megabyte of words": lambda: " ".join(f"w{number:x}" for number in range(180_000)),
    "one word": lambda: "x" * 2_000_000,
    "unspaced": lambda: "".join(chr(0x4E00 + number * 7 % 20_000) for number in range(300_000)),
    "one character": lambda: "\u4e00" * 300_000,
}  # fmt: skip
"""Made where they are needed: to make all takes as long as to load a hundred tests."""


@pytest.mark.parametrize("name", HUGE)
async def test_a_huge_text_is_stored_and_found(both: Both, name: str) -> None:
    """No text is too large for the extension to take, and none keeps another from being stored."""
    await both.add([{"_id": "huge", "text": f"needle {HUGE[name]()}"}, {"_id": "small", "text": "small"}])
    assert [item_id for item_id, _ in await both.agree("small")] == ["small"]


async def test_an_item_is_analyzed_again_only_when_its_words_change(
    both: Both, admin: psycopg.AsyncConnection[Any]
) -> None:
    """A new tag or attribute leaves the row, and with it the index, alone."""
    await both.add([{"_id": "1", "text": "alpha"}])
    row = sql.SQL("SELECT ctid, words FROM {}").format(await _table(both.served))
    before = await (await admin.execute(row)).fetchall()
    await both.add([{"_id": "1", "text": "alpha", "tags": ["new"], "n": 1}])
    assert await (await admin.execute(row)).fetchall() == before
    await both.add([{"_id": "1", "text": "beta", "tags": ["new"], "n": 1}])
    assert await (await admin.execute(row)).fetchall() != before


async def test_another_tenants_collection_is_refused(
    both: Both, textsearch_url: str, settings: Settings, admin: psycopg.AsyncConnection[Any]
) -> None:
    """Neither the function nor its table shows another tenant's rows."""
    await both.add([{"_id": "1", "text": "alpha"}])
    number = (await both.served.refresh()).collection_id
    async with connect(textsearch_url, settings=settings.changed(tenant=f"{settings.tenant}-2")) as other:
        with pytest.raises(MissingPrivilegeError, match=f"collection {number} is not the current tenant's"):
            await _by_extension(other, number, "alpha", 10)
        async with other.database.transaction(other.tenant_id) as connection:
            everything = sql.SQL("SELECT FROM {}").format(await _table(both.served))
            assert (await connection.execute(everything)).rowcount == 0
        with pytest.raises(MissingPrivilegeError):
            await other.database.read(other.tenant_id, Compiled(f"SELECT textsearch_candidates({number}, '1', 10)"))
    assert await _words(admin, both.served) != {}


async def test_the_index_is_walked_under_the_policies(both: Both, platform: Platform) -> None:
    """Row-level security does not keep the application role's search from the index, analyzed or not."""
    await both.add([{"_id": str(number), "text": f"alpha w{number}"} for number in range(300)])
    number = (await both.served.refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        scans = f"SELECT pg_stat_get_xact_numscans('items_{number}_bm25'::regclass)".encode()
        await connection.execute("SELECT textsearch_search(%s, 'alpha w17', 10)", (number,))
        assert await (await connection.execute(scans)).fetchone() == (1,)


async def _walks(platform: Platform, number: int, query: str, *, textsearch: str) -> int:
    """The number of scans of the extension's index by the lexical leg's function for one query."""
    leg = Compiled(
        "SELECT count(*) FROM lexical_search(%(id)s::bigint, %(query)s, '{}', 10)", {"id": number, "query": query}
    )
    # Includes scans of earlier transactions that the process has not reported yet.
    scans = "SELECT pg_stat_get_xact_numscans(%s::regclass)"
    async with platform.database.transaction(platform.tenant_id) as connection:
        before = await connection.value(scans, (index_name(number),))
        await connection.execute("SELECT set_config('retrieval.textsearch', %s, true)", (textsearch,))
        await connection.execute(leg.text, leg.parameters)
        return int(await connection.value(scans, (index_name(number),))) - int(before)


async def test_the_lexical_leg_takes_the_extensions_way_unless_it_is_switched_off(
    both: Both, platform: Platform
) -> None:
    """A search without a filter walks the extension's index; the setting ``retrieval.textsearch`` forbids it."""
    await both.add([{"_id": str(number), "text": f"alpha w{number}"} for number in range(30)])
    number = (await both.served.refresh()).collection_id
    assert await _walks(platform, number, "alpha w17", textsearch="") == 1
    assert await _walks(platform, number, "alpha w17", textsearch="off") == 0
    ranking = (await leg_rankings(handle_of(both.served), "alpha w17", legs=["lexical"], depth=10))["lexical"]
    assert [(hit.item_id, hit.score) for hit in ranking] == await both.by_extension("alpha w17", 10)


async def test_items_of_a_rolled_back_write_are_not_found(both: Both, admin: psycopg.AsyncConnection[Any]) -> None:
    """A write that fails leaves nothing in the extension's index."""
    stored = await both.served.refresh()
    await both.add([{"_id": "1", "text": "alpha"}])
    async with admin.transaction(force_rollback=True):
        row = await (
            await admin.execute("SELECT tenant_id FROM collections WHERE collection_id = %s", (stored.collection_id,))
        ).fetchone()
        assert row is not None
        await act_as(admin, row[0])
        await admin.execute(
            "UPDATE items SET body = 'beta', text_hash = '' WHERE collection_id = %s", (stored.collection_id,)
        )
        await admin.execute("SELECT index_terms(%s, '{1}')", (stored.collection_id,))
    assert await both.agree("beta") == []
    assert [item_id for item_id, _ in await both.agree("alpha")] == ["1"]


async def test_concurrent_writers_leave_the_words_of_the_active_items(
    both: Both, admin: psycopg.AsyncConnection[Any]
) -> None:
    """Eight writers of overlapping items neither deadlock nor leave a word of a deleted item."""

    async def write(writer: int) -> None:
        chance = random.Random(writer)
        for _ in range(4):
            keys = [str(number) for number in chance.sample(range(30), 12)]
            body = " ".join(chance.choices(WORDS, k=20))
            if chance.random() < 0.2:
                await both.served.delete(keys[:6])
            else:
                status = chance.choice(["active", "active", "archived"])
                await both.served.add([{"_id": key, "text": f"{body} {key}", "status": status} for key in keys])

    await asyncio.gather(*map(write, range(8)))
    stored: Mapping[str, Any] = await both.served.get([str(key) for key in range(30)])
    active = {key: item for key, item in stored.items() if item.status != "archived"}
    assert (await _words(admin, both.served)).keys() == active.keys()
    for key in active:
        assert key in {item_id for item_id, _ in await both.by_extension(key)}
