"""What the doctor says of a collection."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from retrieval.adapters.store.installation.examination.collection_state import RecallState
from retrieval.adapters.store.installation.examination.table_state import IndexState
from retrieval.adapters.store.search.indexes import AnnIndex
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.services.doctor.collections import check_collection
from tests.support.facts import NOW, collection, hnsw


def findings(index: IndexState | None, *, has_worker: bool = False, **changes: Any) -> list[Finding]:
    """What is said of the collection with those changes."""
    return list(check_collection(collection(**changes), index, NOW, has_worker=has_worker))


def test_a_sound_collection_is_not_spoken_of() -> None:
    """Nor one without vectors, nor a small one without an index."""
    assert findings(hnsw()) == []
    assert findings(None, stored={"space": None, "ann_index": None}, recall=None) == []
    assert findings(None, stored={"documents": 500, "ann_index": None}, recall=None) == []


@pytest.mark.parametrize(
    ("changes", "check", "job"),
    [
        ({"pending": 3}, "pending", "embed"),
        ({"are_weights_off": True}, "weights", "weights"),
        ({"failed": {"learn": "it broke"}}, "jobs", "learn"),
        ({"recall": RecallState(recall=0.95, samples=50, measured_at=NOW)}, "recall", "recall"),
        ({"recall": None}, "recall", "recall"),
        ({"recall": RecallState(recall=1, samples=50, measured_at=NOW - timedelta(days=31))}, "recall", "recall"),
    ],
)
def test_what_waits_or_sinks_is_told_with_the_job_that_mends_it(changes: dict[str, Any], check: str, job: str) -> None:
    """The command can be copied."""
    (finding,) = findings(hnsw(), **changes)
    assert (finding.check, finding.about) == (check, "tickets")
    assert finding.mend.startswith(f"retrieval jobs run {job} --collection tickets")


def test_few_samples_say_too_little_about_recall() -> None:
    """Nine searches that missed something are no measure."""
    assert findings(hnsw(), recall=RecallState(recall=0.5, samples=9, measured_at=NOW)) == []


def test_what_waits_is_worse_where_nobody_sees_to_it() -> None:
    """With a worker it is a matter of minutes."""
    assert [one.severity for one in findings(hnsw(), pending=3)] == [Severity.WARNING]
    assert [one.severity for one in findings(hnsw(), pending=3, has_worker=True)] == [Severity.ADVICE]


@pytest.mark.parametrize(
    ("index", "stored", "found", "mend"),
    [
        (None, {"ann_index": None}, "no index", "retrieval jobs run indexes --collection tickets"),
        (hnsw(bytes=90 << 20), {}, "twice the bytes", "retrieval reindex tickets"),
        (hnsw(), {"documents": 60_000}, "at another size", "retrieval jobs run indexes --collection tickets"),
        (hnsw(), {"documents": 300}, "not needed", "retrieval jobs run indexes --collection tickets"),
    ],
)
def test_an_index_that_does_not_fit_the_collection_is_told(
    index: IndexState | None, stored: dict[str, Any], found: str, mend: str
) -> None:
    """Missing, bloated, measured at another size, or not needed."""
    (finding,) = [one for one in findings(index, stored=stored) if one.check == "hnsw"]
    assert found in finding.found
    assert finding.mend == mend


def test_an_index_that_is_being_built_is_waited_for() -> None:
    """An invalid one is told of with all indexes, and not twice."""
    assert findings(hnsw(is_valid=False, is_being_built=True), stored={"ann_index": None}, recall=None) == []


def test_searches_that_were_not_recorded_are_counted_by_reason() -> None:
    """Of the last week."""
    (finding,) = findings(hnsw(), lost={"full": 12, "closed": 3})
    assert (finding.check, finding.severity) == ("recording", Severity.WARNING)
    assert "15 answers" in finding.found
    assert "full 12, closed 3" in finding.found


def test_a_name_that_the_shell_would_split_is_quoted() -> None:
    """The command works as it is copied."""
    odd = {"name": "it's mine", "ann_index": AnnIndex(rows=20_000, index_bytes=40 << 20)}
    (finding,) = findings(hnsw(), stored=odd, pending=1)
    assert finding.mend == """retrieval jobs run embed --collection 'it'"'"'s mine'"""
