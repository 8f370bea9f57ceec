"""A tenant never sees another's row, whatever it asks: through the API, and by SQL as the application role."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import numpy as np
import psycopg
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from psycopg import errors as pg
from psycopg import sql

from retrieval import Item, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.installation.queue import begin_run
from retrieval.adapters.store.items.items import ItemWrite, store_items
from retrieval.adapters.store.search.indexes import AnnIndex, keep_measured
from retrieval.adapters.store.search.recall import Measurement, keep_sample, store_measurements
from retrieval.adapters.store.search.rewrites import keep_rewrites
from retrieval.adapters.store.search.vectors import StoredSpace, cached_vectors
from retrieval.domain.checks import text_fault
from retrieval.domain.errors import MissingPrivilegeError, UnknownCollectionError
from retrieval.domain.items.collection import Neighbours as Neighbouring
from retrieval.domain.items.item import text_hash
from tests.support.cluster import cluster_url, not_on_a_cluster
from tests.support.database import SCHEMA, act_as, login, opened
from tests.support.recorded import TRACES

AWKWARD = (
    "a", "A", "a ", " a", "a%", "a_", "%", "_", "ab", "a'b", 'a"b', "a''", "\\", "a\\", "'; DROP TABLE items; --", "$$",
    "$1", "%s", "%(x)s", ":x", "{}", "null", "0", "1", "-1", "true", "é", "e\u0301", "ß", "ss", "İ", "i", "\uff41",
    "\u202ea", "\u200b", "日本", "🙂", "\n", "\t", "x" * 512,
)  # fmt: skip
"""Names that quoting, patterns, case, collation or Unicode could make one."""

names = st.sampled_from(AWKWARD) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=40
)

keys = names.filter(lambda name: text_fault(name, is_line=True) is None)
"""Names that an item may have as its key."""

GLOBAL_TABLES = {"alembic_version", "embedding_spaces"}
"""Tables that all tenants share: they hold no tenant's data."""


@pytest.fixture(params=[False, True], ids=["sessions", "transactions"])
def settings(request: pytest.FixtureRequest, settings: Settings) -> Settings:
    """Connections that are set up when they change their tenant, or by each transaction for itself."""
    return settings.changed(transaction_pooler=request.param)


@pytest.fixture
async def platform(database_url: str, settings: Settings) -> AsyncIterator[Platform]:
    """A platform on connections of either kind."""
    async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as opened:
        yield opened


@pytest.fixture
async def two(database_url: str, settings: Settings) -> AsyncIterator[tuple[Platform, Platform]]:
    """Two tenants' platforms, with the same embedding space."""
    other = settings.changed(tenant=f"{settings.tenant}%")
    async with (
        connect(database_url, settings=settings, embedder=HashingEmbedder()) as first,
        connect(database_url, settings=other, embedder=HashingEmbedder()) as second,
    ):
        yield first, second


class Neighbours(NamedTuple):
    """Two tenants with a collection ``docs`` each: the caller, the other tenant, and the other's collection."""

    mine: int
    other: int
    theirs: int


REEMBEDDING = """
    INSERT INTO reembeddings
        (collection_id, former_id, target_id, state, switching, batch_texts, keep_seconds)
    SELECT collection_id, space_id, space_id, 'done', 'when asked', 1, 1 FROM collections
    WHERE collection_id = %(own)s ON CONFLICT DO NOTHING
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def neighbours(database_url: str) -> Neighbours:
    """The neighbours, for tests that use SQL; their changes are rolled back."""
    numbers = []
    for name in ("asks", "is-asked"):
        settings = Settings(tenant=f"{name}-{uuid.uuid4()}", database_schema=SCHEMA, embedder="none")
        async with connect(database_url, settings=settings, embedder=HashingEmbedder()) as platform:
            await _fill(platform, "docs", ["1"], "any")
            stored = await (await platform.collection("docs")).refresh()
            numbers.append((platform.tenant_id, stored.collection_id))
    (mine, _), (other, theirs) = numbers
    return Neighbours(mine, other, theirs)


async def _fill(platform: Platform, collection: str, item_ids: list[str], word: str) -> None:
    filled = await platform.collection(collection, filterable={"n": "number", "word": "text", "at": "time"})
    own = {"tags": [word], "n": 1, "word": word, "at": "2024-05-01"}
    await filled.add([{"_id": item_id, "text": f"shared words and {word}", **own} for item_id in item_ids])


@examples(max_examples=8)
@given(
    tenants=st.lists(names, min_size=2, max_size=2, unique=True),
    collections=st.lists(names, min_size=1, max_size=2, unique=True),
    item_ids=st.lists(keys, min_size=1, max_size=4, unique=True),
)
async def test_tenants_with_any_names_see_their_own_items_only(
    database_url: str, settings: Settings, tenants: list[str], collections: list[str], item_ids: list[str]
) -> None:
    """Equal collection and item names, in tenants of any two names, stay two tenants' own."""
    run = uuid.uuid4().hex[:8]
    mine, theirs = (settings.changed(tenant=f"{run}{name}"[:100]) for name in tenants)
    async with (
        connect(database_url, settings=mine, embedder=HashingEmbedder()) as first,
        connect(database_url, settings=theirs, embedder=HashingEmbedder()) as second,
    ):
        for name in collections:
            await _fill(second, name, item_ids, "theirs")
            with pytest.raises(UnknownCollectionError):
                await first.collection(name, create=False)
        assert await first.collections() == []
        for name in collections:
            await _fill(first, name, item_ids[:1], "mine")
        for name in collections:
            collection = await first.collection(name)
            hits = await collection.search("shared words theirs", limit=100)
            assert [(hit.item_id, hit.body) for hit in hits] == [(item_ids[0], "shared words and mine")]
            assert set(await collection.get(item_ids)) == {item_ids[0]}
            assert await collection.delete(item_ids) == 1
            assert (await (await second.collection(name)).info()).items == len(item_ids)


@examples(max_examples=20)
@given(item_ids=st.lists(keys, min_size=1, max_size=12, unique=True))
async def test_items_of_any_key_are_kept_apart_and_found_by_their_key(platform: Platform, item_ids: list[str]) -> None:
    """No two keys are one to the database, and a filter on a key means that key."""
    collection = await platform.collection("keys")
    await collection.add([{"_id": item_id, "text": f"text {number}"} for number, item_id in enumerate(item_ids)])
    items = await collection.get(item_ids)
    assert {key: item.body for key, item in items.items()} == {
        item_id: f"text {number}" for number, item_id in enumerate(item_ids)
    }
    for item_id in item_ids:
        hits = await collection.search("text", where={"item_id": item_id})
        assert [hit.item_id for hit in hits] == [item_id]
    await collection.delete(item_ids)


async def _tables(connection: psycopg.AsyncConnection[Any]) -> list[str]:
    cursor = await connection.execute(
        "SELECT relname::text FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p') "
        "AND NOT relispartition ORDER BY 1",
        (SCHEMA,),
    )
    return [row[0] for row in await cursor.fetchall()]


async def _columns(connection: psycopg.AsyncConnection[Any], table: str) -> set[str]:
    cursor = await connection.execute(
        "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0", (f"{SCHEMA}.{table}",)
    )
    return {row[0] for row in await cursor.fetchall()}


async def _collection_ids(connection: psycopg.AsyncConnection[Any], tenant_id: int) -> list[int]:
    cursor = await connection.execute("SELECT collection_id FROM collections WHERE tenant_id = %s", (tenant_id,))
    return [row[0] for row in await cursor.fetchall()]


async def _leave_traces_of_jobs(platform: Platform, collection_id: int, space_id: int) -> None:
    where = CollectionPlace(platform.database, platform.tenant_id, collection_id)
    await begin_run(where, "embed")
    await keep_sample(where, space_id, vector=np.ones(3, dtype=np.float32), condition_json=None, limit=10)
    measured = Measurement(bucket="no filter", samples=1, recall=1.0, short_pages=0, effort=100)
    await store_measurements(where, space_id, [measured])


async def test_every_table_shows_the_tenants_rows_only(
    two: tuple[Platform, Platform], connection: psycopg.AsyncConnection[Any]
) -> None:
    """As the application role, each table of the catalog shows just what belongs to the tenant that is set."""
    for platform in two:
        await _fill(platform, "docs", ["1", "2"], "any")
        stored = await (await platform.collection("docs")).refresh()
        assert stored.space is not None
        async with platform.database.transaction(platform.tenant_id) as acting:
            await acting.execute(REEMBEDDING, {"own": stored.collection_id})
            await keep_measured(acting, stored.collection_id, stored.space.space_id, AnnIndex(rows=2))
            await acting.execute(CHANGE, {"own": stored.collection_id})
            for statement in TRACES:
                await acting.execute(statement, {"own": stored.collection_id})
        await _leave_traces_of_jobs(platform, stored.collection_id, stored.space.space_id)
        await keep_rewrites(platform.database, platform.tenant_id, "sim/0", "q", ["x"], expires_at=platform.now)
        await platform.create_key("program")
        await connection.execute(
            "INSERT INTO idempotency_keys (tenant_id, key_id, idempotency_key, attempt, request_hash, held_until, "
            "expires_at) VALUES (%s, '', 'k', gen_random_uuid(), '', now(), now())",
            (platform.tenant_id,),
        )
        await connection.execute(
            "INSERT INTO analyst_logins (login, tenant_id) VALUES (gen_random_uuid()::text, %s)", (platform.tenant_id,)
        )
    mine = two[0].tenant_id
    own = await _collection_ids(connection, mine)
    for table in await _tables(connection):
        columns = await _columns(connection, table)
        key, expected = ("tenant_id", [mine]) if "tenant_id" in columns else ("collection_id", own)
        if key not in columns:
            assert table in GLOBAL_TABLES
            continue
        query = sql.SQL("SELECT DISTINCT {} FROM {}").format(sql.Identifier(key), sql.Identifier(table))
        everyone = {row[0] for row in await (await connection.execute(query)).fetchall()}
        async with connection.transaction(force_rollback=True):
            await act_as(connection, mine)
            visible = {row[0] for row in await (await connection.execute(query)).fetchall()}
        assert visible == everyone & set(expected), table
        assert visible or table.startswith("embeddings_"), f"nothing was put into {table}: the test would prove nothing"
        assert everyone > visible or not visible, table


async def test_without_a_tenant_nothing_is_seen(
    two: tuple[Platform, Platform], connection: psycopg.AsyncConnection[Any]
) -> None:
    """A transaction that sets no tenant sees no row of anybody."""
    await _fill(two[0], "docs", ["1"], "any")
    tables = set(await _tables(connection)) - GLOBAL_TABLES
    await act_as(connection, None)
    for table in tables:
        cursor = await connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
        assert await cursor.fetchone() == (0,), table


CHANGE = "INSERT INTO statistics_changes VALUES (%(own)s, DEFAULT, 1, 0, 0, '{1}', '{0}', '{x}')"
WRITES = (
    (
        "INSERT INTO items (collection_id, item_id, kind, title, body, tags, attributes, status, source, content_hash, "
        "text_hash) VALUES (%(theirs)s, 'x', '', '', '', '{}', '{}', 'active', '', '', '')"
    ),
    "INSERT INTO profiles (collection_id, version, definition) VALUES (%(theirs)s, 99, '{}')",
    "INSERT INTO term_statistics VALUES (%(theirs)s, 1, 1)",
    "INSERT INTO collection_attributes VALUES (%(theirs)s, 'x', '{}')",
    (
        "INSERT INTO embedding_cache (tenant_id, space_id, text_hash, vector) "
        "SELECT %(tenant)s, space_id, '\\x00', '[1]' FROM embedding_spaces LIMIT 1"
    ),
    "INSERT INTO query_rewrites VALUES (%(tenant)s, 'sim/0', '\\x00', '{}', now(), now())",
    "INSERT INTO api_keys VALUES ('k', %(tenant)s, 'mine', '{admin}', '\\x00')",
    "INSERT INTO quarantines VALUES (%(tenant)s, 'spammer')",
    "INSERT INTO idempotency_keys VALUES (%(tenant)s, '', 'k', gen_random_uuid(), '', now(), now())",
    "UPDATE items SET collection_id = %(theirs)s",
    "UPDATE collections SET tenant_id = %(tenant)s",
    "INSERT INTO collections (tenant_id, name) VALUES (%(tenant)s, 'mine')",
    "SELECT index_terms(%(theirs)s, ARRAY['1'])",
    "SELECT remove_items(%(theirs)s, ARRAY['1'])",
    "SELECT archive_items(%(theirs)s, '{1}')",
    "SELECT write_vectors(%(theirs)s, (SELECT min(space_id) FROM embedding_spaces), '{1}', '{[1]}', ARRAY[''::bytea])",
    CHANGE.replace("%(own)s", "%(theirs)s"),
    "SELECT set_neighbours(%(theirs)s, NULL)",
    "INSERT INTO item_places VALUES (%(theirs)s, '1', 'talk', 1, '')",
    (
        "INSERT INTO own_vectors SELECT %(theirs)s, '1', space_id, '[1]', '' FROM embedding_spaces LIMIT 1 "
        "ON CONFLICT DO NOTHING"
    ),
    "INSERT INTO item_tags VALUES (%(theirs)s, 'x', '1', now())",
    "INSERT INTO attribute_values VALUES (%(theirs)s, '1', 'word', 1, false, 'x')",
)


@pytest.mark.parametrize(
    "statement", WRITES + tuple(trace.replace("%(own)s", "%(theirs)s") for trace in TRACES[:1] + TRACES[2:7])
)
async def test_writing_into_another_tenants_collection_is_refused(
    neighbours: Neighbours, connection: psycopg.AsyncConnection[Any], statement: str
) -> None:
    """No statement puts a row where another tenant would find it."""
    await act_as(connection, neighbours.mine)
    # A cluster moves no row to another collection, of any tenant.
    with pytest.raises(
        (pg.InsufficientPrivilege, pg.FeatureNotSupported) if cluster_url() else pg.InsufficientPrivilege
    ):
        await connection.execute(statement, {"theirs": neighbours.theirs, "tenant": neighbours.other})


async def test_storing_an_item_in_another_tenants_collection_is_refused(
    two: tuple[Platform, Platform], neighbours: Neighbours
) -> None:
    """The function that writes items checks the tenant itself."""
    with pytest.raises(MissingPrivilegeError):
        await store_items(two[0].database, neighbours.mine, ItemWrite(neighbours.theirs, [Item(item_id="x")]))


CHANGES = (
    "UPDATE items SET body = 'x' WHERE collection_id = %(theirs)s",
    "DELETE FROM items WHERE collection_id = %(theirs)s",
    "DELETE FROM collections WHERE collection_id = %(theirs)s",
    "UPDATE profiles SET definition = '{}' WHERE collection_id = %(theirs)s",
    "DELETE FROM embedding_cache WHERE tenant_id = %(tenant)s",
    "DELETE FROM query_rewrites WHERE tenant_id = %(tenant)s",
    "UPDATE api_keys SET revoked_at = NULL WHERE tenant_id = %(tenant)s",
    "DELETE FROM idempotency_keys WHERE tenant_id = %(tenant)s",
    "DELETE FROM quarantines WHERE tenant_id = %(tenant)s",
    "SELECT FROM query_terms(%(theirs)s, 'shared words', '{wor}') AS known WHERE known.lexemes IS NOT NULL",
    "SELECT WHERE refresh_weights(%(theirs)s, 10) IS NOT NULL",
    "SELECT WHERE reindex_windows(%(theirs)s, 10) IS NOT NULL",
    "SELECT FROM words_of(%(theirs)s, '{1}')",
    "SELECT FROM hold_items(%(theirs)s, '{1}')",
    "SELECT FROM fold_statistics(%(theirs)s) AS folded WHERE folded > 0",
    "DELETE FROM item_tags WHERE collection_id = %(theirs)s",
    "DELETE FROM attribute_values WHERE collection_id = %(theirs)s",
    "UPDATE attribute_values SET as_number = 2 WHERE collection_id = %(theirs)s",
)


@pytest.mark.parametrize("statement", CHANGES)
async def test_another_tenants_rows_can_be_neither_read_nor_changed(
    neighbours: Neighbours, connection: psycopg.AsyncConnection[Any], statement: str
) -> None:
    """Statements about another tenant's collection meet no row."""
    await act_as(connection, neighbours.mine)
    cursor = await connection.execute(statement, {"theirs": neighbours.theirs, "tenant": neighbours.other})
    assert cursor.rowcount == 0


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT item_id FROM lexical_search(%(id)s, 'shared', '{}', 10)",
        "SELECT '1' WHERE lexical_query(%(id)s, 'shared', '{}') IS NOT NULL",
        "SELECT item_id FROM items_containing(%(id)s, 'shared')",
        "SELECT item_id FROM items_with_facets(%(id)s, ARRAY[facet(%(id)s, '.n', '1')], '{}', NULL)",
        "SELECT item_id FROM items_with_clauses(%(id)s, ARRAY[ARRAY[facet(%(id)s, '.n', '1')]::text], NULL)",
        (
            "SELECT item_id FROM nearest_with_clauses(%(id)s, (SELECT space_id FROM collections), array_fill(0.1, "
            "'{256}')::halfvec, ARRAY[ARRAY[facet(%(id)s, '.n', '1')]::text], NULL, 10) WHERE item_id IS NOT NULL"
        ),
        (
            "SELECT item_id FROM nearest_in_embeddings_N(%(id)s, array_fill(0.1, '{256}')::halfvec, "
            "ARRAY[facet(%(id)s, '.n', '1')], '{}', NULL, 10) WHERE item_id IS NOT NULL"
        ),
        "SELECT item_id FROM window_parts(%(id)s, '{1}', 1, 1)",
    ],
)
async def test_a_search_function_refuses_another_tenants_collection(
    neighbours: Neighbours, connection: psycopg.AsyncConnection[Any], statement: str
) -> None:
    """A function that looks past the policies checks the tenant first; without a tenant it refuses all."""
    async with connection.transaction(force_rollback=True):
        await act_as(connection, neighbours.other)
        space = await (
            await connection.execute("SELECT space_id FROM collections WHERE space_id > 0 LIMIT 1")
        ).fetchone()
    statement = statement.replace("embeddings_N", f"embeddings_{space and space[0]}")
    for tenant in (neighbours.mine, None, 0, -1):
        async with connection.transaction(force_rollback=True):
            await act_as(connection, tenant)
            with pytest.raises(pg.InsufficientPrivilege, match="not the current tenant's"):
                await connection.execute(statement, {"id": neighbours.theirs})
    await act_as(connection, neighbours.other)
    cursor = await connection.execute(statement, {"id": neighbours.theirs})
    assert await cursor.fetchall() == [("1",)]


async def test_a_shadowing_temporary_table_does_not_fool_the_search_function(
    two: tuple[Platform, Platform], connection: psycopg.AsyncConnection[Any]
) -> None:
    """The function reads the schema's table, not a caller's temporary table of the same name."""
    await _fill(two[1], "docs", ["1"], "any")
    theirs = (await _collection_ids(connection, two[1].tenant_id))[0]
    await act_as(connection, two[0].tenant_id)
    await connection.execute("CREATE TEMPORARY TABLE collections (collection_id bigint, tenant_id bigint)")
    await connection.execute("INSERT INTO pg_temp.collections VALUES (%s, %s)", (theirs, two[0].tenant_id))
    with pytest.raises(pg.InsufficientPrivilege):
        await connection.execute("SELECT * FROM lexical_search(%s, 'shared', '{}', 10)", (theirs,))


async def test_each_tenant_has_an_embedding_cache_of_its_own(two: tuple[Platform, Platform]) -> None:
    """A vector that one tenant paid for is not served to another: that would reveal which texts the other has."""
    await _fill(two[0], "docs", ["1"], "secret")
    collection = await (await two[0].collection("docs")).refresh()
    assert collection.space is not None
    expected = [text_hash("document: shared words and secret")]
    space: StoredSpace = collection.space
    assert list(await cached_vectors(two[0].database, two[0].tenant_id, space, expected)) == expected
    assert await cached_vectors(two[1].database, two[1].tenant_id, space, expected) == {}


@pytest.mark.parametrize("role", [f"{SCHEMA}_app", f"{SCHEMA}_definer"])
async def test_a_login_without_membership_can_take_on_neither_role(
    connection: psycopg.AsyncConnection[Any], role: str
) -> None:
    """Only members of a role may act as it, and the application role may not act as the definer."""
    stranger = sql.Identifier(f"stranger_{uuid.uuid4().hex[:12]}")
    await connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(stranger))
    await connection.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(stranger))
    with pytest.raises(pg.InsufficientPrivilege):
        await connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))


@pytest.mark.parametrize(
    "attempt",
    [
        f"SET ROLE {SCHEMA}_definer",
        f"ALTER TABLE {SCHEMA}.items DISABLE ROW LEVEL SECURITY",
        f"CREATE TABLE {SCHEMA}.mine (x int)",
        f"CREATE POLICY mine ON {SCHEMA}.items USING (true)",
        f"TRUNCATE {SCHEMA}.items",
    ],
)
async def test_a_login_with_the_application_role_cannot_take_on_the_definer(
    database_url: str, connection: psycopg.AsyncConnection[Any], attempt: str
) -> None:
    """The application role leads nowhere else, nor to the tables' definitions."""
    with login(database_url) as (name, _), opened(database_url) as granting:
        granting.execute(f"GRANT {SCHEMA}_app TO {name}")
        await connection.execute(f"SET SESSION AUTHORIZATION {name}".encode())
        with pytest.raises(pg.InsufficientPrivilege):
            await connection.execute(attempt.encode())
        await connection.rollback()


async def test_every_table_has_forced_row_level_security(
    platform: Platform, connection: psycopg.AsyncConnection[Any]
) -> None:
    """Only ``alembic_version``, which holds no tenant's data and which the application role reads, is without."""
    await platform.collection("docs")
    cursor = await connection.execute(
        "SELECT relname::text FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p') "
        "AND NOT (relrowsecurity AND relforcerowsecurity)",
        (SCHEMA,),
    )
    assert await cursor.fetchall() == [("alembic_version",)]
    cursor = await connection.execute(
        "SELECT privilege_type FROM information_schema.role_table_grants "
        "WHERE table_schema = %s AND table_name = 'alembic_version' AND grantee = %s",
        (SCHEMA, f"{SCHEMA}_app"),
    )
    assert await cursor.fetchall() == [("SELECT",)]


async def test_months_are_reached_through_their_tables_alone(
    two: tuple[Platform, Platform], connection: psycopg.AsyncConnection[Any]
) -> None:
    """The application role can neither read nor write a partition directly, which would bypass the tenant."""
    cursor = await connection.execute(
        "SELECT relname::text FROM pg_class WHERE relnamespace = %s::regnamespace AND relispartition AND relkind = 'r'",
        (SCHEMA,),
    )
    months = [row[0] for row in await cursor.fetchall()]
    assert len(months) >= 4
    await act_as(connection, two[0].tenant_id)
    for month in months:
        for statement in ("SELECT FROM {}", "DELETE FROM {}", "DROP TABLE {}"):
            with pytest.raises(pg.InsufficientPrivilege):
                async with connection.transaction():
                    await connection.execute(sql.SQL(statement).format(sql.Identifier(month)))


async def test_the_hits_of_others_are_not_seen_through_the_view(
    two: tuple[Platform, Platform], connection: psycopg.AsyncConnection[Any]
) -> None:
    """The view of impressions has the policies of who reads it, not of its owner; and nothing is written there."""
    own = []
    for platform in two:
        own.append((await (await platform.collection("docs")).refresh()).collection_id)
        async with platform.database.transaction(platform.tenant_id) as acting:
            await acting.execute(TRACES[0], {"own": own[-1]})
    await act_as(connection, two[0].tenant_id)
    visible = await connection.execute("SELECT collection_id, item_id, rank, slot, propensity FROM impressions")
    assert await visible.fetchall() == [(own[0], "1", 1, "exploit", 1.0)]
    for statement in ("DELETE FROM impressions", "UPDATE impressions SET rank = 2"):
        with pytest.raises(psycopg.Error):
            async with connection.transaction():
                await connection.execute(statement)


async def test_only_the_definer_drops_months(
    two: tuple[Platform, Platform], connection: psycopg.AsyncConnection[Any]
) -> None:
    """Partitions belong to every tenant, so no tenant may decide how long they are kept."""
    await act_as(connection, two[0].tenant_id)
    with pytest.raises(pg.InsufficientPrivilege):
        await connection.execute("SELECT drop_months(1)")


async def test_the_public_may_do_nothing(platform: Platform, connection: psycopg.AsyncConnection[Any]) -> None:
    """PUBLIC has no privilege on the schema, a table, a sequence or a function."""
    await platform.collection("docs")
    cursor = await connection.execute(
        """
        SELECT object, privilege FROM (
            SELECT nspname::text AS object, (aclexplode(coalesce(nspacl, acldefault('n', nspowner)))).*
            FROM pg_namespace WHERE nspname = %(schema)s
            UNION ALL
            SELECT relname, (aclexplode(coalesce(relacl, acldefault(
                CASE relkind WHEN 'S' THEN 's'::"char" ELSE 'r'::"char" END, relowner)))).*
            FROM pg_class WHERE relnamespace = %(schema)s::regnamespace AND relkind IN ('r', 'p', 'v', 'S')
            UNION ALL
            SELECT proname, (aclexplode(coalesce(proacl, acldefault('f', proowner)))).*
            FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace
        ) AS granted (object, grantor, grantee, privilege, grantable)
        WHERE grantee = 0
        """,
        {"schema": SCHEMA},
    )
    assert await cursor.fetchall() == []


async def test_neighbours_are_not_shown_to_another_tenant(
    two: tuple[Platform, Platform], connection: psycopg.AsyncConnection[Any]
) -> None:
    """The look-up passes the policies, and so refuses a collection that is not the tenant's."""
    for platform in two:
        await _fill(platform, "docs", ["1"], "any")
    theirs = (await _collection_ids(connection, two[1].tenant_id))[0]
    await act_as(connection, two[0].tenant_id)
    with pytest.raises(pg.InsufficientPrivilege, match="not the current tenant's"):
        await connection.execute("SELECT FROM reached_from(%s, '{talk}', '{1}', '{1}', 1, 1)", (theirs,))


@pytest.mark.parametrize(
    "change",
    [
        {"provider": ""},
        {"provider": None},
        {"model": ""},
        {"model": "m" * 501},
        {"revision": None},
        {"dimensions": 0},
        {"dimensions": 4001},
        {"dimensions": None},
        {"distance": "l2"},
        {"distance": "cosine); DROP TABLE items; --"},
        {"document_prefix": "p" * 501},
        {"query_prefix": None},
    ],
)
async def test_a_space_that_the_platform_could_not_have_made_is_refused(
    connection: psycopg.AsyncConnection[Any], change: dict[str, Any]
) -> None:
    """Every tenant would see its row, and no process could use its vectors. No table is created."""
    space = {
        "provider": "openai", "model": "m", "revision": "", "dimensions": 3, "distance": "cosine",
        "document_prefix": "", "query_prefix": "",
    }  # fmt: skip
    tables = await _tables(connection)
    await act_as(connection, None)
    with pytest.raises(pg.InvalidParameterValue, match="1 to 4000 dimensions and the distance cosine"):
        await connection.execute(
            "SELECT register_embedding_space(%s, %s, %s, %s, %s, %s, %s)", [*(space | change).values()]
        )
    await connection.rollback()
    assert await _tables(connection) == tables


@not_on_a_cluster("what writes has the rights of its caller there, whom the policies hold")
async def test_functions_with_rights_of_their_own_are_the_definers_and_pin_their_search_path(
    connection: psycopg.AsyncConnection[Any],
) -> None:
    """A SECURITY DEFINER function belongs to the definer and looks names up in temporary tables last of all."""
    cursor = await connection.execute(
        "SELECT proname::text, pg_get_userbyid(proowner)::text, proconfig FROM pg_proc "
        "WHERE pronamespace = %s::regnamespace AND prosecdef ORDER BY 1",
        (SCHEMA,),
    )
    functions = {name: (owner, config) for name, owner, config in await cursor.fetchall()}
    # Each embedding space adds its own.
    assert {name for name in functions if not name.startswith("nearest_in_embeddings_")} == {
        "drop_months",
        "ensure_months",
        "analyst_tenant",
        "archive_items",
        "ensure_tenant",
        "every_collection",
        "find_api_key",
        "items_containing",
        "items_with_clauses",
        "items_with_facets",
        "lexical_query",
        "lexical_search",
        "nearest_with_clauses",
        "reached_from",
        "record_feedback",
        "register_embedding_space",
        "remove_expired_writes",
        "remove_items",
        "textsearch_search",
        "window_parts",
        "write_items",
        "write_vectors",
    }
    for owner, config in functions.values():
        assert owner == f"{SCHEMA}_definer"
        assert [entry.rpartition(", ")[2] for entry in config if entry.startswith("search_path=")] == ["pg_temp"]


@not_on_a_cluster("nodes log in at each other as these roles")
async def test_no_role_can_log_in_or_pass_the_policies(connection: psycopg.AsyncConnection[Any]) -> None:
    """The three roles are not superusers, bypass no policy, create no roles and have no password to log in with."""
    cursor = await connection.execute(
        "SELECT rolcanlogin, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = ANY(%s)",
        ([f"{SCHEMA}_app", f"{SCHEMA}_definer", f"{SCHEMA}_analyst"],),
    )
    assert await cursor.fetchall() == [(False,) * 5] * 3


async def test_a_refusal_of_the_database_reaches_the_caller_as_the_platforms_own_error(
    two: tuple[Platform, Platform],
) -> None:
    """A tenant mixed up within the platform ends in ``MissingPrivilegeError``, never in another's rows."""
    await _fill(two[1], "docs", ["1"], "any")
    theirs = await (await two[1].collection("docs")).refresh()
    with pytest.raises(MissingPrivilegeError):
        async with two[0].database.transaction(two[0].tenant_id) as transaction:
            await transaction.execute("SELECT * FROM lexical_search(%s, 'shared', '{}', 10)", (theirs.collection_id,))


async def test_writing_items_leaves_those_of_the_same_ids_alone(
    two: tuple[Platform, Platform], connection: psycopg.AsyncConnection[Any]
) -> None:
    """No policy protects the functions that write items; their own checks keep other tenants' rows unchanged."""
    ids = [str(number) for number in range(4)]
    for platform in two:
        await _fill(platform, "docs", ids, "any")
    mine, theirs = [await platform.collection("docs") for platform in two]
    other = (await theirs.refresh()).collection_id
    before = await _rows_of(connection, other)
    assert {"items", "item_terms", "item_tags", "attribute_values"} < before.keys()
    assert any(name.startswith("embeddings_") for name in before)
    await mine.add(
        [{"_id": "new", "text": "shared"}, {"_id": "0", "text": "changed", "tags": ["other"], "n": 2, "word": "w"}]
    )
    await mine.add([{"_id": "1", "text": "shared words and any", "status": "archived"}])
    await mine.put({"_id": "2", "text": "put"})
    await mine.set_neighbours(Neighbouring(sequence="word", order="n"))
    await mine.add([{"_id": "3", "text": "in a window", "n": 1, "word": "any"}])
    assert await mine.delete("2")
    assert await mine.delete(["0", "3"]) == 2
    assert await _rows_of(connection, other) == before


async def _rows_of(connection: psycopg.AsyncConnection[Any], collection_id: int) -> dict[str, list[str]]:
    """All rows of a collection, by table; of the tables that have some."""
    cursor = await connection.execute(
        "SELECT c.relname::text FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid "
        "WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r' AND a.attname = 'collection_id'",
        (SCHEMA,),
    )
    by_table = {}
    for (name,) in await cursor.fetchall():
        every = sql.SQL("SELECT one::text FROM {} AS one WHERE collection_id = %s ORDER BY 1")
        rows = await (await connection.execute(every.format(sql.Identifier(SCHEMA, name)), (collection_id,))).fetchall()
        if rows:
            by_table[name] = [row[0] for row in rows]
    return by_table


@not_on_a_cluster("what writes has the rights of its caller there, whom the policies hold")
async def test_vectors_are_stored_past_the_policies_by_the_writing_functions_alone(
    neighbours: Neighbours, connection: psycopg.AsyncConnection[Any]
) -> None:
    """The function of a space's table does not check the tenant, so no other role may call it."""
    cursor = await connection.execute(
        "SELECT p.oid::regprocedure::text FROM pg_proc AS p "
        "WHERE p.pronamespace = %s::regnamespace AND p.proname LIKE 'write\\_embeddings\\_%%'",
        (SCHEMA,),
    )
    functions = [row[0] for row in await cursor.fetchall()]
    assert functions
    await act_as(connection, neighbours.mine)
    for function in functions:
        name = sql.SQL(function.partition("(")[0])
        with pytest.raises(pg.InsufficientPrivilege):
            async with connection.transaction():
                await connection.execute(
                    sql.SQL("SELECT {}(%s, '{{}}', '{{}}', '{{}}')").format(name), (neighbours.mine,)
                )


async def test_a_tenant_finds_no_key_but_in_its_own_table(
    two: tuple[Platform, Platform], connection: psycopg.AsyncConnection[Any]
) -> None:
    """The function that looks up a key before its tenant is known returns nothing within a tenant's transaction."""
    created = await two[1].create_key("program")
    find = "SELECT tenant FROM find_api_key(%s)"
    for tenant_id in (two[0].tenant_id, two[1].tenant_id, -1):
        async with connection.transaction(force_rollback=True):
            await act_as(connection, tenant_id)
            assert await (await connection.execute(find, (created.key.key_id,))).fetchall() == []
    await act_as(connection, None)
    rows = await (await connection.execute(find, (created.key.key_id,))).fetchall()
    assert rows == [(two[1].settings.tenant,)]


@pytest.mark.parametrize("change", ["scopes = '{admin}'", "secret_hash = ''", "expires_at = NULL"])
async def test_the_scopes_of_a_key_cannot_be_changed(
    neighbours: Neighbours, connection: psycopg.AsyncConnection[Any], change: str
) -> None:
    """The application role revokes keys and notes when they were used, and no more."""
    await act_as(connection, neighbours.mine)
    with pytest.raises(pg.InsufficientPrivilege):
        await connection.execute(sql.SQL("UPDATE api_keys SET {}").format(sql.SQL(change)))
