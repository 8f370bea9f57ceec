"""The doctor on the server: settings, connections, clocks, releases and the schema's revision."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from retrieval.adapters.store.installation.checks import SchemaStatus, version
from retrieval.adapters.store.installation.examination import SettingValue
from retrieval.domain.diagnosis import Severity
from retrieval.services.doctor.server import (
    check_clock,
    check_connections,
    check_pgvector,
    check_revision,
    check_server,
    check_settings,
    check_textsearch,
)
from tests.support.facts import FACTS, NOW, server


def test_a_sound_server_is_not_spoken_of() -> None:
    """Current releases, nothing optional installed."""
    assert [*check_server(FACTS, server()), *check_pgvector(FACTS), *check_textsearch(server())] == []


@pytest.mark.parametrize(("connections", "pool"), [(90, 8), (97, 1), (5, 100)])
def test_too_few_connections_for_another_process_are_reported(connections: int, pool: int) -> None:
    """Used up already, or by its pool alone."""
    (finding,) = check_connections(server(connections=connections), pool)
    assert (finding.severity, finding.found.split(" connections")[0]) == (Severity.WARNING, f"{connections} of 97")
    assert list(check_connections(server(), 8)) == []


def test_a_standby_is_an_error() -> None:
    """With the way to the primary."""
    (finding,) = check_server(FACTS, server(is_standby=True))
    assert (finding.severity, "primary" in finding.mend) == (Severity.ERROR, True)


def test_another_order_of_text_is_reported() -> None:
    """Indexes on text follow the former order until they are built again."""
    (finding,) = check_server(FACTS, server(is_collation_changed=True))
    assert finding.severity is Severity.WARNING
    assert finding.mend == 'REINDEX DATABASE; ALTER DATABASE "shop" REFRESH COLLATION VERSION;'


@pytest.mark.parametrize(
    ("installed", "severity", "mend"),
    [
        (None, Severity.ERROR, "have a superuser run there: CREATE EXTENSION vector;"),
        ("0.7.4", Severity.ERROR, "ALTER EXTENSION vector UPDATE;"),
        ("0.8.5", Severity.WARNING, "retrieval reindex"),
    ],
)
def test_releases_of_pgvector_are_distinguished(installed: str | None, severity: Severity, mend: str) -> None:
    """Missing, too old, or able to spoil indexes."""
    (finding,) = check_pgvector(replace(FACTS, pgvector=installed))
    assert (finding.severity, mend in finding.mend) == (severity, True)


def test_pg_textsearch_that_is_not_loaded_is_an_error() -> None:
    """Its indexes can be neither read nor written."""
    (finding,) = check_textsearch(server(textsearch="1.0", is_textsearch_loaded=False))
    assert (finding.severity, "shared_preload_libraries" in finding.mend) == (Severity.ERROR, True)


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
GOOD = {
    "shared_buffers": SettingValue(1024.0 * MB, "1GB"),
    "maintenance_work_mem": SettingValue(256.0 * MB, "256MB"),
    "work_mem": SettingValue(16.0 * MB, "16MB"),
    "random_page_cost": SettingValue(1.1, "1.1"),
    "jit": SettingValue(None, "off"),
    "max_parallel_workers_per_gather": SettingValue(2.0, "2"),
    "max_parallel_maintenance_workers": SettingValue(2.0, "2"),
    "fsync": SettingValue(None, "on"),
    "autovacuum": SettingValue(None, "on"),
    "statement_timeout": SettingValue(0.0, "0"),
}


def test_settings_that_suit_are_not_spoken_of() -> None:
    """Neither are settings that could not be read."""
    assert list(check_settings(GOOD, 10_000 * MB)) == []
    assert list(check_settings({}, 10_000 * MB)) == []


@pytest.mark.parametrize(
    ("name", "value", "severity", "mend"),
    [
        ("shared_buffers", SettingValue(128.0 * MB, "128MB"), Severity.ADVICE, "'2GB'; -- about a quarter"),
        ("maintenance_work_mem", SettingValue(16.0 * MB, ""), Severity.ADVICE, "'256MB'; SELECT pg_reload_conf();"),
        ("work_mem", SettingValue(1.0 * MB, ""), Severity.ADVICE, "'16MB'"),
        ("random_page_cost", SettingValue(4.0, ""), Severity.ADVICE, "'1.1'"),
        ("jit", SettingValue(None, "on"), Severity.ADVICE, "'off'"),
        ("max_parallel_workers_per_gather", SettingValue(0.0, ""), Severity.ADVICE, "'2'"),
        ("max_parallel_maintenance_workers", SettingValue(0.0, ""), Severity.ADVICE, "'2'"),
        ("fsync", SettingValue(None, "off"), Severity.WARNING, "'on'"),
        ("autovacuum", SettingValue(None, "off"), Severity.WARNING, "'on'"),
        ("default_transaction_read_only", SettingValue(None, "on"), Severity.ERROR, "'off'"),
        ("statement_timeout", SettingValue(2.0, ""), Severity.ADVICE, "'60s'"),
        ("transaction_timeout", SettingValue(2.0, ""), Severity.ADVICE, "'60s'"),
    ],
)
def test_a_setting_worth_changing_is_reported(name: str, value: SettingValue, severity: Severity, mend: str) -> None:
    """With the statement that changes it."""
    (finding,) = check_settings({**GOOD, name: value}, 10_000 * MB)
    assert (finding.about, finding.severity) == (name, severity)
    assert f"ALTER SYSTEM SET {name} = " in finding.mend
    assert mend in finding.mend


def test_a_setting_of_the_command_line_is_changed_there() -> None:
    """``ALTER SYSTEM`` has no effect on it, as in a container that is started with ``postgres -c``."""
    (finding,) = check_settings({**GOOD, "jit": SettingValue(None, "on", None)}, 0)
    assert finding.mend.startswith("start the server with -c jit=off")


def test_little_memory_is_enough_for_little_data() -> None:
    """The standard 128 MB hold a small database completely."""
    assert list(check_settings({**GOOD, "shared_buffers": SettingValue(128.0 * MB, "128MB")}, 20 * MB)) == []


@pytest.mark.parametrize(("seconds", "text"), [(90, "ahead of"), (-90, "behind")])
def test_different_clocks_are_reported(seconds: int, text: str) -> None:
    """In which direction, and by how much."""
    (finding,) = check_clock(server(now=NOW + timedelta(seconds=seconds)), NOW, NOW)
    assert f"90 seconds {text} this machine's" in finding.found
    assert list(check_clock(server(), NOW, NOW)) == []


def test_a_slow_answer_is_no_difference_of_clocks() -> None:
    """The server's time is then anywhere between the question and the answer."""
    assert list(check_clock(server(), NOW - timedelta(minutes=1), NOW + timedelta(minutes=1))) == []
