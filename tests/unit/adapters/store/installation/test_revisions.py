"""The revisions that are read from the migrations' files."""

from __future__ import annotations

import pytest
from alembic.script import ScriptDirectory

from retrieval.adapters.store.installation.checks import SchemaStatus, head_revision, known_revisions, status_of
from retrieval.adapters.store.installed_sql import build, directory
from retrieval.domain.errors import SchemaRevisionError


def test_the_files_tell_what_alembic_tells() -> None:
    """Every revision, what it follows and the head are those that Alembic finds."""
    scripts = ScriptDirectory(str(directory("migrations")))
    followed = {script.revision: script.down_revision for script in scripts.walk_revisions()}

    assert dict(known_revisions()) == followed
    assert head_revision() == scripts.get_current_head()


def test_the_head_is_current() -> None:
    """A schema at the head needs nothing."""
    status = status_of("retrieval", f"{head_revision()}+{build()}")

    status.check()
    assert status.is_current
    assert status.known


@pytest.mark.parametrize(
    ("current", "told"),
    [
        (None, "not set up in this database; run: retrieval db upgrade"),
        ("9999+abc", "revision 9999, which this version of the program does not know"),
    ],
)
def test_a_schema_that_is_missing_or_ahead_is_told_with_what_to_do(current: str | None, told: str) -> None:
    """Each has its own message."""
    with pytest.raises(SchemaRevisionError, match=told):
        status_of("retrieval", current).check()


def test_a_schema_that_is_behind_is_told_to_be_upgraded() -> None:
    """A revision that is known and not the head."""
    with pytest.raises(SchemaRevisionError, match="at revision 0001 and this program needs 0002; run: retrieval db up"):
        SchemaStatus("retrieval", "0001", "0002", known=True).check()


@pytest.mark.parametrize("built_by", ["", "+0123456789abcdef"])
def test_a_schema_of_another_build_is_told_to_begin_anew(built_by: str) -> None:
    """The same revision may install other SQL until it is released; no step leads from one to the other."""
    status = status_of("retrieval", head_revision() + built_by)
    assert not status.is_current
    with pytest.raises(SchemaRevisionError, match=r"of another build.* begin anew .*or RETRIEVAL_SCHEMA"):
        status.check()
