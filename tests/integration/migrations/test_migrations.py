"""Migrations: they agree with the models, go up and down, wait for each other, and work under any name and login."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy.dialects.postgresql.base import PGDialect

from retrieval import Settings, connect
from retrieval.adapters.store.installation import backup
from retrieval.adapters.store.installation.access import add_analyst, remove_analyst
from retrieval.adapters.store.installation.checks import known_revisions
from retrieval.adapters.store.installation.embedded.binaries import find_package
from retrieval.adapters.store.installation.queue import read_queue_state
from retrieval.adapters.store.installation.schema import downgrade, status, upgrade, upgrade_sql
from retrieval.adapters.store.records.forgetting import drop_months
from retrieval.adapters.store.tables import TABLES
from retrieval.domain.errors import DatabaseError, MissingPrivilegeError, SchemaRevisionError
from retrieval.jobs.worker import work_once
from retrieval.services.doctor.storage import expected_indexes
from tests.support.database import SCHEMA, login, opened, use

NewDatabase = Callable[..., str]

ODD_NAMES = ['we"ird \\ä $$body$policies$', "it's 100% a:b :c 日本 X.y"]


def program(name: str) -> Path:
    """A program of PostgreSQL, of the newest version: next to the embedded server's."""
    return find_package() / "pginstall" / "bin" / name


def dumped(url: str, schema: str) -> str:
    """The schema as ``pg_dump`` writes it, without what differs from dump to dump."""
    names = (schema, f"{schema}_jobs")
    patterns = ['"' + name.replace('"', '""') + '"' for name in names]
    dump = subprocess.run(
        [str(program("pg_dump")), "--schema-only", *(f"--schema={pattern}" for pattern in patterns), url],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return re.sub(r"^\\(un)?restrict .*\n", "", dump, flags=re.MULTILINE)


_LATER = "embeddings_|alembic|textsearch_|retrievals_"
"""The tables that are made later, or by Alembic."""


def test_the_tables_are_read_from_their_sql_as_the_database_has_them(database_url: str) -> None:
    """Each with its columns, and their types."""
    with opened(database_url) as connection:
        rows = connection.execute(
            "SELECT c.relname::text, a.attname::text, regexp_replace(format_type(a.atttypid, NULL), '.*[.]', '') "
            "FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
            "WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p') AND c.relname !~ %s",
            (SCHEMA, _LATER),
        ).fetchall()
    dialect = PGDialect()  # type: ignore[no-untyped-call]
    columns = {
        (table.name, column.name, _type_name(column.type.compile(dialect)))
        for table in TABLES.values()
        for column in table.columns
    }
    assert {(table, column, kind) for table, column, kind in rows} == columns


def _type_name(kind: str) -> str:
    """The name of the type as PostgreSQL gives it, without collation."""
    name = kind.partition(" COLLATE")[0].lower() + ("[]" if kind.endswith("[]") else "")
    return name.replace("[][]", "[]")


def test_the_doctor_knows_every_key_and_index(database_url: str) -> None:
    """By the names that they have in the database, and by statements that make them again."""
    with opened(database_url) as connection:
        rows = connection.execute(
            "SELECT i.relname::text FROM pg_class AS i JOIN pg_index AS x ON x.indexrelid = i.oid "
            "JOIN pg_class AS t ON t.oid = x.indrelid LEFT JOIN pg_constraint AS k ON k.conindid = i.oid "
            "WHERE i.relnamespace = %s::regnamespace AND t.relname !~ %s AND k.contype IS DISTINCT FROM 'u'",
            (SCHEMA, _LATER),
        ).fetchall()
        expected = expected_indexes(SCHEMA)
        assert {name for (name,) in rows} == expected.keys()
        for name, (table, statement) in expected.items():
            drop = "CONSTRAINT" if " PRIMARY KEY " in statement else "INDEX"
            with connection.transaction(force_rollback=True):
                where = f"ALTER TABLE {SCHEMA}.{table} " if drop == "CONSTRAINT" else ""
                schema = "" if drop == "CONSTRAINT" else f"{SCHEMA}."
                connection.execute(f"{where}DROP {drop} {schema}{name} CASCADE".encode())
                connection.execute(statement.encode())


def test_going_down_and_up_again_gives_the_same_schema(database: str, schema: str) -> None:
    """Going down takes back what going up made, and leaves nothing: no type, function, role or queue either."""
    upgrade(database, schema)
    first = dumped(database, schema)
    assert "CREATE TABLE" in first
    downgrade(database, schema, "base")
    with opened(database) as connection:
        remaining = connection.execute(
            "SELECT relname::text FROM pg_class WHERE relnamespace = %(schema)s::regnamespace AND relkind <> 'i' "
            "UNION SELECT typname FROM pg_type WHERE typnamespace = %(schema)s::regnamespace AND typcategory <> 'A' "
            "UNION SELECT proname FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace "
            "UNION SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %(schema)s::text || '_') "
            "UNION SELECT rolname FROM pg_roles WHERE starts_with(rolname, %(schema)s::text)",
            {"schema": schema},
        ).fetchall()
    assert remaining == [("alembic_version",)]
    upgrade(database, schema)
    assert dumped(database, schema) == first


def test_going_down_does_nothing_where_nothing_was_set_up(database: str, schema: str) -> None:
    """There is neither pgvector nor a schema, of which the migrations would read."""
    downgrade(database, schema, "base")
    assert status(database, schema).current is None


async def test_going_down_removes_embedding_spaces_and_items(database: str, schema: str, settings: Settings) -> None:
    """Rows stored since are removed too, and the schema can be set up again."""
    upgrade(database, schema)
    await use(database, settings.changed(database_schema=schema))
    downgrade(database, schema, "base")
    upgrade(database, schema)
    await use(database, settings.changed(database_schema=schema))


def test_going_down_leaves_what_others_keep_in_the_schema(database: str, schema: str) -> None:
    """A table and a function that were not made here stay; a schema may be shared."""
    upgrade(database, schema)
    with opened(database) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))
        connection.execute("CREATE TABLE notes AS SELECT 'mine' AS note")
        connection.execute("CREATE FUNCTION mine() RETURNS text RETURN 'mine'")
        downgrade(database, schema, "base")
        assert connection.execute("SELECT note, mine() FROM notes").fetchall() == [("mine", "mine")]


def test_of_two_upgrades_at_once_one_waits_for_the_other(database: str, schema: str) -> None:
    """Both succeed, and the work is done once."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: upgrade(database, schema), range(3)))
    assert status(database, schema).is_current


def test_an_upgrade_that_waits_too_long_says_who_to_look_for(database: str, schema: str) -> None:
    """The wait for another upgrade is bounded and ends in a sentence."""
    with psycopg.connect(database) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended('retrieval schema ' || %s, 0))", (schema,))
        with pytest.raises(DatabaseError, match=r"another upgrade of schema .*pg_stat_activity"):
            upgrade(database, schema, wait_seconds=0.2)


def test_a_lock_that_is_not_to_be_had_is_a_readable_error(database: str, schema: str) -> None:
    """A migration does not queue behind a long transaction for ever, where everybody would queue behind it."""
    upgrade(database, schema)
    with psycopg.connect(database) as other:
        other.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(sql.Identifier(schema, "items")))
        with pytest.raises(DatabaseError, match=r"gave up waiting: .*lock timeout; try again when it is less busy"):
            downgrade(database, schema, "base")
    # The schema is still complete.
    assert status(database, schema).is_current


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_a_schema_may_have_any_name(database: str, mark: str, name: str, settings: Settings) -> None:
    """Quotes, backslashes, percent signs, colons, dollars and spaces are parts of a name and nothing else."""
    odd = f"{name}{mark}"
    upgrade(database, odd)
    assert status(database, odd).is_current
    own = settings.changed(database_schema=odd)
    await use(database, own)
    await operate(database, own)
    downgrade(database, odd, "base")


async def operate(url: str, settings: Settings) -> None:
    """Run the operator's calls, whose statements name the schema."""
    outcomes = set()
    with login(url) as (analyst, _):
        async with connect(url, settings=settings) as platform:
            await add_analyst(platform.database, platform.tenant_id, analyst)
            await remove_analyst(platform.database, platform.tenant_id, analyst)
            assert await drop_months(platform.database, 30) == 0
            state = await read_queue_state(platform.database, alive_seconds=30)
            assert (state and state.workers, (await platform.doctor()).is_sound) == (0, True)
            await work_once(platform.workplace, asyncio.Event(), report=lambda report: outcomes.add(report.outcome))
    assert outcomes == {"done"}
    with opened(url) as connection:
        backup._index_words_again(connection)  # noqa: SLF001 - after a move to another release of PostgreSQL


async def test_two_schemas_of_one_database_know_nothing_of_each_other(
    database: str, schema: str, settings: Settings
) -> None:
    """Two installations in one database each have their own roles and items."""
    for name in (schema, f"{schema}_2"):
        upgrade(database, name)
    for name in (schema, f"{schema}_2"):
        await use(database, settings.changed(database_schema=name))
    downgrade(database, f"{schema}_2", "base")
    await use(database, settings.changed(database_schema=schema))
    with opened(database) as connection:
        connection.execute("SELECT set_config('role', %s, false)", (f"{schema}_app",))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(f"{schema}_2", "alembic_version")))


def test_a_schema_that_holds_another_ones_queue_is_refused(database: str, schema: str) -> None:
    """It would be removed with the other one; the script for a DBA refuses it too, and neither leaves anything."""
    upgrade(database, schema)
    queue, before = f"{schema}_jobs", dumped(database, schema)
    with pytest.raises(MissingPrivilegeError, match=rf"schema {queue} holds the queue of jobs of another installation"):
        upgrade(database, queue)
    run = [str(program("psql")), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", database]
    script = subprocess.run(run, input=upgrade_sql(queue), text=True, capture_output=True, check=False)
    assert (script.returncode, f"schema {queue} holds the queue" in script.stderr) == (3, True)
    assert dumped(database, schema) == before


def test_an_empty_schema_that_somebody_made_is_used(database: str, schema: str) -> None:
    """An administrator may make it, for a login that may not."""
    with opened(database) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    upgrade(database, schema)
    assert status(database, schema).is_current


async def test_pgvector_may_live_in_a_schema_of_its_own(database: str, schema: str, settings: Settings) -> None:
    """Types, operators and operator classes are found where the extension is, by name and not by luck."""
    with opened(database) as connection:
        connection.execute('CREATE SCHEMA "Ext ensions"')
        connection.execute('CREATE EXTENSION vector SCHEMA "Ext ensions"')
        connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    upgrade(database, schema)
    await use(database, settings.changed(database_schema=schema))


@pytest.mark.parametrize("name", ["plain", """we"i'd \\%s a:b :c$$.ä """])
def test_the_upgrade_as_sql_gives_the_same_schema(new_database: NewDatabase, mark: str, name: str) -> None:
    """The script for a DBA gives the same schema as ``upgrade``."""
    odd = f"{name}{mark}"
    by_hand, by_program = new_database(empty=True), new_database(empty=True)
    run = [str(program("psql")), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", by_hand]
    subprocess.run(run, input=upgrade_sql(odd), text=True, check=True, stdout=subprocess.DEVNULL)
    assert status(by_hand, odd).is_current
    upgrade(by_program, odd)
    assert dumped(by_hand, odd) == dumped(by_program, odd)


async def test_a_schema_of_another_revision_is_refused(database: str, schema: str, settings: Settings) -> None:
    """A schema that is ahead is named, with what to do."""
    upgrade(database, schema)
    with opened(database) as connection:
        version = sql.Identifier(schema, "alembic_version")
        connection.execute(sql.SQL("UPDATE {} SET version_num = '9999'").format(version))
    with pytest.raises(SchemaRevisionError, match="install the newer program") as caught:
        await use(database, settings.changed(database_schema=schema))
    assert "9999" in str(caught.value)
    assert known_revisions()[-1] in str(caught.value)


def test_an_upgrade_of_a_schema_that_is_ahead_is_refused(database: str, schema: str) -> None:
    """An older program does not touch a newer schema."""
    upgrade(database, schema)
    with opened(database) as connection:
        version = sql.Identifier(schema, "alembic_version")
        connection.execute(sql.SQL("UPDATE {} SET version_num = '9999'").format(version))
    with pytest.raises(SchemaRevisionError, match="install the newer program"):
        upgrade(database, schema)
    with pytest.raises(SchemaRevisionError, match="install the newer program"):
        downgrade(database, schema, "base")


@pytest.mark.parametrize("change", [upgrade, downgrade])
def test_a_revision_that_does_not_exist_is_refused_with_those_that_do(
    database: str, schema: str, change: Callable[..., None]
) -> None:
    """A mistyped revision is the platform's own error."""
    upgrade(database, schema)
    for revision, reason in (("nonsense", "nonsense"), ("", "an empty text")):
        with pytest.raises(SchemaRevisionError, match=rf"{reason}.* base, 0001 and head"):
            change(database, schema, revision)
    assert status(database, schema).is_current


async def test_a_schema_of_another_build_is_neither_used_nor_upgraded(
    database: str, schema: str, settings: Settings
) -> None:
    """It can be removed and created again; between the two, the message says how, and not which grant is missing."""
    upgrade(database, schema)
    with opened(database) as connection:
        version = sql.Identifier(schema, "alembic_version")
        connection.execute(sql.SQL("COMMENT ON TABLE {} IS 'of another build'").format(version))
    assert not status(database, schema).is_current
    with pytest.raises(SchemaRevisionError, match="of another build of this program"):
        await use(database, settings.changed(database_schema=schema))
    with pytest.raises(SchemaRevisionError, match="of another build of this program"):
        upgrade(database, schema)
    downgrade(database, schema, "base")
    with pytest.raises(SchemaRevisionError, match=r"not set up .* run: retrieval db upgrade"):
        await use(database, settings.changed(database_schema=schema))
    upgrade(database, schema)
    assert status(database, schema).is_current


async def test_a_database_that_was_not_set_up_says_which_command_does(database: str, settings: Settings) -> None:
    """The message distinguishes an empty database from one that is behind."""
    with pytest.raises(SchemaRevisionError, match=r"not set up .* run: retrieval db upgrade"):
        await use(database, settings)
    assert status(database, "nothing_here").current is None
