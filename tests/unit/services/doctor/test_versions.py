"""What the doctor says of releases and of the schema's revision."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.adapters.store.installation.revisions import SchemaStatus
from retrieval.domain.diagnosis import Severity
from retrieval.services.doctor.server import check_pgvector, check_revision, check_server, check_textsearch, version
from tests.support.facts import server


def test_a_sound_server_is_not_spoken_of() -> None:
    """Current releases, nothing optional installed."""
    assert [*check_server(server()), *check_pgvector(server()), *check_textsearch(server())] == []


@pytest.mark.parametrize(
    ("changes", "severity", "found", "mend"),
    [
        ({"version_number": 150010, "version": "15.10"}, Severity.ERROR, "PostgreSQL 15.10", "upgrade the server"),
        ({"is_standby": True}, Severity.ERROR, "standby", "primary"),
        ({"encoding": "LATIN1"}, Severity.WARNING, "LATIN1", "ENCODING 'UTF8'"),
        ({"is_collation_changed": True}, Severity.WARNING, "sorts text otherwise", 'REINDEX DATABASE "shop"'),
        ({"checksum_failures": 2}, Severity.ERROR, "2 pages", "restore a backup"),
    ],
)
def test_what_is_wrong_with_the_server_is_told(
    changes: dict[str, Any], severity: Severity, found: str, mend: str
) -> None:
    """Each with the way to mend it."""
    (finding,) = check_server(server(**changes))
    assert (finding.severity, found in finding.found, mend in finding.mend) == (severity, True, True)


@pytest.mark.parametrize(
    ("installed", "available", "severity", "mend"),
    [
        (None, "0.8.6", Severity.ERROR, "have a superuser run there: CREATE EXTENSION vector;"),
        (None, None, Severity.ERROR, "install the package"),
        ("0.7.4", "0.7.4", Severity.ERROR, "ALTER EXTENSION vector UPDATE;"),
        ("0.8.5", "0.8.6", Severity.WARNING, "retrieval reindex"),
        ("0.8.6", "0.9.0", Severity.ADVICE, "ALTER EXTENSION vector UPDATE;"),
    ],
)
def test_releases_of_pgvector_are_told_apart(
    installed: str | None, available: str | None, severity: Severity, mend: str
) -> None:
    """Missing, too old, able to spoil indexes, or older than what lies ready."""
    (finding,) = check_pgvector(server(pgvector=installed, pgvector_available=available))
    assert (finding.severity, mend in finding.mend) == (severity, True)


@pytest.mark.parametrize(
    ("changes", "severity", "mend"),
    [
        ({"textsearch": "1.0", "is_textsearch_loaded": False}, Severity.ERROR, "shared_preload_libraries"),
        (
            {"textsearch": "1.0.0", "textsearch_available": "1.1.0", "is_textsearch_loaded": True},
            Severity.ADVICE,
            "ALTER EXTENSION pg_textsearch UPDATE;",
        ),
        ({"textsearch_available": "1.0"}, Severity.ADVICE, "CREATE EXTENSION pg_textsearch"),
    ],
)
def test_pg_textsearch_is_used_or_left(changes: dict[str, Any], severity: Severity, mend: str) -> None:
    """Installed and not loaded, it breaks; lying ready, it is recommended."""
    (finding,) = check_textsearch(server(**changes))
    assert (finding.severity, mend in finding.mend) == (severity, True)


@pytest.mark.parametrize(
    ("status", "mend"),
    [
        (SchemaStatus("retrieval", None, "0018", known=False), "retrieval db upgrade"),
        (SchemaStatus("retrieval", "0003", "0018", known=True), "retrieval db upgrade"),
        (SchemaStatus("retrieval", "9999", "0018", known=False), "newer program"),
    ],
)
def test_a_schema_of_another_revision_is_an_error(status: SchemaStatus, mend: str) -> None:
    """Not set up, behind, or ahead."""
    (finding,) = check_revision(status)
    assert (finding.severity, mend in finding.mend) == (Severity.ERROR, True)


def test_a_current_schema_is_not_spoken_of() -> None:
    """It is what this program needs."""
    assert list(check_revision(SchemaStatus("retrieval", "0018", "0018", known=True))) == []


def test_releases_are_compared_as_numbers() -> None:
    """0.10 is newer than 0.9, and what follows the numbers does not count."""
    assert version("0.10.0") > version("0.9.9")
    assert version("1.0-dev") == (1, 0)
