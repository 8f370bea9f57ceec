"""What the doctor says of the server's settings."""

from __future__ import annotations

import pytest

from retrieval.adapters.store.installation.examination.server_state import setting_value
from retrieval.domain.diagnosis import Severity
from retrieval.services.doctor.server import check_settings

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
    """Nor those that were not read."""
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
def test_a_setting_worth_changing_is_told(name: str, value: str | float, severity: Severity, mend: str) -> None:
    """With the statement that changes it."""
    (finding,) = check_settings({**GOOD, name: value}, 10_000 * MB)
    assert (finding.about, finding.severity) == (name, severity)
    assert f"ALTER SYSTEM SET {name} = " in finding.mend
    assert mend in finding.mend


def test_little_memory_is_enough_for_little_data() -> None:
    """The standard 128 MB hold a small database whole."""
    assert list(check_settings({**GOOD, "shared_buffers": 128.0 * MB}, 20 * MB)) == []


@pytest.mark.parametrize(
    ("setting", "unit", "value"),
    [("16384", "8kB", 128.0 * MB), ("65536", "kB", 64.0 * MB), ("1500", "ms", 1.5), ("1.1", "", 1.1), ("on", "", "on")],
)
def test_settings_are_read_in_bytes_and_seconds(setting: str, unit: str, value: str | float) -> None:
    """PostgreSQL counts some in pages."""
    assert setting_value(setting, unit) == value
