"""What the doctor says of tables and indexes."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.domain.diagnosis import Severity
from retrieval.jobs.doctor.storage import check_indexes, check_missing, check_tables
from tests.support.facts import hnsw, index, table

SETTINGS = {"autovacuum_vacuum_threshold": 50.0, "autovacuum_vacuum_scale_factor": 0.2}
OWNERS = {"embeddings_4_7_hnsw": "tickets"}


@pytest.mark.parametrize(
    ("broken", "mend"),
    [
        (hnsw(is_valid=False), "retrieval jobs run indexes --collection tickets"),
        (index(is_valid=False), 'REINDEX INDEX CONCURRENTLY "retrieval"."items_pkey";'),
        (index(name="items_pkey_ccnew", is_valid=False), 'DROP INDEX CONCURRENTLY "retrieval"."items_pkey_ccnew";'),
    ],
)
def test_an_invalid_index_is_an_error(broken: Any, mend: str) -> None:
    """A collection's own, any other, and what an interrupted rebuild left."""
    (finding,) = check_indexes([index(name="good"), broken], "retrieval", OWNERS)
    assert (finding.severity, finding.about, finding.mend) == (Severity.ERROR, broken.name, mend)


def test_an_index_that_is_being_built_is_no_fault() -> None:
    """It is invalid until it is done."""
    assert list(check_indexes([hnsw(is_valid=False, is_being_built=True)], "retrieval", OWNERS)) == []


def test_an_index_that_somebody_dropped_is_missed() -> None:
    """The schema is made with it."""
    expected = {"items_pkey": "", "arms_anywhere_idx": "CREATE INDEX arms_anywhere_idx ...;"}
    (finding,) = check_missing([index()], expected)
    assert (finding.severity, finding.about) == (Severity.ERROR, "arms_anywhere_idx")
    assert finding.mend == "CREATE INDEX arms_anywhere_idx ...;"


@pytest.mark.parametrize(
    ("changes", "check", "severity"),
    [
        ({"is_logged": False}, "tables", Severity.ERROR),
        ({"is_vacuumed": False}, "tables", Severity.WARNING),
        ({"dead": 41_000}, "bloat", Severity.WARNING),
        ({"dead": 15_000, "dead_share": 0.05}, "bloat", Severity.WARNING),
        ({"changed": 26_000}, "statistics", Severity.WARNING),
        ({"analyzed_at": None}, "statistics", Severity.ADVICE),
    ],
)
def test_a_neglected_table_is_told(changes: dict[str, Any], check: str, severity: Severity) -> None:
    """Unlogged, not cleaned, not counted."""
    (finding,) = check_tables([table(**changes)], "retrieval", SETTINGS)
    assert (finding.check, finding.severity, finding.about) == (check, severity, "items")
    assert '"retrieval"."items"' in finding.mend


@pytest.mark.parametrize(
    "changes",
    [{}, {"dead": 39_000}, {"changed": 24_000}, {"live": 100, "changed": 90, "dead": 9_000, "analyzed_at": None}],
)
def test_a_table_that_the_server_looks_after_is_left_alone(changes: dict[str, Any]) -> None:
    """Below twice what wakes autovacuum, below a quarter changed, or small."""
    assert list(check_tables([table(**changes)], "retrieval", SETTINGS)) == []
