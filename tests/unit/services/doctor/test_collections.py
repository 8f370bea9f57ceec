"""The doctor on collections, embedders, the queue, its workers and the months."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from retrieval.adapters.store.installation.examination import TenantFacts
from retrieval.adapters.store.installation.queue import FAILED, JobRun
from retrieval.adapters.store.search.indexes import AnnIndex, IndexStatus
from retrieval.adapters.store.search.reembeddings import PAUSED, REMOVING, ReembeddingState
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.domain.items.collection import IndexKind
from retrieval.domain.items.embedding import EmbeddingSpace
from retrieval.services.doctor.collections import (
    check_collection,
    check_embedders,
    check_months,
    check_queue,
)
from tests.support.facts import NOW, collection, measured, queue, status

USELESS = AnnIndex(rows=20_000, index_bytes=40 << 20, is_quantised=True, effort_10=1001)
"""Bits by which the nearest are not found."""


FAILED_RUN = JobRun(job="learn", started_at=NOW, finished_at=NOW, outcome=FAILED, details={"error": "it broke"})


def hnsw(**changes: Any) -> IndexStatus:
    """The HNSW index of the collection."""
    sound: dict[str, Any] = {"name": "embeddings_4_7_hnsw", "valid": True, "bytes": 40 << 20, "rows": 20_000}
    return IndexStatus(**{**sound, **changes})


def findings(
    index: IndexStatus | None,
    *,
    has_worker: bool = False,
    stored: dict[str, Any] | None = None,
    tenant: TenantFacts | None = None,
    **changes: Any,
) -> list[Finding]:
    """The findings about the collection with those changes of its status."""
    changed = collection(**stored or {})
    indexes = () if index is None else (index,)
    state = status(**{"name": changed.name, "indexes": indexes, **changes})
    return list(check_collection(changed, state, tenant or TenantFacts(), NOW, has_worker=has_worker))


def test_a_sound_collection_is_not_spoken_of() -> None:
    """Neither is one without vectors, nor a small one without an index."""
    assert findings(hnsw()) == []
    assert findings(None, stored={"space": None, "ann_index": None}, recall=()) == []
    assert findings(None, stored={"documents": 500, "ann_index": None}, recall=()) == []


@pytest.mark.parametrize(
    ("changes", "check", "job"),
    [
        ({"pending": 3}, "pending", "embed"),
        ({"weights_pending": True}, "weights", "weights"),
        ({"runs": (FAILED_RUN,)}, "jobs", "learn"),
        ({"recall": (measured(0.95, 50, NOW),)}, "recall", "recall"),
        ({"recall": ()}, "recall", "recall"),
        ({"recall": (measured(1, 50, NOW - timedelta(days=31)),)}, "recall", "recall"),
    ],
)
def test_pending_work_and_low_recall_are_reported_with_the_job_that_helps(
    changes: dict[str, Any], check: str, job: str
) -> None:
    """The command can be copied."""
    (finding,) = findings(hnsw(), **changes)
    assert (finding.check, finding.about) == (check, "tickets")
    assert finding.mend.startswith(f"retrieval jobs run {job} --collection tickets")


@pytest.mark.parametrize(
    ("stage", "note", "says", "mend"),
    [
        (ReembeddingState.FILLING, "the budget is spent", "is filling and waits: the budget is spent", ""),
        (ReembeddingState.FILLING, PAUSED, "is filling and waits: paused", " resume"),
        (ReembeddingState.READY, "", "is ready and waits: somebody has to switch it", " switch"),
        (ReembeddingState.READY, "it compares worse", "is ready and waits: it compares worse", ""),
        (ReembeddingState.REMOVING, REMOVING, "is removing and waits: a worker", " run"),
    ],
)
def test_a_reembedding_that_waits_is_reported(stage: ReembeddingState, note: str, says: str, mend: str) -> None:
    """The finding says why it waits, and names the action that ends the waiting, where one does."""
    (finding,) = findings(hnsw(), tenant=TenantFacts(reembeddings={7: (stage, note)}))
    assert (finding.check, finding.severity, finding.mend) == (
        "reembed", Severity.ADVICE, f"retrieval reembed tickets{mend}"
    )  # fmt: skip
    assert f"the re-embedding of collection 'tickets' {says}" in finding.found


@pytest.mark.parametrize("stage", [ReembeddingState.FILLING, ReembeddingState.SWITCHED])
def test_a_reembedding_that_proceeds_is_not_spoken_of(stage: ReembeddingState) -> None:
    """Neither is one that keeps its former space for some days."""
    assert findings(hnsw(), tenant=TenantFacts(reembeddings={7: (stage, "")})) == []


def test_an_unfinished_change_of_neighbours_is_reported() -> None:
    """Until the job has ended, searches compare items of both settings."""
    (finding,) = findings(hnsw(), tenant=TenantFacts(mixed=[7]))
    assert (finding.check, finding.mend) == ("neighbours", "retrieval jobs run neighbours --collection tickets")
    assert "a change of neighbours of collection 'tickets' is not finished" in finding.found


def test_few_samples_say_too_little_about_recall() -> None:
    """Nine searches that missed something are too few for a measure."""
    assert findings(hnsw(), recall=(measured(0.5, 9, NOW),)) == []


def test_pending_work_without_a_worker_is_more_severe() -> None:
    """With a worker it is a matter of minutes."""
    assert [finding.severity for finding in findings(hnsw(), pending=3)] == [Severity.WARNING]
    assert [finding.severity for finding in findings(hnsw(), pending=3, has_worker=True)] == [Severity.ADVICE]


@pytest.mark.parametrize(
    ("index", "stored", "text", "mend"),
    [
        (None, {"ann_index": None}, "no index", "retrieval jobs run indexes --collection tickets"),
        (hnsw(bytes=90 << 20), {}, "twice as many bytes", "retrieval reindex tickets"),
        (hnsw(), {"documents": 60_000}, "was built small", "retrieval reindex tickets"),
        (hnsw(), {"documents": 45_000}, "at another size", "retrieval jobs run indexes --collection tickets"),
        (
            hnsw(),
            {"index_kind": IndexKind.QUANTISED},
            "another kind",
            "retrieval jobs run indexes --collection tickets",
        ),
        (
            hnsw(),
            {"index_kind": IndexKind.QUANTISED, "ann_index": USELESS},
            "finds too few of the nearest",
            "retrieval collections index tickets full",
        ),
        (
            hnsw(bytes=90 << 20),
            {"documents": 100_000, "ann_index": AnnIndex(rows=100_000, index_bytes=90 << 20, effort_10=1001)},
            "finds too few of the nearest",
            "retrieval collections split tickets --parts 4",
        ),
        (hnsw(), {"documents": 300}, "not needed", "retrieval jobs run indexes --collection tickets"),
        (hnsw(), {"parts": 4}, "to other parts", "retrieval jobs run indexes --collection tickets"),
        (
            hnsw(bytes=4 << 30),
            {"documents": 2_000_000, "ann_index": AnnIndex(rows=2_000_000, index_bytes=4 << 30)},
            "does not fit in memory",
            "retrieval collections split tickets --parts 3",
        ),
    ],
)
def test_an_index_that_does_not_fit_the_collection_is_reported(
    index: IndexStatus | None, stored: dict[str, Any], text: str, mend: str
) -> None:
    """Missing, bloated, measured at another size, or not needed."""
    (finding,) = [finding for finding in findings(index, stored=stored) if finding.check == "hnsw"]
    assert text in finding.found
    assert finding.mend == mend


def test_an_invalid_index_is_left_to_the_check_of_all_indexes() -> None:
    """That check knows whether it is being built."""
    assert findings(hnsw(valid=False), stored={"ann_index": None}, recall=()) == []


def test_searches_that_were_not_recorded_are_counted_by_reason() -> None:
    """The searches of the last week count."""
    (finding,) = findings(hnsw(), tenant=TenantFacts(lost={7: {"full": 12, "closed": 3}}))
    assert (finding.check, finding.severity) == ("recording", Severity.WARNING)
    assert "15 answers" in finding.found
    assert "full 12, closed 3" in finding.found


def test_a_name_that_the_shell_would_split_is_quoted() -> None:
    """The command works as it is copied."""
    odd = {"name": "it's mine", "ann_index": AnnIndex(rows=20_000, index_bytes=40 << 20)}
    (finding,) = findings(hnsw(), stored=odd, pending=1)
    assert finding.mend == """retrieval jobs run embed --collection 'it'"'"'s mine'"""


def test_only_their_application_can_give_vectors_of_its_own() -> None:
    """No job helps where no setting names the embedder."""
    own = StoredSpace(4, EmbeddingSpace(provider="acme", model="m", dimensions=384))
    index = AnnIndex(rows=20_000, index_bytes=40 << 20)
    (finding,) = findings(hnsw(), stored={"space": own, "ann_index": index}, pending=1)
    assert finding.mend.startswith("add these items again with embeddings=")


def test_a_queue_with_a_worker_is_not_spoken_of() -> None:
    """Jobs that wait for a moment included."""
    assert list(check_queue(queue(waiting=3, oldest_seconds=40))) == []


@pytest.mark.parametrize(
    ("changes", "severity", "text"),
    [
        (
            {"workers": 0, "silent_seconds": 7200.0, "due_seconds": 7230.0},
            Severity.WARNING,
            "2 hours ago: it hangs or was killed",
        ),
        (
            {"workers": 0, "silent_seconds": None, "due_seconds": 90.0, "waiting": 2},
            Severity.ADVICE,
            "no worker runs, 2 jobs waiting",
        ),
        ({"workers": 0, "silent_seconds": None, "due_seconds": None}, Severity.ADVICE, "no worker has ever run"),
        ({"workers": 0, "silent_seconds": None, "due_seconds": 90_000.0}, Severity.WARNING, "25 hours ago"),
        ({"failed": ["months", "prune"]}, Severity.WARNING, "jobs in the queue failed: months, prune"),
        ({"stalled": 1}, Severity.WARNING, "1 job started by a worker that no longer responds"),
        ({"waiting": 9, "oldest_seconds": 9000.0}, Severity.WARNING, "the oldest for 2 hours"),
    ],
)
def test_a_neglected_queue_is_reported(changes: dict[str, Any], severity: Severity, text: str) -> None:
    """A worker that is gone, and jobs that failed, hang or wait."""
    (finding,) = check_queue(queue(**changes))
    assert (finding.severity, text in finding.found) == (severity, True)
    assert "retrieval" in finding.mend


def test_a_worker_that_comes_by_schedule_is_enough() -> None:
    """``retrieval worker --once`` leaves no sign of life between its runs."""
    assert list(check_queue(queue(workers=0, silent_seconds=None, due_seconds=600.0))) == []


def test_a_killed_worker_that_another_one_followed_is_not_spoken_of() -> None:
    """Its row stays in the queue until a worker removes it."""
    assert list(check_queue(queue(workers=0, silent_seconds=7200.0, due_seconds=600.0))) == []


def test_missing_months_are_reported() -> None:
    """With the job that makes them, of one collection."""
    (finding,) = check_months(["retrievals_2026_05"], "tickets")
    assert (finding.severity, finding.mend) == (Severity.WARNING, "retrieval jobs run months --collection tickets")
    assert list(check_months([], "tickets")) == []


@pytest.mark.parametrize(
    ("problem", "severity", "text"),
    [(None, Severity.WARNING, "no embedder is configured"), ("it is down", Severity.ERROR, "it is down")],
)
def test_an_embedder_without_answers_is_reported(problem: str | None, severity: Severity, text: str) -> None:
    """There is none, or it does not answer."""
    (finding,) = check_embedders({"good": "", "a (3)": problem})
    assert (finding.severity, finding.about, text in finding.found) == (severity, "a (3)", True)
