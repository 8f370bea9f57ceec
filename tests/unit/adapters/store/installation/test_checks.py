"""Start-up checks: each refusal names the fault and the statement that repairs it, including revisions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from alembic.script import ScriptDirectory

from retrieval.adapters.store.installation.checks import (
    SchemaStatus,
    ServerFacts,
    check_extension,
    check_login,
    known_revisions,
    pgvector_defect,
    status_of,
)
from retrieval.adapters.store.installed_sql import Names, build, directory
from retrieval.domain.errors import MissingPrivilegeError, SchemaRevisionError, UnsupportedDatabaseError

SOUND = ServerFacts(
    pgvector="0.8.6",
    vector_schema="public",
    login="me",
    has_schema=True,
    may_act=True,
    database="db",
)
NAMES = Names("mine")


@pytest.mark.parametrize("pgvector", ["0.8.6", "0.9.0", "0.10.0", "1.0.0"])
def test_a_sound_server_passes_silently(pgvector: str) -> None:
    """pgvector 0.8.6 is enough; versions are compared as numbers."""
    check_extension(replace(SOUND, pgvector=pgvector))
    check_login(SOUND, NAMES)
    assert pgvector_defect(pgvector) is None


@pytest.mark.parametrize("version", ["0.7.4", "0.5.1", "0.4"])
def test_a_pgvector_that_is_too_old_is_refused(version: str) -> None:
    """Without iterative scans a filtered search would come up short."""
    with pytest.raises(UnsupportedDatabaseError, match=f"pgvector {version} .*ALTER EXTENSION vector UPDATE;"):
        check_extension(replace(SOUND, pgvector=version))


@pytest.mark.parametrize("version", ["0.8.0", "0.8.5"])
def test_a_pgvector_with_known_defects_is_named_with_its_remedy(version: str) -> None:
    """It works, and may damage indexes."""
    check_extension(replace(SOUND, pgvector=version))
    defect = pgvector_defect(version)
    assert defect is not None
    assert "ALTER EXTENSION vector UPDATE; and then: retrieval reindex" in defect[1]


def test_a_database_without_pgvector_is_refused_once_it_is_set_up() -> None:
    """Before that, setting it up installs the extension."""
    check_extension(replace(SOUND, pgvector=None, has_schema=False))
    with pytest.raises(UnsupportedDatabaseError, match="CREATE EXTENSION vector;"):
        check_extension(replace(SOUND, pgvector=None))


def test_a_missing_membership_is_reported_with_its_grant() -> None:
    """The names in the statement are quoted."""
    with pytest.raises(MissingPrivilegeError, match='GRANT "mine_app" TO "o""dd" WITH SET TRUE;'):
        check_login(replace(SOUND, may_act=False, login='o"dd'), NAMES)


def test_a_schema_that_is_closed_to_the_roles_is_reported_with_its_grants() -> None:
    """Not before the schema is set up, which makes the grants."""
    closed = replace(SOUND, closed=("GRANT USAGE ON SCHEMA public TO mine_app;",))
    with pytest.raises(MissingPrivilegeError, match="run: GRANT USAGE ON SCHEMA public TO mine_app;"):
        check_login(closed, NAMES)
    check_login(replace(closed, has_schema=False), NAMES)


def test_tables_without_their_grants_are_reported_before_the_schemas() -> None:
    """The grants on the schemas would not help. Not before the schema is set up."""
    bare = replace(SOUND, has_grants=False, closed=("GRANT USAGE ON SCHEMA public TO mine_app;",))
    with pytest.raises(MissingPrivilegeError, match="; restore the dump again, into an empty database, with neither "):
        check_login(bare, NAMES)
    check_login(replace(bare, has_schema=False), NAMES)


def test_revisions_read_from_files_equal_alembics() -> None:
    """Every revision, in order, and so the head."""
    scripts = ScriptDirectory(str(directory("migrations")))
    assert list(known_revisions())[::-1] == [script.revision for script in scripts.walk_revisions()]


def test_the_head_is_current() -> None:
    """A schema at the head needs nothing."""
    status = status_of("retrieval", f"{known_revisions()[-1]}+{build()}")

    status.check()
    assert status.is_current
    assert status.known


@pytest.mark.parametrize(
    ("current", "message"),
    [
        (None, "not set up in this database; run: retrieval db upgrade"),
        ("9999+abc", "revision 9999, which this version of the program does not know"),
    ],
)
def test_a_schema_that_is_missing_or_ahead_is_reported_with_a_remedy(current: str | None, message: str) -> None:
    """Each has its own message."""
    with pytest.raises(SchemaRevisionError, match=message):
        status_of("retrieval", current).check()


def test_an_outdated_schema_is_reported_with_the_upgrade() -> None:
    """The revision is known, but not the head."""
    with pytest.raises(SchemaRevisionError, match="at revision 0001 and this program needs 0002; run: retrieval db up"):
        SchemaStatus("retrieval", "0001", "0002", known=True).check()


@pytest.mark.parametrize("built_by", ["", "+0123456789abcdef"])
def test_a_schema_of_another_build_has_to_be_created_again(built_by: str) -> None:
    """The same revision may install other SQL until it is released; no step leads from one to the other."""
    status = status_of("retrieval", known_revisions()[-1] + built_by)
    assert not status.is_current
    with pytest.raises(SchemaRevisionError, match=r"of another build.* start with .*or RETRIEVAL_SCHEMA"):
        status.check()
