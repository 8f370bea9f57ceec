"""Items that are indexed together with their neighbours: what their index holds, after whatever was done to whom."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import psycopg
import pytest

from retrieval import Collection, Platform
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.items.collections import reindex_windows, store_neighbours
from retrieval.adapters.store.items.items import hold_items, remove_items, vectors_statement
from retrieval.adapters.store.round_trip import run_together
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.items.embedding import TextRole
from retrieval.domain.items.item import Item, text_hash
from retrieval.domain.search.filters import Contains
from retrieval.jobs.registry import JOBS
from retrieval.services.add import Writer
from retrieval.services.workplace import JobTarget
from tests.support.cluster import LOCK_WAITS, not_on_a_cluster
from tests.support.database import until_somebody_waits

Connection = psycopg.AsyncConnection[Any]

SETTING = Neighbours(sequence="talk", order="turn", before=2, after=1, own_weight=3)
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau".split()  # noqa: SIM905


@dataclass(frozen=True)
class Indexed:
    """The index rows of a collection, by item id."""

    terms: Mapping[str, dict[str, int]]
    vectors: Mapping[str, Any]
    versions: Mapping[str, tuple[str, str]]
    """Values that change whenever an item's row in either index is written."""


async def _number(collection: Collection) -> int:
    return (await collection.refresh()).collection_id


async def indexed(connection: Connection, collection: Collection) -> Indexed:
    """Read both indexes."""
    stored = await collection.refresh()
    assert stored.space is not None
    cursor = await connection.execute(
        "SELECT t.item_id, (SELECT jsonb_object_agg(s.term, f) FROM unnest(t.lexemes, t.frequencies) AS u (l, f) "  # noqa: S608
        "JOIN term_statistics AS s ON s.collection_id = %(id)s AND s.lexeme = u.l), t.ctid::text || t.xmin, "
        "e.vector, e.ctid::text || e.xmin, t.length FROM item_terms AS t "
        f"LEFT JOIN {stored.space.table_name} AS e ON e.collection_id = %(id)s AND e.item_id = t.item_id "
        "WHERE t.collection_id = %(id)s",
        {"id": stored.collection_id},
    )
    rows = await cursor.fetchall()
    for row in rows:
        assert row[5] == sum((row[1] or {}).values())
    return Indexed(
        {row[0]: row[1] or {} for row in rows},
        {row[0]: np.array([float(number) for number in row[3].strip("[]").split(",")]) for row in rows if row[3]},
        {row[0]: (row[2], row[4]) for row in rows},
    )


def windows(items: Mapping[str, Item], setting: Neighbours | None) -> dict[str, list[str]]:
    """The neighbours of each active item."""
    active = {key: item for key, item in items.items() if item.status != "archived"}
    if setting is None:
        return {key: [] for key in active}
    by_item: dict[str, list[str]] = {}
    for key, item in active.items():
        talk = item.attributes.get(setting.sequence)
        mates = sorted(
            (mate.attributes.get(setting.order, float("inf")), item_id)
            for item_id, mate in active.items()
            if talk is not None and mate.attributes.get(setting.sequence) == talk
        )
        order = [item_id for _, item_id in mates]
        place = order.index(key) if talk is not None else 0
        by_item[key] = (
            order[max(0, place - setting.before) : place] + order[place + 1 : place + 1 + setting.after]
            if talk is not None
            else []
        )
    return by_item


async def expected(items: Mapping[str, Item], setting: Neighbours | None) -> Indexed:
    """The expected index rows: words that no dictionary changes, and vectors of the hashing embedder.

    An item without text has no vector, and is in no other item's.
    """
    weight = setting.own_weight if setting else 1
    around = windows(items, setting)
    terms, vectors = {}, {}
    texts = [item.indexed_text for item in items.values()]
    own = dict(zip(items, await HashingEmbedder().embed(texts, TextRole.DOCUMENT), strict=True))
    for key, near in around.items():
        frequencies = Counter({word: n * weight for word, n in Counter(items[key].indexed_text.split()).items()})
        for item_id in near:
            frequencies.update(items[item_id].body.split())
        terms[key] = dict(frequencies)
        if items[key].indexed_text:
            known = [own[item_id] for item_id in near if items[item_id].indexed_text]
            mixed = weight * own[key] + sum(known, np.zeros_like(own[key]))
            vectors[key] = mixed / np.linalg.norm(mixed)
    return Indexed(terms, vectors, {})


async def assert_indexed(
    connection: Connection, collection: Collection, items: Mapping[str, Item], setting: Neighbours | None = SETTING
) -> None:
    """Both indexes equal those of a collection that had all items from the start."""
    stored, wanted_index = await indexed(connection, collection), await expected(items, setting)
    assert stored.terms == wanted_index.terms
    assert stored.vectors.keys() == wanted_index.vectors.keys()
    for key, vector in wanted_index.vectors.items():
        assert stored.vectors[key] == pytest.approx(vector, abs=2e-3), key


def turn(number: float, text: str, talk: str | None = "a", **more: Any) -> Item:
    """A turn of a conversation."""
    attributes = {"turn": number} | ({"talk": talk} if talk else {})
    return Item(item_id=more.pop("item_id", f"{talk}{number}"), body=text, attributes=attributes, **more)


async def talk_of(platform: Platform, length: int) -> tuple[Collection, dict[str, Item]]:
    """A collection with one conversation, each of whose turns has a word of its own."""
    collection = await platform.collection("talks", neighbours=SETTING)
    items = {f"a{number}": turn(number, f"{WORDS[number]} omega", title="psi") for number in range(length)}
    await collection.add(list(items.values()))
    return collection, items


async def test_any_changes_leave_the_indexes_as_if_made_at_once(platform: Platform, connection: Connection) -> None:
    """Adding, editing, moving, archiving and deleting in any order reindexes all that it concerns."""
    chance = random.Random(5)
    collection = await platform.collection("talks", neighbours=SETTING)
    items: dict[str, Item] = {}

    def made(key: str) -> Item:
        return Item(
            item_id=key,
            title=chance.choice(["", "psi", "phi chi"]),
            body=" ".join(chance.choices(WORDS, k=chance.choice((0, 1, 3, 6)))),
            attributes={"talk": chance.choice(["a", "b"]), "turn": chance.choice([1, 2.5, 3, 4])}
            if chance.random() < 0.9
            else {"turn": 3},
            status=chance.choice(["active"] * 5 + ["archived"]),
        )

    for _ in range(14):
        keys = [str(number) for number in chance.sample(range(12), chance.randrange(1, 6))]
        if chance.random() < 0.2:
            await collection.delete(keys)
            items = {key: item for key, item in items.items() if key not in keys}
        else:
            batch = [made(key) for key in keys]
            await collection.add(batch)
            items |= {item.item_id: item for item in batch}
        await assert_indexed(connection, collection, items)
        assert (await collection.info()).pending == 0


EDITED = turn(4, "mu nu", title="psi")


@pytest.mark.parametrize(
    ("change", "concerned"),
    [
        (turn(3.5, "mu nu", item_id="new"), "a3 new a4 a5"),
        (EDITED, "a3 a4 a5 a6"),
        (turn(4, ""), "a3 a4 a5 a6"),
        (None, "a3 a5 a6"),
        (replace(EDITED, status="archived"), "a3 a5 a6"),
        (turn(8.5, "epsilon omega", item_id="a4", title="psi"), "a3 a5 a6 a8 a4 a9 a10"),
        (turn(4, "mu nu", talk=None, item_id="a4"), "a3 a4 a5 a6"),
        (replace(turn(4, "epsilon omega", title="psi"), tags=("tagged",)), "a4"),
    ],
    ids=["insert", "edit", "empty", "delete", "archive", "move", "leave", "tag"],
)
async def test_a_change_writes_exactly_the_neighbours_concerned(
    platform: Platform, connection: Connection, change: Item | None, concerned: str
) -> None:
    """No other item's row in either index is written, and all that should be are right."""
    collection, items = await talk_of(platform, 12)
    stored = await collection.refresh()
    assert stored.space is not None
    before = await indexed(connection, collection)
    # Otherwise the collection would recompute all weights, because few items have another average length.
    if change is None:
        del items["a4"]
        await remove_items(CollectionPlace(platform.database, platform.tenant_id, stored.collection_id), ["a4"])
    else:
        items[change.item_id] = change
        embedder = platform.workplace.embedder_of(platform.tenant_id, stored.space)
        await Writer(platform.database, platform.tenant_id, stored, embedder).add([change])
    after = await indexed(connection, collection)
    written = {key for key, versions in after.versions.items() if before.versions.get(key) != versions}
    assert written == set(concerned.split())
    await assert_indexed(connection, collection, items)


async def test_writers_of_adjacent_items_neither_deadlock_nor_miss_each_other(
    platform: Platform, connection: Connection
) -> None:
    """After six concurrent writers of one conversation, the indexes match the stored items."""
    collection = await platform.collection("talks", neighbours=SETTING)

    async def write(writer: int) -> None:
        chance = random.Random(writer)
        for _ in range(4):
            numbers = chance.sample(range(10), 4)
            if chance.random() < 0.2:
                await collection.delete([f"a{number}" for number in numbers[:2]])
            else:
                await collection.add([turn(number, " ".join(chance.choices(WORDS, k=5))) for number in numbers])

    await asyncio.gather(*map(write, range(6)))
    await assert_indexed(connection, collection, await collection.get([f"a{number}" for number in range(10)]))


async def test_a_setting_that_comes_later_changes_or_goes_reindexes_what_is_stored(
    platform: Platform, connection: Connection
) -> None:
    """The embedder is not called: each item's own vector is stored separately."""
    collection = await platform.collection("talks")
    items = {f"a{number}": turn(number, f"{WORDS[number]} omega") for number in range(8)}
    await collection.add(list(items.values()))
    plain = await indexed(connection, collection)
    for setting in (SETTING, Neighbours(sequence="talk", order="turn", before=0, after=3), None):
        assert await collection.set_neighbours(setting) == 8
        assert (await collection.info()).neighbours == setting
        await assert_indexed(connection, collection, items, setting)
        assert await collection.set_neighbours(setting) == 0
    again = await indexed(connection, collection)
    assert again.terms == plain.terms
    assert all((again.vectors[key] == vector).all() for key, vector in plain.vectors.items())
    cursor = await connection.execute(
        "SELECT count(*) FROM item_places WHERE collection_id = %(n)s UNION ALL "
        "SELECT count(*) FROM own_vectors WHERE collection_id = %(n)s",
        {"n": await _number(collection)},
    )
    assert await cursor.fetchall() == [(0,), (0,)]


async def test_an_interrupted_change_is_finished_by_the_same_call_or_the_job(
    platform: Platform, connection: Connection
) -> None:
    """The walk resumes at its stored position; items written meanwhile are correct at once."""
    collection = await platform.collection("talks")
    items = {f"a{number}": turn(number, f"{WORDS[number]} omega") for number in range(6)}
    await collection.add(list(items.values()))
    number = await _number(collection)
    async with platform.database.transaction(platform.tenant_id) as writing:
        await store_neighbours(writing, number, SETTING)
        assert await reindex_windows(writing, number, 2) == 2
    items["a5"] = turn(5, "tau omega")
    await collection.add([items["a5"]])
    target = JobTarget(platform.tenant_id, await collection.refresh())
    assert await JOBS["neighbours"].is_needed(platform.workplace, target)
    assert (await JOBS["neighbours"].run(platform.workplace, target))["reindexed"] == 4
    assert not await JOBS["neighbours"].is_needed(platform.workplace, target)
    await assert_indexed(connection, collection, items)


async def test_filters_on_words_look_at_the_item_itself(platform: Platform) -> None:
    """A phrase, an excluded word and ``Contains`` mean the text that the hit shows, not its neighbours'."""
    collection = await platform.collection("talks", neighbours=SETTING)
    await collection.add([turn(1, "green zebras run"), turn(2, "yes indeed"), turn(3, "no zebras here")])

    async def found(query: str, where: Any = None) -> set[str]:
        return {hit.item_id for hit in await collection.search(query, legs=["lexical"], where=where)}

    assert await found("zebras") == {"a1", "a2", "a3"}
    assert await found('"zebras" indeed') == {"a1", "a3"}
    assert await found('"green zebras" indeed') == {"a1"}
    assert await found("indeed -zebras") == {"a2"}
    assert await found("indeed", Contains("zebra")) == {"a1", "a3"}


async def test_a_neighbour_whose_vector_is_still_to_come_is_mixed_in_when_it_does(
    platform: Platform, connection: Connection
) -> None:
    """Until its vector arrives, only that item is pending."""
    collection, items = await talk_of(platform, 5)
    items["a2"] = turn(2, "mu nu")
    stored = await collection.refresh()
    await Writer(platform.database, platform.tenant_id, stored, None).add([items["a2"]])
    assert (await collection.info()).pending == 1
    target = JobTarget(platform.tenant_id, stored)
    await JOBS["embed"].run(platform.workplace, target)
    await assert_indexed(connection, collection, items)


@pytest.mark.parametrize("damage", ["DELETE FROM {table}", "UPDATE {table} SET content_hash = ''"])
async def test_a_mixed_vector_that_is_gone_is_made_again_when_its_item_is_embedded(
    platform: Platform, connection: Connection, damage: str
) -> None:
    """The item's own vector is still there, and is the same as before."""
    collection, items = await talk_of(platform, 5)
    stored = await collection.refresh()
    assert stored.space is not None
    async with platform.database.transaction(platform.tenant_id) as transaction:
        statement = f"{damage.format(table=stored.space.table_name)} WHERE collection_id = %s AND item_id = 'a2'"
        await transaction.execute(statement.encode(), (stored.collection_id,))
    assert (await collection.info()).pending == 1
    report = await JOBS["embed"].run(platform.workplace, JobTarget(platform.tenant_id, stored))
    assert report == {"embedded": 1, "pending": 0}
    await assert_indexed(connection, collection, items)


async def test_items_outside_any_sequence_and_odd_places_are_indexed(
    platform: Platform, connection: Connection
) -> None:
    """No sequence, a list for one, a very long one, times, huge numbers: each has a defined place."""
    setting = Neighbours(sequence="talk", order="at", before=1, after=1)
    collection = await platform.collection("talks", neighbours=setting)
    odd: list[dict[str, Any]] = [
        {"_id": "none", "text": "alpha"},
        {"_id": "list", "text": "beta", "talk": ["a"]},
        {"_id": "last", "text": "gamma", "talk": "x" * 9000},
        {"_id": "huge", "text": "delta", "talk": "x" * 9000, "at": 10**308},
        {"_id": "late", "text": "epsilon", "talk": "x" * 9000, "at": "2024-01-01T00:00:00+01:00"},
        {"_id": "early", "text": "zeta", "talk": "x" * 9000, "at": "2023-12-31T22:59:59Z"},
        {"_id": "words", "text": "eta", "talk": "x" * 9000, "at": "some day"},
    ]
    await collection.add(odd)
    index_terms = (await indexed(connection, collection)).terms
    assert {key: " ".join(sorted(terms)) for key, terms in index_terms.items()} == {
        "none": "alpha",
        "list": "beta",
        "early": "epsilon zeta",
        "late": "delta epsilon zeta",
        "huge": "delta epsilon gamma",
        "last": "delta eta gamma",
        "words": "eta gamma",
    }


async def test_the_order_may_be_when_things_happened(platform: Platform, connection: Connection) -> None:
    """Without another order, ``occurred_at`` defines the neighbours."""
    collection = await platform.collection("talks", neighbours=Neighbours(sequence="talk", before=1, after=0))
    start = datetime(2024, 1, 1, tzinfo=UTC)
    await collection.add(
        Item(item_id=word, body=word, attributes={"talk": 7}, occurred_at=start + timedelta(microseconds=place))
        for place, word in enumerate(("gamma", "alpha", "beta"))
    )
    index_terms = (await indexed(connection, collection)).terms
    assert {key: set(terms) for key, terms in index_terms.items()} == {
        "gamma": {"gamma"},
        "alpha": {"gamma", "alpha"},
        "beta": {"alpha", "beta"},
    }


@not_on_a_cluster("what a transaction scans is counted by the node")
async def test_the_index_of_places_finds_neighbours_under_the_policies(platform: Platform) -> None:
    """However long a sequence is, a few rows of it are read."""
    collection = await platform.collection("talks", neighbours=SETTING)
    await collection.add(turn(number, "alpha") for number in range(300))
    async with platform.database.transaction(platform.tenant_id) as reading:
        scanned = "SELECT pg_stat_get_xact_tuples_returned('item_places_in_order_idx'::regclass)"
        before = await (await reading.execute(scanned)).fetchone()
        cursor = await reading.execute(
            "SELECT count(*) FROM window_parts(%s, '{a150}', 2, 1)", (await _number(collection),)
        )
        assert await cursor.fetchone() == (4,)
        after = await (await reading.execute(scanned)).fetchone()
    assert before is not None
    assert after is not None
    assert 3 <= after[0] - before[0] < 20


async def test_a_setting_and_who_removes_an_item_do_not_wait_for_each_other_crosswise(platform: Platform) -> None:
    """A removal locks its items and then the totals; the setting waits for the removal before it locks anything."""
    collection = await platform.collection("talks")
    await collection.add([turn(number, f"{WORDS[number]} omega") for number in range(3)])
    number = await _number(collection)
    async with asyncio.timeout(20):
        async with platform.database.transaction(platform.tenant_id) as forgetting:
            await hold_items(forgetting, number, ["a1"])
            setting = asyncio.create_task(collection.set_neighbours(SETTING))
            await until_somebody_waits(platform)
            await remove_items(CollectionPlace(platform.database, platform.tenant_id, number, forgetting), ["a1"])
        assert await setting == 2


async def test_a_vector_that_is_being_stored_while_neighbours_are_set_is_mixed(
    platform: Platform, connection: Connection
) -> None:
    """The setting waits for who read the former one."""
    collection = await platform.collection("talks")
    items = {f"a{number}": turn(number, f"{WORDS[number]} omega") for number in range(4)}
    stored = await collection.refresh()
    assert stored.space is not None
    writer = Writer(platform.database, platform.tenant_id, stored, None)
    await writer.add(list(items.values()))
    texts = [item.indexed_text for item in items.values()]
    vectors = await HashingEmbedder().embed(texts, TextRole.DOCUMENT)
    hashed = {key: (text_hash(text), vector) for key, text, vector in zip(items, texts, vectors, strict=True)}
    async with platform.database.transaction(platform.tenant_id) as writing:
        await run_together(writing, [vectors_statement(stored.collection_id, stored.space.space_id, hashed)])
        setting = asyncio.create_task(collection.set_neighbours(SETTING))
        async with asyncio.timeout(20):
            while not setting.done() and (await (await connection.execute(LOCK_WAITS.encode())).fetchone()) == (0,):
                pass
    await setting
    await assert_indexed(connection, collection, items)


async def test_a_vector_stored_before_the_own_ones_are_back_is_not_replaced_by_the_former(
    platform: Platform, connection: Connection
) -> None:
    """The walk that restores own vectors keeps those that were stored meanwhile."""
    collection, items = await talk_of(platform, 4)
    stored = await collection.refresh()
    assert stored.space is not None
    async with platform.database.transaction(platform.tenant_id) as setting:
        await store_neighbours(setting, stored.collection_id, None)
    vector = np.eye(1, stored.space.space.dimensions, 7, dtype=np.float32)
    await collection.add([items["a1"]], embeddings=vector)
    await collection.set_neighbours(None)
    assert (await indexed(connection, collection)).vectors["a1"] == pytest.approx(vector[0])
