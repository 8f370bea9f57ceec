"""Migrations: they agree with the models, go up and down, wait for each other, and work under any name and login."""

from __future__ import annotations

import re
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from psycopg import sql

from retrieval import Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store import schema as schemas
from retrieval.adapters.store.embedded_binaries import find_package
from retrieval.adapters.store.revisions import head_revision
from retrieval.adapters.store.schema import downgrade, status, upgrade, upgrade_sql
from retrieval.adapters.store.tables import include_name, metadata
from retrieval.domain.errors import (
    DatabaseError,
    DatabaseUnreachableError,
    MissingPrivilegeError,
    SchemaRevisionError,
)
from tests.support.database import SCHEMA, database_url

NewDatabase = Callable[..., str]

ODD_NAMES = [
    'we"ird \\sch ä', "Upper Case", "quote'd", "100% mine", "a:b :c", "dollar$$body$policies$", "select", "日本", "x.y", " ",
]  # fmt: skip

BY_TIME = "items_collection_id_occurred_at_idx"


@contextmanager
def opened(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection that commits each statement."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def database(new_database: NewDatabase) -> str:
    """An empty database."""
    return new_database(empty=True)


@pytest.fixture(autouse=True)
def mark(server_url: str) -> Iterator[str]:
    """A word in the names of this test's schemas, whose roles go at the end: they belong to the whole server."""
    word = uuid.uuid4().hex[:12]
    yield word
    # What is set up first is torn down last: by now the databases are gone.
    with opened(server_url) as connection:
        names = connection.execute("SELECT rolname::text FROM pg_roles WHERE strpos(rolname, %s) > 0", (word,)).fetchall()
        for (name,) in names:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture
def schema(mark: str) -> str:
    """A schema's name that no other test has."""
    return f"schema_{mark}"


def program(name: str) -> Path:
    """A program of PostgreSQL's, of the newest version: beside the embedded server."""
    return find_package() / "pginstall" / "bin" / name


def dumped(url: str, schema: str) -> str:
    """The schema as ``pg_dump`` writes it, without what differs from dump to dump."""
    pattern = '"' + schema.replace('"', '""') + '"'
    dump = subprocess.run(
        [program("pg_dump"), "--schema-only", f"--schema={pattern}", url], check=True, capture_output=True, text=True
    ).stdout
    return re.sub(r"^\\(un)?restrict .*\n", "", dump, flags=re.MULTILINE)


def test_models_and_migrations_agree(database_url: str) -> None:
    """Alembic finds nothing to do between the tables as SQLAlchemy knows them and as the migrations make them."""
    engine = sa.create_engine(sa.make_url(database_url).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        connection.exec_driver_sql(f"SET search_path = {SCHEMA}, public")
        options = {"include_name": include_name, "compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts={**options, "version_table": "alembic_version"})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_constraints_indexes_and_storage_are_named_and_set_as_the_models_say(database_url: str) -> None:
    """Names of constraints and indexes, and each table's storage parameters, are those of the models."""
    with opened(database_url) as connection:
        rows = connection.execute(
            """
            SELECT conname::text FROM pg_constraint WHERE connamespace = %(schema)s::regnamespace
                AND contype IN ('p', 'u', 'f') AND conrelid::regclass::text !~ 'embeddings_|alembic'
            UNION SELECT relname FROM pg_class WHERE relnamespace = %(schema)s::regnamespace AND relkind = 'i'
                AND relname !~ 'embeddings_|alembic'
            """,
            {"schema": SCHEMA},
        ).fetchall()
        stored = dict(
            connection.execute(
                "SELECT relname::text, reloptions FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r'",
                (SCHEMA,),
            ).fetchall()
        )
    named = {str(one.name) for table in metadata.tables.values() for one in [*table.constraints, *table.indexes]}
    assert {row[0] for row in rows} == {name for name in named if name != "None"}
    for table in metadata.tables.values():
        wanted = table.dialect_options["postgresql"]["with"] or {}
        assert sorted(stored[table.name] or []) == sorted(f"{name}={value}" for name, value in wanted.items())


def test_going_down_and_up_again_gives_the_same_schema(database: str, schema: str) -> None:
    """Each revision takes back what it made, step by step, and leaves nothing."""
    upgrade(database, schema)
    first = dumped(database, schema)
    assert "CREATE TABLE" in first
    downgrade(database, schema, "-1")
    assert BY_TIME not in dumped(database, schema)
    downgrade(database, schema, "base")
    with opened(database) as connection:
        left = connection.execute(
            "SELECT relname::text FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r' "
            "UNION SELECT proname FROM pg_proc WHERE pronamespace = %s::regnamespace "
            "UNION SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)",
            (schema, schema, schema),
        ).fetchall()
    assert left == [("alembic_version",)]
    upgrade(database, schema)
    assert dumped(database, schema) == first


async def test_going_down_removes_embedding_spaces_and_items(database: str, schema: str, settings: Settings) -> None:
    """What was stored since goes too, and the schema can be set up again."""
    upgrade(database, schema)
    await use(database, settings.changed(database_schema=schema))
    downgrade(database, schema, "base")
    upgrade(database, schema)
    await use(database, settings.changed(database_schema=schema))


async def use(url: str, settings: Settings, *, documents: int = 1) -> None:
    """Store and find an item both ways."""
    async with connect(url, settings=settings, embedder=HashingEmbedder()) as platform:
        collection = await platform.collection("docs")
        await collection.add([{"_id": "1", "text": "the cat sat", "n": 1}])
        hits = await collection.search("cats", where={"n": 1})
        assert [part.leg for part in hits[0].explanation.contributions] == ["dense", "lexical"]
        assert [hit.item_id for hit in await collection.search("cats")] == ["1"]
        assert (await collection.info()).documents == documents


def test_of_two_upgrades_at_once_one_waits_for_the_other(database: str, schema: str) -> None:
    """Both succeed, and the work is done once."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: upgrade(database, schema), range(3)))
    assert status(database, schema).is_current


def test_an_upgrade_that_waits_too_long_says_who_to_look_for(database: str, schema: str) -> None:
    """The wait for another upgrade is bounded and ends in a sentence."""
    with psycopg.connect(database) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended('retrieval schema ' || %s, 0))", (schema,))
        with pytest.raises(DatabaseError, match="another upgrade of schema .*pg_stat_activity"):
            upgrade(database, schema, wait_seconds=0.2)


def test_a_lock_that_is_not_to_be_had_is_a_readable_error(
    database: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration does not queue behind a long transaction for ever, where everybody would queue behind it."""
    upgrade(database, schema)
    path = Path(schemas.directory("migrations"))
    assert 'LOCK_TIMEOUT = "5s"' in (path / "env.py").read_text()
    with psycopg.connect(database) as other:
        other.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(sql.Identifier(schema, "items")))
        with pytest.raises(DatabaseError, match="gave up waiting: .*lock timeout; try again when it is less busy"):
            downgrade(database, schema, "0001")
    assert status(database, schema).is_current


def test_what_a_failed_index_build_left_is_removed_and_built_again(database: str, schema: str) -> None:
    """An invalid index of the same name does not pass for the index."""
    upgrade(database, schema, "0001")
    with opened(database) as connection:
        items = sql.Identifier(schema, "items")
        connection.execute(
            sql.SQL("CREATE INDEX {} ON {} (collection_id, occurred_at)").format(sql.Identifier(BY_TIME), items)
        )
        connection.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = (SELECT oid FROM pg_class WHERE relname = %s)",
            (BY_TIME,),
        )
    upgrade(database, schema)
    with opened(database) as connection:
        valid = connection.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = (SELECT oid FROM pg_class WHERE relname = %s)", (BY_TIME,)
        ).fetchall()
    assert valid == [(True,)]


def test_an_index_is_built_while_others_read(database: str, schema: str) -> None:
    """The concurrent build waits for transactions that began before it, and reading goes on meanwhile."""
    upgrade(database, schema, "0001")
    with psycopg.connect(database) as reader:
        reader.execute("SET default_transaction_isolation = 'repeatable read'")
        reader.commit()
        reader.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, "items")))
        upgrading = threading.Thread(target=upgrade, args=(database, schema))
        upgrading.start()
        with opened(database) as watcher:
            while not watcher.execute("SELECT count(*) FROM pg_stat_progress_create_index").fetchone() == (1,):
                assert upgrading.is_alive()
        reader.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, "items")))
        reader.commit()
        upgrading.join()
    assert status(database, schema).is_current


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_a_schema_may_have_any_name(database: str, mark: str, name: str, settings: Settings) -> None:
    """Quotes, backslashes, percent signs, colons, dollars and spaces are parts of a name and nothing else."""
    odd = f"{name}{mark}"
    upgrade(database, odd)
    assert status(database, odd).is_current
    await use(database, settings.changed(database_schema=odd))
    downgrade(database, odd, "base")


async def test_two_schemas_of_one_database_know_nothing_of_each_other(
    database: str, schema: str, settings: Settings
) -> None:
    """Two installations stand side by side, each with its own roles and items."""
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


async def test_pgvector_may_live_in_a_schema_of_its_own(database: str, schema: str, settings: Settings) -> None:
    """Types, operators and operator classes are found where the extension is, by name and not by luck."""
    with opened(database) as connection:
        connection.execute('CREATE SCHEMA "Ext ensions"')
        connection.execute('CREATE EXTENSION vector SCHEMA "Ext ensions"')
        connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    upgrade(database, schema)
    await use(database, settings.changed(database_schema=schema))


@pytest.mark.parametrize("name", ["plain", *ODD_NAMES])
def test_the_upgrade_as_sql_gives_the_same_schema(new_database: NewDatabase, mark: str, name: str) -> None:
    """What a DBA runs by hand ends where ``upgrade`` does."""
    odd = f"{name}{mark}"
    by_hand, by_program = new_database(empty=True), new_database(empty=True)
    run = [program("psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", by_hand]
    subprocess.run(run, input=upgrade_sql(odd), text=True, check=True, stdout=subprocess.DEVNULL)
    assert status(by_hand, odd).is_current
    upgrade(by_program, odd)
    assert dumped(by_hand, odd) == dumped(by_program, odd)


@contextmanager
def login(database: str, options: str = "") -> Iterator[tuple[str, str]]:
    """A login of its own: its name, and its URL for the database."""
    name = f"login_{uuid.uuid4().hex[:12]}"
    with opened(database) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret' " + options).format(sql.Identifier(name)))  # type: ignore[arg-type]
        try:
            yield name, with_password(database, name)
        finally:
            for (role,) in connection.execute(
                "SELECT m.roleid::regrole::text FROM pg_auth_members m WHERE m.member = %s::regrole", (name,)
            ).fetchall():
                connection.execute(f"REVOKE {role} FROM {name} CASCADE")
            connection.execute(f"REASSIGN OWNED BY {name} TO CURRENT_USER")
            connection.execute(f"DROP OWNED BY {name} CASCADE")
            connection.execute(f"DROP ROLE {name}")


def with_password(url: str, user: str, password: str = "secret") -> str:  # noqa: S107
    """The URL for that login."""
    name = sa.make_url(url).database or ""
    return database_url(url, name, user=user).replace(f"//{user}@", f"//{user}:{password}@")


async def test_a_login_that_is_no_superuser_can_set_up_and_use_its_database(
    database: str, schema: str, settings: Settings
) -> None:
    """The right to make roles, and the database, are enough where the extension is installed."""
    with opened(database) as connection:
        connection.execute("CREATE EXTENSION vector")
    with login(database, "CREATEROLE") as (name, url):
        with opened(database) as connection:
            here = sql.Identifier(sa.make_url(database).database or "")
            connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(here, sql.Identifier(name)))
        upgrade(url, schema)
        await use(url, settings.changed(database_schema=schema))
        downgrade(url, schema, "base")
        upgrade(url, schema)
        await use(url, settings.changed(database_schema=schema))
        with opened(url) as connection:
            connection.execute("RESET ROLE")
        downgrade(url, schema, "base")


async def test_a_login_without_the_application_role_is_told_the_grant(
    database: str, schema: str, settings: Settings
) -> None:
    """The message holds the statement that mends it; after that the platform works, whatever is inherited."""
    upgrade(database, schema)
    own = settings.changed(database_schema=schema)
    for inherit in ("", " WITH INHERIT FALSE"):
        with login(database) as (name, url):
            with pytest.raises(MissingPrivilegeError) as caught:
                await use(url, own)
            assert (grant := f'GRANT "{schema}_app" TO "{name}"') in str(caught.value)
            with opened(database) as connection:
                connection.execute((grant + inherit).encode())
            await use(url, own)


async def test_a_role_that_may_make_no_temporary_tables_is_told_the_grant(
    database: str, schema: str, settings: Settings
) -> None:
    """Bulk writes need them: the platform says so when it starts, and not at the first write."""
    upgrade(database, schema)
    name = sa.make_url(database).database or ""
    with opened(database) as connection:
        connection.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))
        with pytest.raises(MissingPrivilegeError) as caught:
            await use(database, settings.changed(database_schema=schema))
        assert (grant := f'GRANT TEMPORARY ON DATABASE "{name}" TO "{schema}_app"') in str(caught.value)
        connection.execute(grant.encode())
    await use(database, settings.changed(database_schema=schema))


async def test_a_login_that_may_not_install_pgvector_is_told_what_a_superuser_must_run(
    database: str, schema: str
) -> None:
    """The extension is trusted on no server by default."""
    with login(database, "CREATEROLE") as (name, url):
        with opened(database) as connection:
            here = sql.Identifier(sa.make_url(database).database or "")
            connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(here, sql.Identifier(name)))
            trusted = connection.execute(
                "SELECT bool_or(trusted) FROM pg_available_extension_versions WHERE name = 'vector'"
            ).fetchone()
        if trusted == (True,):
            pytest.skip("pgvector is a trusted extension on this server")
        with pytest.raises(MissingPrivilegeError, match="have a superuser run: CREATE EXTENSION vector;"):
            upgrade(url, schema)


@pytest.mark.parametrize(
    ("revision", "hint"), [("9999", "install the newer program"), ("0001", "run: retrieval db upgrade")]
)
async def test_a_schema_of_another_revision_is_refused(
    database: str, schema: str, settings: Settings, revision: str, hint: str
) -> None:
    """A schema that is ahead or behind is named, with what to do."""
    upgrade(database, schema)
    with opened(database) as connection:
        version = sql.Identifier(schema, "alembic_version")
        connection.execute(sql.SQL("UPDATE {} SET version_num = %s").format(version), (revision,))
    with pytest.raises(SchemaRevisionError, match=hint) as caught:
        await use(database, settings.changed(database_schema=schema))
    assert revision in str(caught.value)
    assert head_revision() in str(caught.value)


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
    with pytest.raises(SchemaRevisionError, match="nonsense.* 0001, "):
        change(database, schema, "nonsense")
    assert status(database, schema).is_current


async def test_a_database_that_was_not_set_up_says_which_command_does(database: str, settings: Settings) -> None:
    """An empty database is told from one that is behind."""
    with pytest.raises(SchemaRevisionError, match="not set up .* run: retrieval db upgrade"):
        await use(database, settings)
    assert status(database, "nothing_here").current is None


async def test_a_server_that_does_not_answer_is_named_without_its_password(settings: Settings) -> None:
    """The message says which server and what to check."""
    url = "postgresql://user:topsecret@127.0.0.1:1/db"
    with pytest.raises(DatabaseUnreachableError, match="127.0.0.1:1, database 'db'.*RETRIEVAL_DATABASE_URL") as caught:
        await use(url, settings)
    assert "topsecret" not in str(caught.value)
    with pytest.raises(DatabaseUnreachableError, match="127.0.0.1:1") as caught:
        upgrade(url, "any")
    assert "topsecret" not in str(caught.value)


async def test_a_database_that_does_not_exist_is_named(database: str, settings: Settings) -> None:
    """The server's own words are in the message."""
    with pytest.raises(DatabaseUnreachableError, match='database "nowhere" does not exist'):
        await use(database_url(database, "nowhere"), settings)


@contextmanager
def password_wanted(database: str, name: str) -> Iterator[None]:
    """Make the server ask that login for its password."""
    with opened(database) as connection:
        row = connection.execute("SELECT current_setting('hba_file'), pg_read_file(current_setting('hba_file'))").fetchone()
        assert row is not None
        path, rules = row
        lines = [f"local all {name} scram-sha-256", f"host all {name} all scram-sha-256", *rules.splitlines()]
        write_lines(connection, path, lines)
        try:
            yield
        finally:
            write_lines(connection, path, rules.splitlines())


def write_lines(connection: psycopg.Connection[Any], path: str, lines: list[str]) -> None:
    """Write the server's rules and have it read them."""
    kept = [line for line in lines if line and not line.startswith("#")]
    copy = sql.SQL("COPY (SELECT unnest({lines}::text[])) TO {path} (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')")
    connection.execute(copy.format(lines=sql.Literal(kept), path=sql.Literal(path)))
    connection.execute("SELECT pg_reload_conf()")


async def test_a_wrong_password_is_said_to_be_one(database: str, settings: Settings) -> None:
    """A refused login is told from a server that is down, and the password is not repeated."""
    with login(database) as (name, url), password_wanted(database, name):
        wrong = url.replace(":secret@", ":topsecret@")
        with pytest.raises(DatabaseUnreachableError, match="refused the login: password .*check RETRIEVAL_DATABASE_URL") as caught:
            await use(wrong, settings)
        assert "topsecret" not in str(caught.value)
        with pytest.raises(DatabaseUnreachableError, match="refused the login"):
            status(wrong, "any")
