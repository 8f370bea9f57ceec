"""Checks of each collection: what waits, its index, its recall, its jobs and its recordings."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from retrieval.adapters.store.installation.examination.collection_state import LOSS_DAYS, CollectionState
from retrieval.adapters.store.installation.examination.table_state import IndexState
from retrieval.adapters.store.search.indexes import hnsw_name
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.jobs.doctor.findings import several, shell_word
from retrieval.jobs.indexes import IndexOutcome, index_rows, wanted_outcome
from retrieval.jobs.recall import LEAST_RECALL, LEAST_SAMPLES

OLD_RECALL = timedelta(days=30)
"""A recall that was measured longer ago says little about now."""


def index_of(state: CollectionState, indexes: dict[str, IndexState]) -> IndexState | None:
    """The collection's HNSW index in its active space, valid or not."""
    space = state.stored.space
    return None if space is None else indexes.get(hnsw_name(space.space_id, state.stored.collection_id))


def check_collection(
    state: CollectionState, index: IndexState | None, now: datetime, *, has_worker: bool
) -> Iterator[Finding]:
    """One collection, with its HNSW index if it has one; ``has_worker``: whether somebody sees to what waits."""
    yield from _check_waiting(state, has_worker=has_worker)
    yield from _check_index(state, index)
    yield from _check_recall(state, now)
    name = state.stored.name
    for job, error in state.failed.items():
        yield Finding(
            check="jobs",
            severity=Severity.WARNING,
            about=name,
            found=f"the last run of job {job} over collection {name!r} failed: {error or 'no reason is on record'}",
            mend=f"retrieval jobs run {job} --collection {shell_word(name)}",
        )
    if state.lost:
        reasons = ", ".join(f"{reason} {number:,}" for reason, number in state.lost.items())
        yield Finding(
            check="recording",
            severity=Severity.WARNING,
            about=name,
            found=f"{several(sum(state.lost.values()), 'answer')} of collection {name!r} in the last {LOSS_DAYS} days "
            f"were not recorded ({reasons})",
            mend="see docs/how-to/recording.md: let processes end their platform, or let searches wait for the record",
        )


def _check_waiting(state: CollectionState, *, has_worker: bool) -> Iterator[Finding]:
    name = state.stored.name
    severity = Severity.ADVICE if has_worker else Severity.WARNING
    if state.pending:
        yield Finding(
            check="pending",
            severity=severity,
            about=name,
            found=f"{several(state.pending, 'item')} of collection {name!r} without a vector yet: only words find them",
            mend=f"retrieval jobs run embed --collection {shell_word(name)}",
        )
    if state.without_words:
        yield Finding(
            check="words",
            severity=Severity.ERROR,
            about=name,
            found=f"{several(state.without_words, 'item')} of collection {name!r} not in the index of words: only "
            "vectors find them",
            mend=f"retrieval jobs run statistics --collection {shell_word(name)}",
        )
    if state.are_weights_off:
        yield Finding(
            check="weights",
            severity=severity,
            about=name,
            found=f"the BM25 weights of collection {name!r} wait to be computed again: lengths have drifted",
            mend=f"retrieval jobs run weights --collection {shell_word(name)}",
        )


def _check_index(state: CollectionState, index: IndexState | None) -> Iterator[Finding]:
    stored = state.stored
    if stored.space is None or (index is not None and (not index.is_valid or index.is_being_built)):
        return  # an invalid one is told of with the indexes
    outcome = wanted_outcome(
        stored.documents,
        index_rows(stored.space.space.dimensions),
        stored.ann_index,
        index.bytes if index else 0,
        is_there=index is not None,
    )
    name, job = stored.name, f"retrieval jobs run indexes --collection {shell_word(stored.name)}"
    match outcome:
        case IndexOutcome.BUILT:
            found = f"collection {name!r} has {stored.documents:,} items and no index: each search compares all vectors"
            yield Finding(check="hnsw", severity=Severity.WARNING, about=name, found=found, mend=job)
        case IndexOutcome.REBUILT:
            found = f"the index of collection {name!r} takes more than twice the bytes an item that it began with"
            mend = f"retrieval reindex {shell_word(name)}"
            yield Finding(check="hnsw", severity=Severity.WARNING, about=name, found=found, mend=mend)
        case IndexOutcome.MEASURED:
            found = f"the index of collection {name!r} was measured at another size, or never"
            yield Finding(check="hnsw", severity=Severity.ADVICE, about=name, found=found, mend=job)
        case IndexOutcome.DROPPED:
            found = f"collection {name!r} has shrunk so far that its index is not needed"
            yield Finding(check="hnsw", severity=Severity.ADVICE, about=name, found=found, mend=job)


def _check_recall(state: CollectionState, now: datetime) -> Iterator[Finding]:
    name, recall = state.stored.name, state.recall
    if state.stored.ann_index is None:
        return  # every search compares all vectors: nothing can be missed
    job = f"retrieval jobs run recall --collection {shell_word(name)}"
    if recall is None:
        found = f"the recall of collection {name!r} was not measured yet on its searches"
        mend = f"{job} (once RETRIEVAL_RECALL_SAMPLE_RATE of its searches are some)"
        yield Finding(check="recall", severity=Severity.ADVICE, about=name, found=found, mend=mend)
    elif recall.recall < LEAST_RECALL and recall.samples >= LEAST_SAMPLES:
        share = f"{recall.recall:.1%} of the nearest items, in {several(recall.samples, 'sample')}"
        found = f"searches of collection {name!r} find {share}"
        yield Finding(check="recall", severity=Severity.WARNING, about=name, found=f"{found}; 99 % is owed", mend=job)
    elif now - recall.measured_at > OLD_RECALL:
        found = f"the recall of collection {name!r} was last measured on {recall.measured_at:%Y-%m-%d}"
        yield Finding(check="recall", severity=Severity.ADVICE, about=name, found=found, mend=job)
