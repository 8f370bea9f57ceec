"""Collections on the nodes of a Citus cluster: added to, searched, judged and kept apart there."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.installation.backup import back_up
from retrieval.adapters.store.installation.cluster import distribute, rebalance
from retrieval.adapters.store.installation.examination import connected, read_indexes, read_tables
from retrieval.adapters.store.installed_sql import Names, installed_sql
from retrieval.adapters.store.items.collection_facts import collection_statuses
from retrieval.adapters.store.search.indexes import collection_indexes, hnsw_indexes
from retrieval.domain.errors import ConfigurationError, UnsupportedDatabaseError
from retrieval.services.indexes import keep_index
from tests.support.cluster import VARIABLE, cluster_url
from tests.support.database import SCHEMA, opened

on_a_cluster = pytest.mark.skipif(
    cluster_url() is None,
    reason=f"NOTHING OF A CLUSTER IS TESTED: set {VARIABLE} to a superuser's URL of a coordinator",
)
NewDatabase = Callable[..., str]
COLLECTIONS = 6
"""With several shards on each node, some lie apart."""


@pytest.mark.skipif(cluster_url() is not None, reason="of a server that is no coordinator")
def test_a_server_without_citus_is_refused(database_url: str) -> None:
    """Nothing is changed there."""
    with pytest.raises(UnsupportedDatabaseError, match="CREATE EXTENSION citus"):
        distribute(database_url, SCHEMA)
    with pytest.raises(UnsupportedDatabaseError, match="CREATE EXTENSION citus"):
        rebalance(database_url)


async def fill(platform: Platform) -> None:
    """Collections with the same items."""
    for number in range(COLLECTIONS):
        collection = await platform.collection(f"c{number}")
        await collection.add(
            [{"_id": f"i-{place}", "text": f"thing {place} of {number}", "parity": place % 2} for place in range(20)]
        )


async def test_replicas_of_a_cluster_are_refused(new_database: NewDatabase, settings: Settings) -> None:
    """A coordinator's position says nothing about the nodes, so no bound of staleness would hold."""
    url = new_database()
    if cluster_url() is None:
        with opened(url) as connection:  # a cluster's database is told by this function
            connection.execute(f"CREATE FUNCTION {SCHEMA}.own_collections() RETURNS bigint[] RETURN '{{}}'::bigint[]")
    with pytest.raises(ConfigurationError, match=r"RETRIEVAL_READ_DATABASE_URLS .* are not supported: unset it"):
        async with connect(url, settings=settings.changed(read_database_urls=(url,))):
            pass


def test_two_databases_of_a_server_are_made_nodes_at_once(new_database: NewDatabase, server_url: str) -> None:
    """Their roles are the server's, so that one waits for the other."""
    names = Names(f"twice_{uuid.uuid4().hex[:12]}")
    statement = installed_sql("cluster/roles", names).encode()
    roles = sorted((names.app_role, names.definer_role, names.analyst_role))
    urls = [new_database(empty=True) for _ in range(2)]
    both = threading.Barrier(2)

    def make_node(url: str) -> None:
        with opened(url) as connection:
            both.wait(20)
            for _ in range(50):
                connection.execute(statement)

    with opened(server_url) as server:
        try:
            with ThreadPoolExecutor(2) as threads:
                list(threads.map(make_node, urls))
            query = "SELECT rolname FROM pg_roles WHERE rolcanlogin AND starts_with(rolname, %s) ORDER BY 1"
            found = [str(role) for (role,) in server.execute(query, (names.schema,)).fetchall()]
            assert found == roles
        finally:
            for url in urls:
                with opened(url) as connection:
                    connection.execute(f"DROP SCHEMA IF EXISTS {names.schema}".encode())
            for role in roles:
                server.execute(f"DROP ROLE IF EXISTS {role}".encode())


@on_a_cluster
async def test_collections_lie_on_several_nodes_and_are_searched_and_judged_there(platform: Platform) -> None:
    """Each collection is on one node; changes, removals and feedback show in searches and counts."""
    await fill(platform)
    nodes = set()
    for number in range(COLLECTIONS):
        collection = await platform.collection(f"c{number}")
        await collection.add([{"_id": "i-1", "text": f"changed thing 1 of {number}", "parity": 1}])
        assert await collection.delete(["i-2", "i-3"]) == 2
        hits = await collection.search(f"thing of {number}", where={"parity": 1}, limit=5)
        assert {hit.item_id for hit in hits} <= {f"i-{place}" for place in range(1, 20, 2)}
        assert len(hits) == 5
        assert hits[0].item_id == (await collection.search(f"thing of {number}", where={"parity": 1}))[0].item_id
        await platform.feedback(hits.retrieval_id, hits[0].item_id, helpful=True, actor="ann")
        await platform.feedback(hits.retrieval_id, hits[0].item_id, helpful=False, actor="ann")
        standing = (await collection.standings([hits[0].item_id]))[hits[0].item_id]
        assert (standing.uses, standing.successes) == (1, 0)
        assert platform.database.facts.is_distributed
        async with platform.database.maintenance() as connection:
            query = sql.SQL(
                "SELECT nodeport FROM citus_shards WHERE shardid = get_shard_id_for_distribution_column({}, %s)"
            )
            named = query.format(sql.Literal(f"{SCHEMA}.items"))
            cursor = await connection.execute(named, ((await collection.refresh()).collection_id,))
            nodes |= {row[0] for row in await cursor.fetchall()}
    assert len(nodes) > 1


@on_a_cluster
async def test_a_node_hides_the_rows_of_other_tenants(platform: Platform, settings: Settings) -> None:
    """Its shards have the policies too, also for direct queries."""
    await fill(platform)
    other = settings.changed(tenant=f"{settings.tenant}-other")
    async with connect(platform.database.url, settings=other, embedder=HashingEmbedder()) as theirs:
        assert await theirs.collections() == []
    async with platform.database.maintenance() as connection:
        query = "SELECT shard_name, nodename, nodeport FROM citus_shards WHERE table_name = %s::regclass"
        shards = await (await connection.execute(query, (f"{SCHEMA}.items",))).fetchall()
    rows = 0
    for name, host, port in shards:
        database = platform.database.facts.database
        with psycopg.connect(host=host, port=port, dbname=database, user=f"{SCHEMA}_app") as node:
            node.execute("SET citus.override_table_visibility = off")
            count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(*name.split(".")))
            assert node.execute(count).fetchone() == (0,)
            node.execute("SELECT set_config('retrieval.tenant', %s, false)", (str(platform.tenant_id),))
            [count_] = node.execute(count).fetchone() or (0,)
            rows += count_
    assert rows == 20 * COLLECTIONS


@on_a_cluster
async def test_a_phrase_is_found_among_items_that_the_statistics_of_a_node_do_not_know(platform: Platform) -> None:
    """Each candidate is looked up by its key: compared with every item of its collection, these take 20 seconds."""
    shard = sql.SQL("SELECT get_shard_id_for_distribution_column({}, %s)").format(sql.Literal(f"{SCHEMA}.items"))
    texts = [{"_id": f"i-{place}", "text": f"a timeout {place} of the connection"} for place in range(1000)]
    known: set[int] = set()
    for number in range(100):  # until two collections are in the same shard
        collection = await platform.collection(f"c{number}")
        async with platform.database.maintenance() as connection:
            cursor = await connection.execute(shard, ((await collection.refresh()).collection_id,))
            [place] = await cursor.fetchone() or (0,)
        if place in known:
            break
        known.add(place)
        await collection.add(texts)
    async with platform.database.maintenance() as connection:
        await connection.execute(f"ANALYZE {SCHEMA}.items, {SCHEMA}.item_terms".encode())
    await collection.add([*texts, {"_id": "found", "text": "a connection timeout"}])
    async with asyncio.timeout(10):
        hits = await collection.search('"connection timeout"', legs=["lexical"])
    assert [hit.item_id for hit in hits] == ["found"]


@on_a_cluster
async def test_the_sizes_of_tables_and_indexes_are_those_on_the_nodes(platform: Platform) -> None:
    """A search's index, the statistics of a collection and the doctor report the same sizes."""
    names = platform.database.names
    collection = await platform.collection("sized")
    await collection.add([{"_id": f"i-{place}", "text": f"thing {place}"} for place in range(40)])
    await keep_index(platform.database, platform.tenant_id, await collection.refresh(), rows=40)
    stored = await collection.refresh()
    assert stored.space is not None
    there = await hnsw_indexes(platform.database, stored.space.space_id, stored.collection_id)
    listed = await collection_indexes(CollectionPlace(platform.database, platform.tenant_id, stored.collection_id))
    [status] = await collection_statuses(platform.database, platform.tenant_id, [stored])
    async with connected(platform.database.url) as connection:
        indexes = {index.name: index.bytes for index in await read_indexes(connection, names, is_distributed=True)}
        tables = {table.name: table.bytes for table in await read_tables(connection, names, is_distributed=True)}
        query = "SELECT sum(result::bigint) FROM run_command_on_shards(%s, %s)"
        table = f"{SCHEMA}.{stored.space.table_name}"
        size = await (await connection.execute(query, (table, "SELECT pg_table_size('%s')"))).fetchone()
    assert size == (tables[stored.space.table_name],)
    assert size[0] > 40 * 2 * stored.space.space.dimensions
    sizes = {name: index.bytes for name, index in there.items()}
    assert sizes
    assert min(sizes.values()) > 40 * 2 * stored.space.space.dimensions
    assert {index.name: index.bytes for index in listed} == sizes
    assert {index.name: index.bytes for index in status.indexes} == sizes
    assert {name: indexes[name] for name in sizes} == sizes
    # The coordinator has counted no row of them, which is not the same as none.
    assert {index.rows for index in (*listed, *status.indexes)} == {-1}


@on_a_cluster
def test_distributing_again_brings_back_the_functions_of_a_cluster(database_url: str) -> None:
    """A revision of the schema may have replaced them by those of one server."""
    source_query = "SELECT prosrc FROM pg_proc WHERE oid = 'place_by_collection'::regproc"
    with opened(database_url) as connection:
        connection.execute(f"SET search_path = {SCHEMA}".encode())
        connection.execute("SET citus.enable_ddl_propagation = off")
        before = connection.execute(source_query).fetchone()
        connection.execute("CREATE OR REPLACE FUNCTION place_by_collection(name text) RETURNS void LANGUAGE sql AS ''")
        assert connection.execute(source_query).fetchone() != before
        distribute(database_url, SCHEMA)
        assert connection.execute(source_query).fetchone() == before


@on_a_cluster
def test_a_cluster_is_not_saved_as_if_it_were_one_server(database_url: str, tmp_path: Path) -> None:
    """A dump of the coordinator would hold no row of the nodes: nothing is written, and the message says what to do."""
    with pytest.raises(UnsupportedDatabaseError, match="pg_basebackup"):
        back_up(database_url, tmp_path / "backup", datetime.now(UTC))
    assert list(tmp_path.iterdir()) == []


@on_a_cluster
async def test_collections_are_moved_between_nodes(platform: Platform) -> None:
    """All items are there afterwards, and searches find them on their new node."""
    await fill(platform)
    assert rebalance(platform.database.url) >= 0
    collection = await platform.collection("c0")
    assert (await collection.info()).items == 20
    assert len(await collection.search("thing", limit=20)) == 20
