"""The doctor on the server: settings, connections, transactions, clocks, releases and the schema's revision."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from retrieval.adapters.store.installation.checks import SchemaStatus, version
from retrieval.adapters.store.installation.examination.installation import Holdup, setting_value
from retrieval.domain.diagnosis import Severity
from retrieval.services.doctor.server import (
    check_clock,
    check_connections,
    check_holdups,
    check_pgvector,
    check_revision,
    check_server,
    check_settings,
    check_textsearch,
    check_wraparound,
)
from tests.support.facts import NOW, server


def test_a_sound_server_is_not_spoken_of() -> None:
    """Current releases, nothing optional installed."""
    assert [*check_server(server()), *check_pgvector(server()), *check_textsearch(server())] == []


@pytest.mark.parametrize(
    ("changes", "severity", "text", "mend"),
    [
        ({"version_number": 150010, "version": "15.10"}, Severity.ERROR, "PostgreSQL 15.10", "upgrade the server"),
        ({"is_standby": True}, Severity.ERROR, "standby", "primary"),
        ({"encoding": "LATIN1"}, Severity.WARNING, "LATIN1", "ENCODING 'UTF8'"),
        ({"is_collation_changed": True}, Severity.WARNING, "sorts text in another order", 'REINDEX DATABASE "shop"'),
        ({"checksum_failures": 2}, Severity.ERROR, "2 pages", "restore a backup"),
    ],
)
def test_faults_of_the_server_are_reported_with_remedies(
    changes: dict[str, Any], severity: Severity, text: str, mend: str
) -> None:
    """Each with the way to mend it."""
    (finding,) = check_server(server(**changes))
    assert (finding.severity, text in finding.found, mend in finding.mend) == (severity, True, True)


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
def test_releases_of_pgvector_are_distinguished(
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


MB = 1 << 20
GOOD: dict[str, str | float] = {
    "shared_buffers": 1024.0 * MB,
    "maintenance_work_mem": 256.0 * MB,
    "work_mem": 16.0 * MB,
    "random_page_cost": 1.1,
    "jit": "off",
    "max_parallel_workers_per_gather": 2.0,
    "max_parallel_maintenance_workers": 2.0,
    "synchronous_commit": "on",
    "fsync": "on",
    "autovacuum": "on",
    "statement_timeout": 0.0,
}


def test_settings_that_suit_are_not_spoken_of() -> None:
    """Neither are settings that could not be read."""
    assert list(check_settings(GOOD, 10_000 * MB)) == []
    assert list(check_settings({}, 10_000 * MB)) == []


@pytest.mark.parametrize(
    ("name", "value", "severity", "mend"),
    [
        ("shared_buffers", 128.0 * MB, Severity.ADVICE, "'2GB'; -- about a quarter"),
        ("maintenance_work_mem", 16.0 * MB, Severity.ADVICE, "'256MB'; SELECT pg_reload_conf();"),
        ("work_mem", 1.0 * MB, Severity.ADVICE, "'16MB'"),
        ("random_page_cost", 4.0, Severity.ADVICE, "'1.1'"),
        ("jit", "on", Severity.ADVICE, "'off'"),
        ("max_parallel_workers_per_gather", 0.0, Severity.ADVICE, "'2'"),
        ("max_parallel_maintenance_workers", 0.0, Severity.ADVICE, "'2'"),
        ("synchronous_commit", "off", Severity.ADVICE, "'on'"),
        ("fsync", "off", Severity.WARNING, "'on'"),
        ("autovacuum", "off", Severity.WARNING, "'on'"),
        ("default_transaction_read_only", "on", Severity.ERROR, "'off'"),
        ("enable_indexscan", "off", Severity.WARNING, "'on'"),
        ("statement_timeout", 2.0, Severity.ADVICE, "'60s'"),
    ],
)
def test_a_setting_worth_changing_is_reported(name: str, value: str | float, severity: Severity, mend: str) -> None:
    """With the statement that changes it."""
    (finding,) = check_settings({**GOOD, name: value}, 10_000 * MB)
    assert (finding.about, finding.severity) == (name, severity)
    assert f"ALTER SYSTEM SET {name} = " in finding.mend
    assert mend in finding.mend


def test_little_memory_is_enough_for_little_data() -> None:
    """The standard 128 MB hold a small database completely."""
    assert list(check_settings({**GOOD, "shared_buffers": 128.0 * MB}, 20 * MB)) == []


@pytest.mark.parametrize(
    ("setting", "unit", "value"),
    [("16384", "8kB", 128.0 * MB), ("65536", "kB", 64.0 * MB), ("1500", "ms", 1.5), ("1.1", "", 1.1), ("on", "", "on")],
)
def test_settings_are_read_in_bytes_and_seconds(setting: str, unit: str, value: str | float) -> None:
    """PostgreSQL counts some in pages."""
    assert setting_value(setting, unit) == value


@pytest.mark.parametrize(("connections", "pool", "text"), [(80, 8, "80 of 97"), (5, 100, "RETRIEVAL_POOL_SIZE is 100")])
def test_connections_near_the_limit_are_reported(connections: int, pool: int, text: str) -> None:
    """Used up already, or by this process alone."""
    (finding,) = check_connections(server(connections=connections), pool)
    assert (finding.severity, text in finding.found) == (Severity.WARNING, True)
    assert list(check_connections(server(), 8)) == []


@pytest.mark.parametrize(
    ("kind", "size", "severity", "mend"),
    [
        ("idle", 0, Severity.WARNING, "SELECT pg_terminate_backend(42);"),
        ("transaction", 0, Severity.WARNING, "SELECT pg_terminate_backend(42);"),
        ("blocked", 0, Severity.WARNING, "end the process that holds it"),
        ("prepared", 0, Severity.WARNING, "ROLLBACK PREPARED '42';"),
        ("slot", 5 << 20, Severity.ADVICE, "SELECT pg_drop_replication_slot('42');"),
        ("slot", 5 << 30, Severity.WARNING, "SELECT pg_drop_replication_slot('42');"),
    ],
)
def test_blocking_sessions_are_reported_with_remedies(kind: str, size: int, severity: Severity, mend: str) -> None:
    """With what ends it."""
    (finding,) = check_holdups(
        [Holdup(kind=kind, who="42", what="ann, psql", seconds=7200, bytes=size)], sees_all=True, login="shop"
    )
    assert (finding.severity, mend in finding.mend) == (severity, True)


def test_a_login_that_sees_only_its_own_sessions_is_reported() -> None:
    """Otherwise an empty result would look like a server without hold-ups."""
    (finding,) = check_holdups([], sees_all=False, login="shop")
    assert (finding.severity, "pg_read_all_stats" in finding.mend) == (Severity.ADVICE, True)


@pytest.mark.parametrize(
    ("age", "severity"), [(399_000_000, None), (401_000_000, Severity.WARNING), (1_100_000_000, Severity.ERROR)]
)
def test_rows_that_are_not_frozen_in_time_are_reported(age: int, severity: Severity | None) -> None:
    """A warning from twice the age at which autovacuum starts, and an error at half of the maximum."""
    assert [finding.severity for finding in check_wraparound(server(frozen_age=age))] == (
        [severity] if severity else []
    )


@pytest.mark.parametrize(("seconds", "text"), [(90, "ahead of"), (-90, "behind")])
def test_different_clocks_are_reported(seconds: int, text: str) -> None:
    """In which direction, and by how much."""
    (finding,) = check_clock(server(now=NOW + timedelta(seconds=seconds)), NOW, NOW)
    assert f"90 seconds {text} this machine's" in finding.found
    assert list(check_clock(server(), NOW, NOW)) == []


def test_a_slow_answer_is_no_difference_of_clocks() -> None:
    """The server's time is then anywhere between the question and the answer."""
    assert list(check_clock(server(), NOW - timedelta(minutes=1), NOW + timedelta(minutes=1))) == []
