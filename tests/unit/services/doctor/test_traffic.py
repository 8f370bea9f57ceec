"""What the doctor says of connections, long transactions, transaction numbers and clocks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from retrieval.adapters.store.installation.examination.activity import Holdup
from retrieval.domain.diagnosis import Severity
from retrieval.services.doctor.server import check_clock, check_connections, check_holdups, check_wraparound
from tests.support.facts import NOW, server


@pytest.mark.parametrize(
    ("connections", "pool", "found"), [(80, 8, "80 of 97"), (5, 100, "RETRIEVAL_POOL_SIZE is 100")]
)
def test_connections_near_the_limit_are_told(connections: int, pool: int, found: str) -> None:
    """Used up already, or by this process alone."""
    (finding,) = check_connections(server(connections=connections), pool)
    assert (finding.severity, found in finding.found) == (Severity.WARNING, True)
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
def test_what_holds_others_up_is_told(kind: str, size: int, severity: Severity, mend: str) -> None:
    """With what ends it."""
    (finding,) = check_holdups(
        [Holdup(kind=kind, who="42", what="ann, psql", seconds=7200, bytes=size)], sees_all=True, login="shop"
    )
    assert (finding.severity, mend in finding.mend) == (severity, True)


def test_a_login_that_sees_only_itself_is_told_so() -> None:
    """Nothing found would else look like nothing there."""
    (finding,) = check_holdups([], sees_all=False, login="shop")
    assert (finding.severity, "pg_read_all_stats" in finding.mend) == (Severity.ADVICE, True)


@pytest.mark.parametrize(
    ("age", "severity"), [(399_000_000, None), (401_000_000, Severity.WARNING), (1_100_000_000, Severity.ERROR)]
)
def test_rows_that_are_not_frozen_in_time_are_told(age: int, severity: Severity | None) -> None:
    """From twice the age at which the server sees to it, and as an error when it is half way to the end."""
    assert [one.severity for one in check_wraparound(server(frozen_age=age))] == ([severity] if severity else [])


@pytest.mark.parametrize(("seconds", "said"), [(90, "ahead of"), (-90, "behind")])
def test_clocks_that_differ_are_told(seconds: int, said: str) -> None:
    """In which direction, and by how much."""
    (finding,) = check_clock(server(now=NOW + timedelta(seconds=seconds)), NOW)
    assert f"90 seconds {said} this machine's" in finding.found
    assert list(check_clock(server(), NOW)) == []
