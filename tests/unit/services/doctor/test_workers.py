"""What the doctor says of the queue, its workers and the months."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.domain.diagnosis import Severity
from retrieval.services.doctor.collections import check_months, check_queue
from tests.support.facts import queue


def test_a_queue_with_a_worker_is_not_spoken_of() -> None:
    """Jobs that wait for a moment included."""
    assert list(check_queue(queue(waiting=3, oldest_seconds=40))) == []


@pytest.mark.parametrize(
    ("changes", "severity", "found"),
    [
        ({"workers": 0, "silent_seconds": 7200.0}, Severity.WARNING, "2 hours ago: it hangs or was killed"),
        ({"workers": 0, "silent_seconds": None, "due_seconds": None}, Severity.ADVICE, "no worker has ever run"),
        ({"workers": 0, "silent_seconds": None, "due_seconds": 90_000.0}, Severity.WARNING, "25 hours ago"),
        ({"failed": 2, "last_failed": "embed"}, Severity.WARNING, "2 jobs in the queue failed, the last one 'embed'"),
        ({"stalled": 1}, Severity.WARNING, "1 job began with a worker that gives no more sign of life"),
        ({"waiting": 9, "oldest_seconds": 9000.0}, Severity.WARNING, "the oldest for 2 hours"),
    ],
)
def test_a_queue_that_nobody_sees_to_is_told(changes: dict[str, Any], severity: Severity, found: str) -> None:
    """A worker that is gone, and jobs that failed, hang or wait."""
    (finding,) = check_queue(queue(**changes))
    assert (finding.severity, found in finding.found) == (severity, True)
    assert "retrieval" in finding.mend


def test_a_worker_that_comes_by_schedule_is_enough() -> None:
    """``retrieval worker --once`` leaves no sign of life between its runs."""
    assert list(check_queue(queue(workers=0, silent_seconds=None, due_seconds=600.0))) == []


def test_months_that_are_missing_are_told() -> None:
    """With the job that makes them, of a collection where there is one."""
    (finding,) = check_months(["retrievals_2026_05"], "tickets")
    assert (finding.severity, finding.mend) == (Severity.WARNING, "retrieval jobs run months --collection tickets")
    assert list(check_months([], None)) == []
