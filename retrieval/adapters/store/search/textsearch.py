"""The storage of the extension pg_textsearch for one collection: a table of its items' words, and its BM25 index."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from psycopg import sql
from psycopg.errors import LockNotAvailable

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Connection, Database
from retrieval.adapters.store.installed_sql import Names
from retrieval.adapters.store.items.items import ARCHIVED, hold_writers
from retrieval.adapters.store.search import indexes

DEFINITION = "USING bm25 (words) WITH (text_config = 'simple', k1 = 1.2, b = 0.75)"
"""Words are numbers (``sql/search/textsearch.sql``), which the configuration ``simple`` does not change."""

_WAIT = "500ms"
"""The lock timeout, shorter than the server's deadlock timeout, so that changes of the table give way to writers."""

_STEP = 1000

_STATE = Compiled("""
    SELECT
        EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_textsearch'),
        current_setting('pg_textsearch.library_version', true) IS NOT NULL,
        to_regclass(format('%%I.%%I', current_schema(), 'textsearch_' || %(id)s::bigint)) IS NOT NULL,
        has_textsearch(%(id)s::bigint)
""")
_FENCED_SCHEMA = """
    SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'pg_textsearch' AND NOT has_schema_privilege(%s, n.oid, 'USAGE')
"""
_MAKE_TABLE = """
    CREATE TABLE {table} (
        collection_id bigint NOT NULL,
        item_id text COLLATE "C" NOT NULL,
        words text NOT NULL,
        PRIMARY KEY (collection_id, item_id)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05);
    ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    CREATE POLICY app ON {table} TO {app} USING (collection_id IN (SELECT c.collection_id FROM collections c));
    CREATE POLICY definer ON {table} TO {definer} USING (true);
    REVOKE ALL ON {table} FROM PUBLIC;
    GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {app}, {definer}
"""
# The rows get the same lock as by writers, so that neither side stores outdated words.
_MISSING = """
    SELECT item.item_id FROM items AS item
    WHERE item.collection_id = %s AND item.item_id > %s AND item.status <> %s
        AND NOT EXISTS (SELECT FROM {table} AS known WHERE known.item_id = item.item_id)
    ORDER BY item.item_id LIMIT %s FOR NO KEY UPDATE OF item
"""


@dataclass(frozen=True, slots=True)
class TextsearchState:
    """The state of a collection's pg_textsearch index."""

    installed: bool
    """Whether the database has the extension."""
    loaded: bool
    """Whether the server has loaded the extension's library, which every use of its indexes needs."""
    has_table: bool
    is_served: bool
    """Whether a valid index serves searches."""


def table_name(collection_id: int) -> str:
    """The table that holds the words of a collection's active items."""
    return f"textsearch_{int(collection_id)}"


def index_name(collection_id: int) -> str:
    """The BM25 index on that table."""
    return f"items_{int(collection_id)}_bm25"


async def textsearch_state(database: Database, collection_id: int) -> TextsearchState:
    """Read the state of the collection's index."""
    return TextsearchState(*(await database.read(None, _STATE.bind(id=collection_id)))[0])


def table_definition(collection_id: int, names: Names) -> sql.Composed:
    """The statements that create the table: the application role sees its tenant's rows, the definer role all."""
    relations = {"table": table_name(collection_id), "app": names.app_role, "definer": names.definer_role}
    return sql.SQL(_MAKE_TABLE).format(**{key: sql.Identifier(name) for key, name in relations.items()})


async def make_table(database: Database, collection_id: int) -> int | None:
    """Create the collection's empty table, which writers maintain from then on; returns the collection's tenant.

    None: writers locked the collection for too long. Raises ``MissingPrivilegeError`` for a login that does not own
    the tables.
    """
    names, table = database.names, table_name(collection_id)
    async with database.maintenance() as connection:
        fenced = await (await connection.execute(_FENCED_SCHEMA, (names.definer_role,))).fetchone()
        if fenced is not None:
            grant = sql.SQL("GRANT USAGE ON SCHEMA {} TO {}")
            await connection.execute(grant.format(sql.Identifier(fenced[0]), sql.Identifier(names.definer_role)))
        async with _without_writers(database, connection, collection_id) as alone:
            if not alone:
                return None
            query = "SELECT tenant_id, to_regclass(%s) IS NULL FROM collections WHERE collection_id = %s"
            row = await (await connection.execute(query, (table, collection_id))).fetchone()
            tenant_id, is_missing = row or (0, False)
            if is_missing:
                await connection.execute(table_definition(collection_id, names))
    return int(tenant_id)


async def fill_table(at: CollectionPlace) -> None:
    """Store the words of the items that the table lacks, in steps; after an interruption, the next call continues."""
    missing = sql.SQL(_MISSING).format(table=sql.Identifier(table_name(at.collection_id)))
    after = ""
    while True:
        async with at.database.transaction(at.tenant_id) as connection:
            ids = [row[0] for row in await connection.rows(missing, (at.collection_id, after, ARCHIVED, _STEP))]
            if not ids:
                return
            await connection.execute("SELECT textsearch_index(%s, %s)", (at.collection_id, ids))
            after = ids[-1]


async def build_index(database: Database, collection_id: int) -> None:
    """Build the index concurrently, after removing the remains of a failed build."""
    schema, name = database.names.schema, index_name(collection_id)
    build = indexes.build_statement(name, schema, table_name(collection_id), DEFINITION)
    await clear_index(database, collection_id, indexes.drop_statement(name, schema), build)


async def clear_index(database: Database, collection_id: int, *statements: str) -> None:
    """Remove the remains of interrupted builds, then run the statements."""
    async with database.maintenance() as connection:
        await indexes.drop_failed_builds(connection, database.names.schema, index_name(collection_id))
        for statement in statements:
            await connection.execute(statement.encode())


async def rebuild_index(database: Database, collection_id: int) -> None:
    """Rebuild the index while it is in use, which removes deleted items from its statistics."""
    await clear_index(
        database, collection_id, indexes.rebuild_statement(index_name(collection_id), database.names.schema)
    )


async def drop_table(database: Database, collection_id: int) -> bool:
    """Drop the index and the table, so that searches use the portable leg; False: writers locked the collection."""
    async with database.maintenance() as connection:
        await connection.execute(indexes.drop_statement(index_name(collection_id), database.names.schema).encode())
        async with _without_writers(database, connection, collection_id) as alone:
            if alone:
                table = sql.Identifier(table_name(collection_id))
                await connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
    return alone


@asynccontextmanager
async def _without_writers(database: Database, connection: Connection, collection_id: int) -> AsyncIterator[bool]:
    """A transaction as the tables' owner that locks out writers of the collection; False if a writer was active."""
    async with connection.transaction():
        await connection.execute(
            "SELECT set_config('role', %s, true), set_config('search_path', %s, true), "
            "set_config('lock_timeout', %s, true)",
            (database.names.definer_role, database.search_path, _WAIT),
        )
        try:
            async with connection.transaction():
                await hold_writers(connection, collection_id)
        except LockNotAvailable:
            yield False
        else:
            yield True
