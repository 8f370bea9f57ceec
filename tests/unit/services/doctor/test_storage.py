"""What the doctor says of tables and indexes."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.domain.diagnosis import Severity
from retrieval.services.doctor.storage import ExpectedIndex, check_indexes, check_missing, check_tables
from tests.support.facts import hnsw, index, table

SETTINGS = {"autovacuum_vacuum_threshold": 50.0, "autovacuum_vacuum_scale_factor": 0.2}
OWNERS = {"embeddings_4_7_hnsw": "tickets"}


@pytest.mark.parametrize(
    ("broken", "mend"),
    [
        (hnsw(is_valid=False), "retrieval jobs run indexes --collection tickets"),
        (index(is_valid=False), 'REINDEX INDEX CONCURRENTLY "retrieval"."items_pkey";'),
        (index(name="items_pkey_ccnew", is_valid=False), 'DROP INDEX CONCURRENTLY "retrieval"."items_pkey_ccnew";'),
        (index(name="items_pkey_ccold2", is_valid=False), 'DROP INDEX CONCURRENTLY "retrieval"."items_pkey_ccold2";'),
        (hnsw(name="embeddings_4_7_hnsw_ccnew1", is_valid=False), "retrieval jobs run indexes --collection tickets"),
    ],
)
def test_an_invalid_index_is_an_error(broken: Any, mend: str) -> None:
    """A collection's own, any other, and what an interrupted rebuild left."""
    (finding,) = check_indexes([index(name="good"), broken], "retrieval", OWNERS)
    assert (finding.severity, finding.about, finding.mend) == (Severity.ERROR, broken.name, mend)


def test_an_index_that_is_being_built_is_no_fault() -> None:
    """It is invalid until it is done."""
    assert list(check_indexes([hnsw(is_valid=False, is_being_built=True)], "retrieval", OWNERS)) == []


EXPECTED = {
    "items_pkey": ExpectedIndex("items", ""),
    "items_by_arrival_idx": ExpectedIndex("items", "CREATE INDEX items_by_arrival_idx ...;"),
    "arms_pkey": ExpectedIndex("arms", ""),
}


def test_an_index_that_somebody_dropped_is_missed() -> None:
    """With the statement that makes it again."""
    (finding,) = check_missing([table(), table(name="arms")], [index(), index(name="arms_pkey")], EXPECTED)
    assert (finding.check, finding.severity, finding.about) == ("indexes", Severity.ERROR, "items_by_arrival_idx")
    assert finding.mend == "CREATE INDEX items_by_arrival_idx ...;"


def test_a_table_that_somebody_dropped_is_missed_and_its_indexes_are_not() -> None:
    """They went with it."""
    (finding,) = check_missing([table()], [index(), index(name="items_by_arrival_idx")], EXPECTED)
    assert (finding.check, finding.severity, finding.about) == ("tables", Severity.ERROR, "arms")


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
