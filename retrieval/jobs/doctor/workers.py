"""Checks of the queue, its workers, and the months that recorded searches lie in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from retrieval.adapters.store.installation.examination.activity import QueueState
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.jobs.doctor.findings import duration, several

LATE_SECONDS = 3600
"""A job that has been waiting for longer is late: each is due, and done, within minutes."""


def no_queue(schema: str) -> Finding:
    """The queue is gone: nothing can be put into it, and no worker starts."""
    return Finding(
        check="worker",
        severity=Severity.ERROR,
        about=schema,
        found=f"schema {schema!r}, which holds the queue of jobs, is gone or lacks tables: no worker can run",
        mend=f"restore the schema {schema!r} from a backup; retrieval db sql prints how it is made",
    )


def check_queue(queue: QueueState) -> Iterator[Finding]:
    """A worker lives, and jobs neither fail, nor hang, nor wait."""
    yield from _check_worker(queue)
    if queue.failed:
        yield Finding(
            check="jobs",
            severity=Severity.WARNING,
            found=f"{several(queue.failed, 'job')} in the queue failed, the last one {queue.last_failed!r}",
            mend="retrieval status shows the errors; retrieval jobs run JOB does it again",
        )
    if queue.stalled:
        yield Finding(
            check="jobs",
            severity=Severity.WARNING,
            found=f"{several(queue.stalled, 'job')} began with a worker that gives no more sign of life",
            mend="start a worker, which takes them up: retrieval worker",
        )
    if queue.waiting and queue.oldest_seconds > LATE_SECONDS:
        yield Finding(
            check="jobs",
            severity=Severity.WARNING,
            found=f"{several(queue.waiting, 'job')} could begin, the oldest for {duration(queue.oldest_seconds)}",
            mend="start another worker: retrieval worker --concurrency 4",
        )


def _check_worker(queue: QueueState) -> Iterator[Finding]:
    if queue.workers:
        return
    start = "retrieval worker, in a container or under a supervisor; or retrieval worker --once, by a scheduler"
    if queue.silent_seconds is not None:
        found = f"the last sign of life of a worker was {duration(queue.silent_seconds)} ago: it hangs or was killed"
        yield Finding(check="worker", severity=Severity.WARNING, found=found, mend=start)
    elif queue.due_seconds is None:
        found = "no worker has ever run: indexes, recall, learning and retention are left alone"
        yield Finding(check="worker", severity=Severity.ADVICE, found=found, mend=start)
    elif queue.due_seconds > LATE_SECONDS:
        found = f"no worker runs; the last one looked what is due {duration(queue.due_seconds)} ago"
        yield Finding(check="worker", severity=Severity.WARNING, found=found, mend=start)


def check_months(missing: Sequence[str], collection: str | None) -> Iterator[Finding]:
    """The months that recorded searches fall into are made ahead; ``collection``: one to run the job by."""
    if not missing:
        return
    yield Finding(
        check="months",
        severity=Severity.WARNING,
        found=f"tables of months are missing ({', '.join(missing)}): recorded searches lie in no month and cannot be "
        "dropped by it",
        mend=f"retrieval jobs run months{f' --collection {collection}' if collection else ''}",
    )
