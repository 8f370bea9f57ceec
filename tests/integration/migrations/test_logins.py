"""Logins: what each may do, and the message if its rights do not suffice."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from pydantic import SecretStr

from retrieval import Settings, connect
from retrieval.adapters.clock import utc_now
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.installation import checks
from retrieval.adapters.store.installation.access import add_analyst
from retrieval.adapters.store.installation.backup import back_up
from retrieval.adapters.store.installation.schema import downgrade, status, upgrade
from retrieval.domain.diagnosis import Severity
from retrieval.domain.errors import (
    DatabaseError,
    DatabaseUnreachableError,
    MissingPrivilegeError,
    UnsupportedDatabaseError,
)
from retrieval.services.doctor.diagnose import diagnose_closed, examine
from tests.conftest import NewDatabase
from tests.support.cluster import not_on_a_cluster
from tests.support.database import SCHEMA, database_url, login, opened, use


async def test_a_login_without_superuser_can_set_up_and_use_its_database(
    database: str, schema: str, settings: Settings
) -> None:
    """The right to make roles, and the database, are enough where the extension is installed; for analysts too."""
    with opened(database) as connection:
        connection.execute("CREATE EXTENSION vector")
    with login(database, "CREATEROLE") as (name, url):
        with opened(database) as connection:
            here = sql.Identifier(sa.make_url(database).database or "")
            connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(here, sql.Identifier(name)))
        upgrade(url, schema)
        await use(url, settings.changed(database_schema=schema))
        with login(database) as (analyst, analyst_url):
            async with connect(url, settings=settings.changed(database_schema=schema)) as platform:
                await add_analyst(platform.database, platform.tenant_id, analyst)
            with opened(analyst_url) as connection:
                rows = connection.execute(sql.SQL("SELECT item_id FROM {}").format(sql.Identifier(schema, "items")))
                assert rows.fetchall() == [("1",)]
        downgrade(url, schema, "base")
        upgrade(url, schema)
        await use(url, settings.changed(database_schema=schema))
        with opened(url) as connection:
            connection.execute("RESET ROLE")
        downgrade(url, schema, "base")


async def test_a_login_without_the_application_role_gets_the_grant_to_run(
    database: str, schema: str, settings: Settings
) -> None:
    """The message holds the statement that mends it; after that the platform works, whatever was granted before."""
    upgrade(database, schema)
    own = settings.changed(database_schema=schema)
    for inherit in ("", ", INHERIT FALSE"):
        with login(database) as (name, url):
            with pytest.raises(MissingPrivilegeError) as caught:
                await use(url, own)
            with opened(database) as connection:
                connection.execute(f'GRANT "{schema}_app" TO "{name}" WITH SET FALSE{inherit}'.encode())
                connection.execute(str(caught.value).partition("run: ")[2].encode())
            await use(url, own)


async def test_a_login_that_starts_in_another_role_needs_no_grant_of_its_own(
    database: str, schema: str, settings: Settings
) -> None:
    """A login's default role, as a manager of passwords sets it, does not end its membership."""
    upgrade(database, schema)
    with login(database) as (name, url), login(database) as (other, _):
        with opened(database) as connection:
            connection.execute(f'GRANT "{schema}_app", "{other}" TO "{name}"'.encode())
            connection.execute(f"ALTER ROLE \"{name}\" SET role = '{other}'".encode())
        await use(url, settings.changed(database_schema=schema))


@pytest.mark.parametrize(
    "closing",
    ["ON SCHEMA public FROM PUBLIC", "ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC", "ON SCHEMA {own} FROM {app}"],
)
async def test_what_was_closed_to_the_roles_later_is_named_with_the_grant(
    database: str, schema: str, settings: Settings, closing: str
) -> None:
    """No search would find the tables, or call pgvector's functions. The login needs no grant of its own."""
    upgrade(database, schema)
    own = settings.changed(database_url=SecretStr(database), database_schema=schema)
    with opened(database) as connection:
        connection.execute(("REVOKE ALL " + closing).format(own=f'"{schema}"', app=f'"{schema}_app"').encode())
        with pytest.raises(MissingPrivilegeError, match="may not use") as raised:
            await use(database, own)
        findings = (await diagnose_closed(own, raised.value, utc_now)).findings
        assert f"{findings[0].found}; {findings[0].mend}" == str(raised.value)
        connection.execute(str(raised.value).partition("run: ")[2].encode())
    await use(database, own)
    with login(database) as (name, url):
        with opened(database) as connection:
            connection.execute(f'GRANT "{schema}_app" TO "{name}" WITH INHERIT FALSE'.encode())
        await use(url, own)


async def test_a_restore_without_privileges_is_named_when_a_platform_opens_and_by_the_doctor(
    database: str, schema: str, settings: Settings
) -> None:
    """As ``pg_restore --no-privileges`` leaves it: the grants of hundreds of parts are gone, so no statement helps."""
    upgrade(database, schema)
    own = settings.changed(database_url=SecretStr(database), database_schema=schema)
    with opened(database) as connection:
        connection.execute(f'REVOKE ALL ON ALL TABLES IN SCHEMA "{schema}" FROM "{schema}_app"'.encode())
    with pytest.raises(MissingPrivilegeError, match="--no-privileges; restore the dump again") as raised:
        await use(database, own)
    (finding,) = [
        finding
        for finding in (await diagnose_closed(own, raised.value, utc_now)).findings
        if finding.severity is Severity.ERROR
    ]
    assert (finding.check, f"{finding.found}; {finding.mend}") == ("login", str(raised.value))


async def test_no_temporary_tables_are_needed(database: str, schema: str, settings: Settings) -> None:
    """A login that may create none can still write items."""
    upgrade(database, schema)
    name = sa.make_url(database).database or ""
    with opened(database) as connection:
        connection.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))
    await use(database, settings.changed(database_schema=schema))


async def test_a_login_that_may_not_install_pgvector_gets_the_statement_for_a_superuser(
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


async def test_pgvector_that_cannot_be_installed_has_the_advice_of_its_reason(
    database: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only login and a search path of missing schemas are not mended by a package on the server."""
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    with pytest.raises(DatabaseError, match="SET default_transaction_read_only = off;"):
        upgrade(database, schema)
    monkeypatch.setenv("PGOPTIONS", "-c search_path=nowhere")
    with pytest.raises(UnsupportedDatabaseError, match="no schema has been selected") as raised:
        upgrade(database, schema)
    with opened(database) as connection:
        connection.execute(str(raised.value).partition("run: ")[2].encode())
    upgrade(database, schema)
    assert status(database, schema).is_current


async def test_a_login_that_may_not_open_the_schema_of_pgvector_is_given_the_grant(
    database: str, schema: str, settings: Settings
) -> None:
    """Where ``public`` is closed to others: the grant to the roles would be a mere warning, and no search would run."""
    with login(database, "CREATEROLE") as (name, url):
        with opened(database) as connection:
            here = sql.Identifier(sa.make_url(database).database or "")
            connection.execute("CREATE EXTENSION vector")
            connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
            connection.execute(f"GRANT USAGE ON SCHEMA public TO {name}".encode())
            connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(here, sql.Identifier(name)))
        with pytest.raises(MissingPrivilegeError, match="where pgvector is") as raised:
            upgrade(url, schema)
        with opened(database) as connection:
            connection.execute(str(raised.value).partition("run: ")[2].partition(";")[0].encode())
        upgrade(url, schema)
        await use(url, settings.changed(database_schema=schema))


async def test_a_pgvector_that_is_too_old_is_named_before_anything_is_made(
    database: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the schema's statements would fail at a type that it does not have."""
    monkeypatch.setattr(checks, "OLDEST_PGVECTOR", "99")
    with pytest.raises(UnsupportedDatabaseError, match="ALTER EXTENSION vector UPDATE;"):
        upgrade(database, schema)
    with opened(database) as connection:
        assert connection.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,)


async def test_a_server_that_does_not_answer_is_named_without_its_password(settings: Settings) -> None:
    """The message says which server and what to check."""
    url = "postgresql://user:topsecret@127.0.0.1:1/db"
    with pytest.raises(
        DatabaseUnreachableError, match=r"127\.0\.0\.1:1, database 'db'.*RETRIEVAL_DATABASE_URL"
    ) as caught:
        await use(url, settings)
    assert "topsecret" not in str(caught.value)
    with pytest.raises(DatabaseUnreachableError, match=r"127\.0\.0\.1:1") as caught:
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
        row = connection.execute(
            "SELECT current_setting('hba_file'), pg_read_file(current_setting('hba_file'))"
        ).fetchone()
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
    rules = [line for line in lines if line and not line.startswith("#")]
    copy = sql.SQL("COPY (SELECT unnest({lines}::text[])) TO {path} (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')")
    connection.execute(copy.format(lines=sql.Literal(rules), path=sql.Literal(path)))
    connection.execute("SELECT pg_reload_conf()")


async def test_a_wrong_password_is_named_as_the_cause(database: str, settings: Settings) -> None:
    """The message distinguishes a refused login from a server that is down, and does not repeat the password."""
    with login(database) as (name, url), password_wanted(database, name):
        wrong = url.replace(":secret@", ":topsecret@")
        with pytest.raises(
            DatabaseUnreachableError, match=r"refused the login: password .*check RETRIEVAL_DATABASE_URL"
        ) as caught:
            await use(wrong, settings)
        assert "topsecret" not in str(caught.value)
        with pytest.raises(DatabaseUnreachableError, match="refused the login"):
            status(wrong, "any")


@pytest.mark.parametrize("options", ["LOGIN", "NOLOGIN BYPASSRLS", "NOLOGIN"])
async def test_a_role_that_somebody_else_made_is_not_taken_over(database: str, options: str) -> None:
    """Acting as it could bypass the policies, and a downgrade would drop what it owns."""
    schema = f"shop_{uuid.uuid4().hex[:12]}"
    role = sql.Identifier(f"{schema}_app")
    with opened(database) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} " + options).format(role))
        try:
            with pytest.raises(MissingPrivilegeError, match="was not made for this installation"):
                upgrade(database, schema)
            assert status(database, schema).current is None
        finally:
            connection.execute(sql.SQL("DROP ROLE {}").format(role))


async def test_a_second_owner_on_the_server_gets_the_grant_of_the_roles(
    database: str, schema: str, new_database: NewDatabase, settings: Settings
) -> None:
    """Installations in several databases share the roles, and the first one's owner made them."""
    upgrade(database, schema)
    other = new_database(empty=True)
    with login(other, "CREATEROLE") as (name, url), opened(other) as connection:
        connection.execute("CREATE EXTENSION vector")
        here = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(here, sql.Identifier(name)))
        with pytest.raises(MissingPrivilegeError, match="another login made role") as caught:
            upgrade(url, schema)
        grant = str(caught.value).partition("run: ")[2].partition(";")[0]
        assert grant == f"GRANT {schema}_app, {schema}_definer, {schema}_analyst TO {name} WITH ADMIN OPTION"
        connection.execute(grant.encode())
        upgrade(url, schema)
        await use(url, settings.changed(database_schema=schema))
        downgrade(url, schema, "base")


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
async def test_texts_are_sent_as_utf8_whatever_the_environment_says(
    new_database: NewDatabase, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would take them for texts of another encoding, and store something else."""
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    url = new_database()
    async with connect(url, settings=settings, embedder=HashingEmbedder()) as platform:
        docs = await platform.collection("docs")
        await docs.add([{"id": "é", "text": "Grüße 東", "tags": ["ü"], "metadata": {"place": "Åre"}}])
        item = (await docs.get(["é"]))["é"]
        assert (item.text, item.tags, item.metadata) == ("Grüße 東", ("ü",), {"place": "Åre"})
        assert len(await docs.search("grüße", where={"tags": "ü", "place": "Åre"})) == 1
    assert (await examine(settings.changed(database_url=url))).is_sound
    back_up(url, tmp_path / "backup", datetime.now(UTC))


@pytest.mark.parametrize(
    "setting",
    [
        "DateStyle = 'SQL, DMY'",
        "default_transaction_isolation = 'serializable'",
        "standard_conforming_strings = off",
        "quote_all_identifiers = on",
        "row_security = off",
        "gin_fuzzy_search_limit = 3",
        "extra_float_digits = 0",
    ],
)
async def test_a_login_with_settings_that_the_platform_cannot_use_is_refused(
    new_database: NewDatabase, setting: str
) -> None:
    """With the statement that changes it: otherwise reads, writes or the doctor's comparisons would fail, or err."""
    url = new_database()
    with login(url) as (name, own), opened(url) as connection:
        connection.execute(f"GRANT {SCHEMA}_app TO {name}")
        connection.execute(f"ALTER ROLE {name} SET {setting}")
        settings = Settings(database_url=SecretStr(own), embedder="none")
        with pytest.raises(UnsupportedDatabaseError) as raised:
            async with connect(settings=settings):
                pass
        found = (await diagnose_closed(settings, raised.value, utc_now)).findings[0]
        assert f"{found.found}; {found.mend}" == str(raised.value)
        connection.execute(str(raised.value).partition("run: ")[2])
        async with connect(settings=settings) as platform:
            assert await platform.collections() == []


async def test_a_schema_is_not_made_by_a_login_that_reads_other_backslashes(
    database: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would fail in the middle of a script; a login that gets every name in quotes can make a sound one."""
    monkeypatch.setenv("PGOPTIONS", "-c standard_conforming_strings=off")
    with pytest.raises(UnsupportedDatabaseError, match=r"run: ALTER ROLE .* SET standard_conforming_strings = 'on';"):
        upgrade(database, schema)
    monkeypatch.setenv("PGOPTIONS", "-c quote_all_identifiers=on")
    upgrade(database, schema)
    monkeypatch.delenv("PGOPTIONS")
    diagnosis = await examine(Settings(database_url=SecretStr(database), database_schema=schema, embedder="none"))
    assert diagnosis.is_sound


async def test_a_database_of_another_encoding_is_refused(server_url: str) -> None:
    """Before anything is read from it: such a server gives bytes in place of texts."""
    name = f"ascii_{uuid.uuid4().hex[:12]}"
    with opened(server_url) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
        try:
            url = database_url(server_url, name)
            with pytest.raises(UnsupportedDatabaseError, match=r"has the encoding SQL_ASCII.*ENCODING 'UTF8'"):
                upgrade(url, "plain")
            with pytest.raises(UnsupportedDatabaseError, match="has the encoding SQL_ASCII"):
                async with connect(url, settings=Settings(embedder="none")) as platform:
                    await platform.collections()
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@not_on_a_cluster("it makes a database of its own, without the extension of a cluster")
async def test_a_locale_in_which_words_are_not_recognised_is_reported(server_url: str, settings: Settings) -> None:
    """A search for "ärger" would not find "Ärger", nor one for "connection" the text "connection—lost"."""
    name = f"locale_{uuid.uuid4().hex[:12]}"
    with opened(server_url) as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING 'UTF8' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0".encode()
        )
        try:
            url = database_url(server_url, name)
            upgrade(url, SCHEMA)
            diagnosis = await examine(settings.changed(database_url=SecretStr(url)))
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    (finding,) = [each for each in diagnosis.findings if each.check == "postgresql"]
    assert (finding.severity, finding.found.partition(":")[0]) == (
        Severity.WARNING,
        f"the locale of database {name!r} makes of 'ÄI—B' 'Äi—b', not 'b' and 'äi'",
    )
