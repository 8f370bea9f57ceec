"""The extension's indexes follow the size of collections: made, kept, made again, dropped; nothing is lost."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.installation.schema import downgrade, upgrade
from retrieval.adapters.store.search import textsearch as store
from retrieval.adapters.store.search.textsearch import table_name, textsearch_state
from retrieval.services.textsearch import (
    TEXTSEARCH_ROWS,
    TextsearchOutcome,
    keep_textsearch_index,
    rebuild_textsearch_index,
)
from tests.support.database import SCHEMA, database_url, temporary_database

Admin = psycopg.AsyncConnection[Any]


@pytest.fixture
async def collection(platform: Platform) -> Collection:
    """A collection of 40 items, one of them archived."""
    opened = await platform.collection("docs", space=None)
    await opened.add([{"_id": str(number), "text": f"alpha w{number}"} for number in range(40)])
    await opened.add([{"_id": "old", "text": "alpha", "status": "archived"}])
    return opened


async def _keep(platform: Platform, collection: Collection, rows: int) -> TextsearchOutcome:
    return await keep_textsearch_index(platform.database, await collection.refresh(), rows=rows)


async def _ids(platform: Platform, collection: Collection, query: str) -> set[str]:
    number = (await collection.refresh()).collection_id
    search = Compiled(
        "SELECT item_id FROM textsearch_search(%(id)s::bigint, %(query)s, 1000)", {"id": number, "query": query}
    )
    return {row[0] for row in await platform.database.read(platform.tenant_id, search)}


async def test_a_small_collection_gets_none(platform: Platform, collection: Collection) -> None:
    """Below the threshold the portable way is as fast."""
    assert (await collection.refresh()).documents < TEXTSEARCH_ROWS
    assert await keep_textsearch_index(platform.database, await collection.refresh()) is TextsearchOutcome.NOT_NEEDED
    assert await _keep(platform, collection, 41) is TextsearchOutcome.NOT_NEEDED


async def test_on_a_cluster_none_is_made(
    platform: Platform, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large: the outcome says so, and searches take the portable way."""
    monkeypatch.setattr(platform.database, "facts", replace(platform.database.facts, is_distributed=True))
    assert await _keep(platform, collection, 1) is TextsearchOutcome.NOT_ON_A_CLUSTER


async def test_a_large_one_gets_one_keeps_it_and_loses_it_when_half_as_large(
    platform: Platform, collection: Collection
) -> None:
    """Made at the threshold, kept down to half of it, dropped below."""
    assert await _keep(platform, collection, 40) is TextsearchOutcome.BUILT
    assert await _keep(platform, collection, 40) is TextsearchOutcome.PRESENT
    assert await _ids(platform, collection, "alpha") == {str(number) for number in range(40)}
    await collection.delete([str(number) for number in range(20)])
    assert await _keep(platform, collection, 40) is TextsearchOutcome.PRESENT
    await collection.delete(["20"])
    assert await _keep(platform, collection, 40) is TextsearchOutcome.DROPPED
    assert await _keep(platform, collection, 40) is TextsearchOutcome.NOT_NEEDED
    state = await textsearch_state(platform.database, (await collection.refresh()).collection_id)
    assert (state.has_table, state.is_served) == (False, False)
    await collection.add([{"_id": "new", "text": "alpha"}])


async def test_remains_of_a_failed_build_are_replaced(platform: Platform, collection: Collection, admin: Admin) -> None:
    """An invalid index does not count as an index: it is dropped and built again."""
    await _keep(platform, collection, 40)
    number = (await collection.refresh()).collection_id
    await admin.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (f"items_{number}_bm25",)
    )
    assert not (await textsearch_state(platform.database, number)).is_served
    assert await _keep(platform, collection, 40) is TextsearchOutcome.BUILT
    assert len(await _ids(platform, collection, "alpha")) == 40


async def test_an_interrupted_run_is_taken_up_again(
    platform: Platform, collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was interrupted after one step; the next run stores the rest, and later writes are included."""
    fetched = store.fill_table

    async def cut_off(*arguments: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(store, "_STEP", 7)
            task = asyncio.create_task(fetched(*arguments))
            while not await _words(platform, collection):
                assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        raise ConnectionError

    monkeypatch.setattr("retrieval.adapters.store.search.textsearch.fill_table", cut_off)
    with pytest.raises(ConnectionError):
        await _keep(platform, collection, 40)
    monkeypatch.undo()
    await collection.add([{"_id": "0", "text": "beta"}, {"_id": "39", "text": "beta"}, {"_id": "new", "text": "alpha"}])
    await collection.delete(["1"])
    assert await _keep(platform, collection, 40) is TextsearchOutcome.BUILT
    assert await _ids(platform, collection, "beta") == {"0", "39"}
    assert await _ids(platform, collection, "alpha") == {str(number) for number in range(2, 39)} | {"new"}


def _all(number: int) -> Compiled:
    table = sa.table(table_name(number))
    return compiled(sa.select(sa.func.count()).select_from(table))


async def _words(platform: Platform, collection: Collection) -> int:
    number = (await collection.refresh()).collection_id
    rows = await platform.database.read(platform.tenant_id, _all(number))
    return int(rows[0][0])


async def test_nothing_written_meanwhile_is_lost(platform: Platform, collection: Collection) -> None:
    """Writers go on while the table is filled and the index built; afterwards it has their writes."""
    finished = asyncio.Event()

    async def write(writer: int) -> set[str]:
        wrote = set()
        number = 0
        while not finished.is_set() or number < 3:
            key = f"{writer}-{number}"
            await collection.add([{"_id": key, "text": f"alpha {key}"}, {"_id": str(number % 40), "text": "gamma"}])
            wrote.add(key)
            number += 1
        return wrote

    writers = [asyncio.create_task(write(writer)) for writer in range(3)]
    outcome = TextsearchOutcome.BUSY
    while outcome is TextsearchOutcome.BUSY:
        outcome = await _keep(platform, collection, 40)
    finished.set()
    wrote = set[str]().union(*await asyncio.gather(*writers))
    assert outcome is TextsearchOutcome.BUILT
    assert await _keep(platform, collection, 40) is TextsearchOutcome.PRESENT
    assert wrote <= await _ids(platform, collection, "alpha")
    stored = await collection.get([str(number) for number in range(40)])
    assert await _ids(platform, collection, "gamma") == {key for key, item in stored.items() if item.body == "gamma"}


async def test_a_writer_that_waited_for_the_table_to_be_made_keeps_it(
    platform: Platform, collection: Collection, admin: Admin
) -> None:
    """A session's knowledge from before the table existed is not used."""
    number = (await collection.refresh()).collection_id
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND NOT granted"
    async with platform.database.transaction(platform.tenant_id) as writer:
        # This fills the session's caches.
        await writer.execute("SELECT index_terms(%s, '{1}')", (number,))
    holds = sql.SQL("SELECT pg_advisory_lock(writers_lock({}))").format(number)
    await admin.execute(holds)
    adding = asyncio.create_task(collection.add([{"_id": "late", "text": "alpha"}]))
    while (await (await admin.execute(waiting)).fetchone()) != (1,):
        assert not adding.done()
    await admin.execute(store.table_definition(number, platform.database.names))
    await admin.execute(holds.as_string().replace("advisory_lock(", "advisory_unlock(").encode())
    await adding
    query = sql.SQL("SELECT item_id FROM {}").format(sql.Identifier(table_name(number)))
    assert await (await admin.execute(query)).fetchall() == [("late",)]


async def test_of_many_wishes_at_once_one_builds_and_none_fails(platform: Platform, collection: Collection) -> None:
    """One process builds, the others go on without waiting."""
    outcomes = await asyncio.gather(*(_keep(platform, collection, 40) for _ in range(4)))
    assert outcomes.count(TextsearchOutcome.BUILT) == 1
    assert set(outcomes) <= {TextsearchOutcome.BUILT, TextsearchOutcome.PRESENT, TextsearchOutcome.BUSY}


async def test_a_writer_that_takes_long_is_not_waited_for(platform: Platform, collection: Collection) -> None:
    """The table is created when no write of the collection is open; otherwise the next run creates it."""
    number = (await collection.refresh()).collection_id
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("SELECT FROM hold_items(%s, '{1}')", (number,))
        assert await _keep(platform, collection, 40) is TextsearchOutcome.BUSY
    assert await _keep(platform, collection, 40) is TextsearchOutcome.BUILT


async def test_an_index_is_rebuilt_while_it_is_in_use(platform: Platform, collection: Collection) -> None:
    """It finds the same afterwards; a collection without one stays without."""
    stored = await collection.refresh()
    assert await rebuild_textsearch_index(platform.database, stored) is TextsearchOutcome.NOT_NEEDED
    await _keep(platform, collection, 40)
    before = await _ids(platform, collection, "alpha")
    assert await rebuild_textsearch_index(platform.database, stored) is TextsearchOutcome.BUILT
    assert await _ids(platform, collection, "alpha") == before


async def test_a_login_that_does_not_own_the_tables_gets_the_name_of_the_owner(
    platform: Platform, collection: Collection, admin: Admin, settings: Settings
) -> None:
    """Nothing is made, and nothing half made stays behind for writers to keep."""
    login = f"login_{uuid.uuid4().hex[:12]}"
    name = sql.Identifier(login)
    await admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(name))
    try:
        await admin.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(f"{SCHEMA}_app"), name))
        url = database_url(platform.database.url, admin.info.dbname, user=login).replace(login, f"{login}:secret", 1)
        async with connect(url, settings=settings) as other:
            assert await _keep(other, collection, 40) is TextsearchOutcome.NOT_ALLOWED
    finally:
        await admin.execute(sql.SQL("DROP ROLE {}").format(name))
    state = await textsearch_state(platform.database, (await collection.refresh()).collection_id)
    assert (state.has_table, state.is_served) == (False, False)


async def test_without_the_extension_what_it_left_is_removed(textsearch_url: str, settings: Settings) -> None:
    """Dropping the extension drops its indexes; the job drops the tables, and writing goes on all the while."""
    with temporary_database(textsearch_url, f"without_{uuid.uuid4().hex[:12]}") as url:
        upgrade(url, SCHEMA)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as admin:
            await admin.execute("CREATE EXTENSION pg_textsearch")
            async with connect(url, settings=settings) as platform:
                collection = await platform.collection("docs", space=None)
                await collection.add([{"_id": "1", "text": "alpha"}])
                assert await _keep(platform, collection, 1) is TextsearchOutcome.BUILT
                await admin.execute("DROP EXTENSION pg_textsearch CASCADE")
                await collection.add([{"_id": "2", "text": "alpha"}])
                assert len(await collection.search("alpha", legs=["lexical"])) == 2
                assert await _keep(platform, collection, 1) is TextsearchOutcome.DROPPED
                assert await _keep(platform, collection, 1) is TextsearchOutcome.NOT_INSTALLED


async def test_going_down_removes_tables_and_indexes(textsearch_url: str, settings: Settings) -> None:
    """A downgrade takes away what the job made, and the schema can be set up again."""
    with temporary_database(textsearch_url, f"down_{uuid.uuid4().hex[:12]}") as url:
        upgrade(url, SCHEMA)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as admin:
            await admin.execute("CREATE EXTENSION pg_textsearch")
            async with connect(url, settings=settings) as platform:
                collection = await platform.collection("docs", space=None)
                await collection.add([{"_id": "1", "text": "alpha"}])
                assert await _keep(platform, collection, 1) is TextsearchOutcome.BUILT
            downgrade(url, SCHEMA, "base")
            remaining = await admin.execute(
                "SELECT relname FROM pg_class WHERE relname ~ '^textsearch_|_bm25$' "
                "UNION SELECT proname FROM pg_proc WHERE pronamespace = %s::regnamespace AND proname ~ 'textsearch'",
                (SCHEMA,),
            )
            assert await remaining.fetchall() == []
        upgrade(url, SCHEMA)
