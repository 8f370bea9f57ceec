"""Read the facts that an examination of an installation needs, in few statements; ``services.doctor`` judges them.

They are about the server as the login sees it (settings, queue, tables, indexes) and about a tenant's collections.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import abc, sql
from psycopg.rows import class_row

from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.installation.checks import (
    SchemaStatus,
    ServerFacts,
    check_session,
    server_facts,
    status_of,
    stored_revision,
)
from retrieval.adapters.store.installation.nodes import stored_bytes
from retrieval.adapters.store.installed_sql import Names, in_template
from retrieval.adapters.store.learning.arms import ARM_TOLERANCE
from retrieval.adapters.store.round_trip import CONNECTION
from retrieval.adapters.store.search.reembeddings import ReembeddingState
from retrieval.adapters.store.search.vectors import JOINS_ALL
from retrieval.adapters.store.translate import translated

_Connection = psycopg.AsyncConnection[Any]
_Facts = TypeVar("_Facts")
Clock = Callable[[], datetime]


async def _rows(
    connection: _Connection, kind: type[_Facts], query: abc.QueryNoTemplate, values: Mapping[str, Any]
) -> list[_Facts]:
    async with connection.cursor(row_factory=class_row(kind)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """One server, one database, one login, beside what the start-up checks read."""

    version: str
    is_superuser: bool
    """Whether the login is a superuser or bypasses row-level security."""
    may_define: bool
    """Whether it has the rights of the definer role, as workers and indexing need."""
    unsafe_roles: Sequence[str]
    """Roles of the installation that may log in or bypass row-level security."""
    open_schemas: Sequence[str]
    """Schemas of the search path in which every login may make functions."""
    misowned: Sequence[str]
    """What belongs to another role than the definer, as ``ALTER`` names it: functions that run with their owner's
    rights, and the tables that these make."""
    textsearch: str | None
    is_textsearch_loaded: bool
    is_standby: bool
    is_collation_changed: bool
    """Whether the operating system sorts text differently from when the database was made."""
    words: Sequence[str]
    """The words that the database's locale makes of ``SAMPLE``."""
    connections: int
    """The connections to all databases of the server."""
    max_connections: int
    """The most connections of logins that are not superusers."""
    database_bytes: int
    functions: Sequence[str]
    """The names of the schema's functions."""
    now: datetime


SAMPLE, SAMPLE_WORDS = "ÄI—B", ("b", "äi")
"""A text, and the words that the text search of a suitable locale makes of it.

In the locale C, capitals beyond ASCII stay capitals, and a dash is a letter; in Turkish, ``I`` becomes another letter.
"""

_STATE = """
    SELECT
        current_setting('server_version') AS version,
        (SELECT r.rolsuper OR r.rolbypassrls FROM pg_roles r WHERE r.rolname = session_user) AS is_superuser,
        coalesce((SELECT pg_has_role(r.oid, 'USAGE') FROM pg_roles r WHERE r.rolname = %(definer)s), false)
            AS may_define,
        ARRAY(SELECT r.rolname::text FROM pg_roles r
              WHERE r.rolname IN (%(app)s, %(definer)s, %(analyst)s)
                  -- The nodes of a cluster log in at each other as the role that acts.
                  AND (r.rolsuper OR r.rolbypassrls OR r.rolcanlogin AND NOT %(is_distributed)s)
              ORDER BY 1) AS unsafe_roles,
        ARRAY(SELECT n.nspname::text FROM pg_namespace n
              WHERE (n.nspname = %(schema)s
                  OR n.oid = (SELECT e.extnamespace FROM pg_extension e WHERE e.extname = 'vector'))
                  AND has_schema_privilege('public', n.oid, 'CREATE')
              ORDER BY 1) AS open_schemas,
        ARRAY(SELECT format('%%s %%I.%%I', part.kind, %(schema)s::text, part.name)
              FROM pg_namespace n
              CROSS JOIN LATERAL (
                  SELECT 'FUNCTION' AS kind, p.proname AS name, p.proowner AS owner FROM pg_proc p
                  WHERE p.pronamespace = n.oid AND p.prosecdef
                  UNION ALL
                  SELECT 'TABLE', c.relname, c.relowner FROM pg_class c
                  WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p')
                      AND c.relname ~ '^(retrievals(_default|_[0-9]{4,}_[0-9]{2})?|embeddings_[0-9]+)$'
              ) AS part
              WHERE n.nspname = %(schema)s
                  AND part.owner <> (SELECT r.oid FROM pg_roles r WHERE r.rolname = %(definer)s)
              ORDER BY 1) AS misowned,
        (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'pg_textsearch') AS textsearch,
        current_setting('pg_textsearch.library_version', true) IS NOT NULL AS is_textsearch_loaded,
        pg_is_in_recovery() AS is_standby,
        (SELECT d.datcollversion IS NOT NULL
             AND d.datcollversion IS DISTINCT FROM pg_database_collation_actual_version(d.oid)
         FROM pg_database d WHERE d.datname = current_database()) AS is_collation_changed,
        tsvector_to_array(to_tsvector('pg_catalog.simple', %(sample)s)) AS words,
        (SELECT sum(s.numbackends)::int FROM pg_stat_database s) AS connections,
        current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
            - current_setting('reserved_connections')::int AS max_connections,
        pg_database_size(current_database()) AS database_bytes,
        ARRAY(SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
              WHERE n.nspname = %(schema)s) AS functions,
        clock_timestamp() AS now
"""


class SettingValue(NamedTuple):
    """A setting of the server."""

    number: float | None
    """Bytes, seconds or a plain number; None: the value is a word."""
    text: str
    """The value as PostgreSQL shows it, such as ``64MB``."""
    holder: str | None = "SYSTEM"
    """What has the value, as in ``ALTER DATABASE shop SET``; None: the server's command line."""


SettingValues = Mapping[str, SettingValue]

# Times as a new connection has them: this one may have no limits. A role's value wins over a database's, and both over
# the system's.
_SETTINGS = """
    SELECT s.name, CASE
        WHEN s.unit LIKE '%%B' THEN pg_size_bytes(current_setting(s.name))
        WHEN s.unit = 'ms' THEN s.reset_val::numeric / 1000
        WHEN s.vartype IN ('integer', 'real') THEN s.setting::numeric
    END::float, CASE s.unit WHEN 'ms' THEN s.reset_val || 'ms' ELSE current_setting(s.name) END,
    CASE WHEN s.source <> 'command line' THEN coalesce((
        SELECT coalesce(nullif(
            concat_ws(' IN ', 'ROLE ' || quote_ident(r.rolname), 'DATABASE ' || quote_ident(d.datname)), ''
        ), 'ROLE ALL')
        FROM pg_db_role_setting o
        LEFT JOIN pg_roles r ON r.oid = o.setrole LEFT JOIN pg_database d ON d.oid = o.setdatabase
        WHERE coalesce(r.rolname, session_user) = session_user
            AND coalesce(d.datname, current_database()) = current_database()
            AND EXISTS (SELECT FROM unnest(o.setconfig) AS own WHERE starts_with(own, s.name || '='))
        ORDER BY o.setrole = 0, o.setdatabase = 0 LIMIT 1
    ), 'SYSTEM') END
    FROM pg_settings s WHERE s.name = ANY(%s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """The queue, of every tenant."""

    waiting: int
    oldest_seconds: float
    """The waiting time of the oldest job that is due."""
    failed: Sequence[str]
    """The names of the jobs in the queue that ended with an error, or wait to be tried again after one."""
    stalled: int
    """Jobs under way whose worker sends no more heartbeats."""
    workers: int
    """Workers with a recent heartbeat."""
    silent_seconds: float | None
    """The time since any worker's last heartbeat; None: there was none."""
    due_seconds: float | None
    """The time since a worker last looked for due jobs; None: no worker ever did."""


_QUEUE = """
    SELECT
        (SELECT count(*) FROM {jobs}.procrastinate_jobs j
         WHERE j.status = 'todo' AND coalesce(j.scheduled_at, now()) <= now()) AS waiting,
        coalesce((SELECT extract(epoch FROM now() - min(greatest(e.at, j.scheduled_at)))::float
                  FROM {jobs}.procrastinate_jobs j JOIN {jobs}.procrastinate_events e ON e.job_id = j.id
                  WHERE j.status = 'todo' AND coalesce(j.scheduled_at, now()) <= now()
                      AND e.type = 'deferred'), 0) AS oldest_seconds,
        ARRAY(SELECT DISTINCT coalesce(j.args ->> 'job', j.task_name::text) FROM {jobs}.procrastinate_jobs j
              WHERE j.status = 'failed' OR (j.status = 'todo' AND j.scheduled_at > now()) ORDER BY 1) AS failed,
        (SELECT count(*) FROM {jobs}.procrastinate_jobs j WHERE j.status = 'doing' AND NOT EXISTS (
            SELECT FROM {jobs}.procrastinate_workers w
            WHERE w.id = j.worker_id AND w.last_heartbeat >= now() - make_interval(secs => %(stalled)s))) AS stalled,
        (SELECT count(*) FROM {jobs}.procrastinate_workers w
         WHERE w.last_heartbeat >= now() - make_interval(secs => %(stalled)s)) AS workers,
        (SELECT extract(epoch FROM now() - max(w.last_heartbeat))::float
         FROM {jobs}.procrastinate_workers w) AS silent_seconds,
        (SELECT extract(epoch FROM now())::float - max(p.defer_timestamp)
         FROM {jobs}.procrastinate_periodic_defers p) AS due_seconds
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """One table with its own rows; a partitioned table counts by its partitions."""

    name: str
    columns: Sequence[str]
    live: int
    """Rows, as the server's statistics count them; those on the nodes of a cluster are not counted."""
    dead: int
    """Deleted rows that still take space."""
    changed: int
    """Rows that changed since the planner's statistics were made."""
    is_analyzed: bool
    """Whether there are statistics for the planner."""
    bytes: int
    is_forced: bool
    """Whether row-level security is on and forced."""
    is_vacuumed: bool
    """Whether autovacuum is on for it."""
    is_shown: bool
    """Whether a policy permits the application role to read its tenant's rows; true for monthly partitions."""
    loose_policies: Sequence[str]
    """Policies that permit a role of the installation, or every role, to read other tenants' rows."""
    lacking: Sequence[str]
    """The privileges that the application role lacks although a policy grants them: SELECT, INSERT, UPDATE, DELETE."""

    @property
    def is_private(self) -> bool:
        """Whether it holds tenants' rows, according to its columns."""
        return not {"collection_id", "tenant_id"}.isdisjoint(self.columns)


_TABLES = r"""
    WITH policies AS (
        SELECT p.polrelid, p.polname, p.polcmd, p.polpermissive,
            EXISTS (SELECT FROM pg_roles r WHERE r.oid = ANY(p.polroles) AND r.rolname = %(app)s) AS is_apps,
            0 = ANY(p.polroles) OR EXISTS (
                SELECT FROM pg_roles r WHERE r.oid = ANY(p.polroles) AND r.rolname IN (%(app)s, %(analyst)s)
            ) AS is_ours,
            -- Names that are not on the search path are printed with their schema.
            NOT EXISTS (
                SELECT FROM (VALUES (pg_get_expr(p.polqual, p.polrelid)), (pg_get_expr(p.polwithcheck, p.polrelid)))
                    AS e (expression)
                WHERE regexp_replace(e.expression, '\s+|(\m\w+|"([^"]|"")+")\.', '', 'g') NOT IN (
                    '(tenant_id=current_tenant())', '(tenant_id=analyst_tenant())',
                    '(collection_idIN(SELECTcollection_idFROMcollectionsc))',
                    -- On a cluster.
                    '(collection_id=ANY(own_collections()))')
            ) AS is_own
        FROM pg_policy p
    )
    SELECT
        c.relname::text AS name,
        ARRAY(SELECT a.attname::text FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
        pg_stat_get_live_tuples(c.oid) AS live,
        pg_stat_get_dead_tuples(c.oid) AS dead,
        pg_stat_get_mod_since_analyze(c.oid) AS changed,
        coalesce(pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)) IS NOT NULL
            AS is_analyzed,
        {bytes} AS bytes,
        c.relrowsecurity AND c.relforcerowsecurity AS is_forced,
        coalesce((SELECT o.option_value FROM pg_options_to_table(c.reloptions) o
                  WHERE o.option_name = 'autovacuum_enabled')::boolean, true) AS is_vacuumed,
        c.relispartition OR EXISTS (
            SELECT FROM policies p WHERE p.polrelid = c.oid AND p.is_apps AND p.is_own AND p.polpermissive
                AND p.polcmd IN ('r', '*')) AS is_shown,
        ARRAY(SELECT p.polname::text FROM policies p
              WHERE p.polrelid = c.oid AND p.is_ours AND p.polpermissive AND NOT p.is_own ORDER BY 1) AS loose_policies,
        ARRAY(SELECT w.name FROM (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS w (name)
              WHERE EXISTS (SELECT FROM policies p WHERE p.polrelid = c.oid AND p.is_apps
                            AND (p.polcmd = '*' OR p.polcmd = 'r' AND w.name = 'SELECT'))
                  AND NOT CASE w.name WHEN 'DELETE' THEN has_table_privilege(app.oid, c.oid, w.name)
                          ELSE has_any_column_privilege(app.oid, c.oid, w.name) END) AS lacking
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_roles app ON app.rolname = %(app)s
    WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p')
    ORDER BY c.relname
"""


async def read_tables(connection: _Connection, names: Names, *, is_distributed: bool = False) -> list[TableFacts]:
    """The tables of the schema, by name."""
    text = _TABLES.format(bytes=stored_bytes("c.oid", is_distributed=is_distributed))
    values = {"schema": names.schema, "app": names.app_role, "analyst": names.analyst_role}
    return await _rows(connection, TableFacts, text.encode(), values)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFacts:
    """One index."""

    name: str
    table: str
    is_valid: bool
    """Whether searches may use it and writers keep it."""
    is_being_built: bool
    bytes: int


_INDEXES = """
    SELECT
        k.relname::text AS name,
        t.relname::text AS table,
        i.indisvalid AND i.indisready AND i.indislive AS is_valid,
        EXISTS (SELECT FROM pg_stat_progress_create_index p
                WHERE p.index_relid = i.indexrelid OR (p.relid = i.indrelid AND p.index_relid = 0)) AS is_being_built,
        {bytes} AS bytes
    FROM pg_index i
    JOIN pg_class k ON k.oid = i.indexrelid
    JOIN pg_class t ON t.oid = i.indrelid
    JOIN pg_namespace n ON n.oid = k.relnamespace
    WHERE n.nspname = %(schema)s
    ORDER BY k.relname
"""


async def read_indexes(connection: _Connection, names: Names, *, is_distributed: bool = False) -> list[IndexFacts]:
    """The indexes of the schema, by name."""
    text = _INDEXES.format(bytes=stored_bytes("k.oid", is_distributed=is_distributed))
    return await _rows(connection, IndexFacts, text.encode(), {"schema": names.schema})


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The facts about an installation; None: the login may not read it."""

    facts: ServerFacts
    server: ServerState
    asked_at: datetime
    read_at: datetime
    """This machine's times, in UTC, before and after the server's state was read."""
    status: SchemaStatus | None
    settings: SettingValues
    tables: Sequence[TableFacts]
    indexes: Sequence[IndexFacts]
    queue: QueueFacts | None
    has_queue: bool = True
    """Whether the queue's schema and tables exist."""


async def read_installation(
    connection: _Connection, names: Names, settings: Sequence[str], stalled_seconds: float, clock: Clock
) -> Installation:
    """Read all facts, in seven statements on one connection outside any transaction.

    ``settings``: the names of the settings to read; ``stalled_seconds``: the time without a heartbeat after which a
    worker counts as stopped; ``clock``: the time of day, in UTC.
    """
    facts, asked_at = await server_facts(connection, names), clock()
    roles = {"app": names.app_role, "definer": names.definer_role, "analyst": names.analyst_role}
    values = {"schema": names.schema, "is_distributed": facts.is_distributed, "sample": SAMPLE, **roles}
    (server,) = await _rows(connection, ServerState, _STATE, values)
    read_at = clock()
    status: SchemaStatus | None = status_of(names.schema, None)
    queue, has_queue = None, True
    if facts.has_schema:
        status = None
        with suppress(psycopg.errors.InsufficientPrivilege):
            status = status_of(names.schema, await stored_revision(connection, names))
        try:
            with suppress(psycopg.errors.InsufficientPrivilege):
                statement = sql.SQL(_QUEUE).format(jobs=sql.Identifier(in_template(names.jobs_schema)))
                (queue,) = await _rows(connection, QueueFacts, statement, {"stalled": stalled_seconds})
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            has_queue = False
    cursor = await connection.execute(_SETTINGS, (list(settings),))
    return Installation(
        facts=facts,
        server=server,
        asked_at=asked_at,
        read_at=read_at,
        status=status,
        settings={name: SettingValue(*value) for name, *value in await cursor.fetchall()},
        tables=await read_tables(connection, names, is_distributed=facts.is_distributed),
        indexes=await read_indexes(connection, names, is_distributed=facts.is_distributed),
        queue=queue,
        has_queue=has_queue,
    )


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[_Connection]:
    """A connection with the login's own role, for a database that the platform may be unable to open.

    Raises ``DatabaseUnreachableError`` and ``UnsupportedDatabaseError``.
    """
    with translated(url):
        async with await psycopg.AsyncConnection.connect(url, autocommit=True, **CONNECTION) as connection:
            check_session(connection)
            yield connection


LOSS_DAYS = 7
"""The days for which unrecorded searches are reported."""


class TenantFacts(NamedTuple):
    """Facts about a tenant's collections, by collection number; a collection without a fact is missing there."""

    missing_months: Sequence[str] = ()
    without_words: Mapping[int, int] = {}
    """Items that the index of words lacks."""
    lost: Mapping[int, Mapping[str, int]] = {}
    """Searches of the last days that should have been recorded and were not, by reason."""
    reembeddings: Mapping[int, tuple[ReembeddingState, str]] = {}
    """A re-embedding that is not over, and the reason why it does not proceed, empty if it does."""
    languages: Mapping[int, str] = {}
    """The text search configuration, if there is none of that name."""
    mixed: Collection[int] = ()
    """The numbers of the collections that have items with their former neighbours."""


_MONTHS = Compiled("""
    SELECT 'retrievals' || to_char(m.month AT TIME ZONE 'UTC', '_YYYY_MM') FROM missing_months() AS m (month) ORDER BY 1
""")
_LOST = Compiled("""
    SELECT l.collection_id, l.reason, sum(l.retrievals)::bigint FROM recording_losses l
    WHERE l.collection_id = ANY(%(ids)s) AND l.day > current_date - %(days)s::integer
    GROUP BY l.collection_id, l.reason ORDER BY l.collection_id, l.reason
""")
_WITHOUT_WORDS = Compiled("""
    SELECT item.collection_id, count(*) FROM items AS item
    WHERE item.collection_id = ANY(%(ids)s) AND item.status <> 'archived' AND NOT EXISTS (
        SELECT FROM item_terms AS terms
        WHERE terms.collection_id = item.collection_id AND terms.item_id = item.item_id)
    GROUP BY item.collection_id
""")
_REEMBEDDINGS = Compiled("""
    SELECT m.collection_id, m.state, m.note FROM reembeddings m
    WHERE m.collection_id = ANY(%(ids)s) AND m.state <> 'done'
""")
_LANGUAGES = Compiled("""
    SELECT c.collection_id, c.text_search_config FROM collections c
    WHERE c.collection_id = ANY(%(ids)s) AND c.text_search_config NOT IN (
        SELECT known.cfgname FROM pg_ts_config AS known WHERE pg_ts_config_is_visible(known.oid))
""")

_MIXED = Compiled("""
    SELECT t.collection_id FROM collection_statistics t
    WHERE t.collection_id = ANY(%(ids)s) AND t.windowing_after IS NOT NULL
""")


async def read_tenant_facts(database: Database, tenant_id: int, collection_ids: Sequence[int]) -> TenantFacts:
    """Read the facts in two round trips."""
    ids = list(collection_ids)
    of_collections = [statement.bind(ids=ids) for statement in (_REEMBEDDINGS, _LANGUAGES, _MIXED)]
    statements = [_MONTHS, _LOST.bind(ids=ids, days=LOSS_DAYS), *of_collections]
    months, losses, moving, languages, mixed = await database.read_each(tenant_id, statements)
    lost: dict[int, dict[str, int]] = {}
    for collection_id, reason, number in losses:
        lost.setdefault(collection_id, {})[reason] = number
    return TenantFacts(
        missing_months=[row[0] for row in months],
        without_words=dict(await database.read(tenant_id, _WITHOUT_WORDS.bind(ids=ids), JOINS_ALL)),
        lost=lost,
        reembeddings={row[0]: (ReembeddingState(row[1]), row[2]) for row in moving},
        languages=dict(languages),
        mixed=[row[0] for row in mixed],
    )


_DISAGREEMENTS = Compiled("""
    SELECT d.kind, count(*), (array_agg(d.disagreeing ORDER BY d.disagreeing))[:3]
    FROM disagreements(%(id)s, %(tolerance)s) AS d GROUP BY d.kind ORDER BY d.kind
""")


async def read_disagreements(at: CollectionPlace) -> list[tuple[str, int, list[str]]]:
    """The kinds of derived rows that disagree with their source: their number, and the first three.

    Reads every row of the collection.
    """
    async with at.database.transaction(at.tenant_id) as connection:
        await connection.execute("SET LOCAL statement_timeout = 0")
        statement = _DISAGREEMENTS.bind(id=at.collection_id, tolerance=ARM_TOLERANCE)
        rows = await (await connection.execute(statement.text, statement.parameters)).fetchall()
    return [(row[0], int(row[1]), list(row[2])) for row in rows]


_MEND = Compiled("SELECT mend_disagreements(%(collection_id)s)")


async def mend_disagreements(at: CollectionPlace) -> int:
    """Make the rows of the collection's items that disagree again, without arms and records; returns their number."""
    return int((await at.write(_MEND))[0][0])
