"""Checks of collections, with their embedders, indexes, recall, jobs and workers."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from retrieval.adapters.embedders.chosen import is_configurable
from retrieval.adapters.store.installation.examination import LOSS_DAYS, QueueFacts, TenantFacts
from retrieval.adapters.store.installation.queue import FAILED
from retrieval.adapters.store.items.collection_facts import CollectionStatus
from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.dense_leg import MAX_EFFORT
from retrieval.adapters.store.search.indexes import all_parts
from retrieval.adapters.store.search.reembeddings import PAUSED, REMOVING, ReembeddingState
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.domain.errors import RetrievalError
from retrieval.domain.items.collection import MAX_PARTS
from retrieval.domain.wording import duration, several
from retrieval.services import indexes
from retrieval.services.indexes import IndexOutcome
from retrieval.services.workplace import Workplace

TRY_SECONDS = 15.0
"""An embedder that takes longer for one word does not answer."""


async def try_embedders(
    workplace: Workplace, tenant_id: int, collections: Sequence[StoredCollection]
) -> dict[str, str | None]:
    """Ask each embedder that the collections need for one vector.

    Returns the reason why it returned no usable vector by the space's name, empty if it returned one; None: no embedder
    is configured. A space without an embedder that no setting can name is left out: its vectors are a program's own.
    """
    spaces = list(dict.fromkeys(collection.space for collection in collections if collection.space is not None))
    problems = await asyncio.gather(*(_problem(workplace, tenant_id, space) for space in spaces))
    return {
        space.space.name: problem
        for space, problem in zip(spaces, problems, strict=True)
        if problem is not None or is_configurable(space.space)
    }


async def _problem(workplace: Workplace, tenant_id: int, space: StoredSpace) -> str | None:
    try:
        embedder = workplace.embedder_of(tenant_id, space)
        if embedder is None:
            return None
        await asyncio.wait_for(embedder.try_out(), TRY_SECONDS)
    except TimeoutError:
        return f"no answer within {TRY_SECONDS:g} s"
    except RetrievalError as error:
        return str(error)
    return ""


def check_embedders(problems: Mapping[str, str | None]) -> Iterator[Finding]:
    """Check that each space that collections use has an embedder that answers; see ``try_embedders``."""
    for space, problem in problems.items():
        if problem is None:
            found = f"no embedder is configured for space {space}: searches use words alone"
            mend = (
                "set RETRIEVAL_EMBEDDER to the space's embedder, or move its collections to another: retrieval reembed"
            )
            yield Severity.WARNING.finding("embedder", found, mend, about=space)
        elif problem:
            found = f"the embedder of space {space} gives no vectors: {problem}"
            mend = "see docs/how-to/embedders.md; items wait and are embedded once it answers"
            yield Severity.ERROR.finding("embedder", found, mend, about=space)


OLD_RECALL = timedelta(days=30)
"""A recall that was measured longer ago than this is outdated."""


def check_collection(
    stored: StoredCollection, status: CollectionStatus, tenant: TenantFacts, now: datetime, *, has_worker: bool
) -> Iterator[Finding]:
    """Check one collection; ``has_worker``: whether a worker runs."""
    name, collection_id = stored.name, stored.collection_id
    if language := tenant.languages.get(collection_id):
        found = f"the text search configuration {language!r} of collection {name!r} is gone: searches and writes fail"
        mend = f"make it as it was: CREATE TEXT SEARCH CONFIGURATION {language} (COPY = simple), with its dictionaries"
        yield Severity.ERROR.finding("language", found, mend, about=name)
    yield from _check_waiting(
        stored,
        status,
        tenant.without_words.get(collection_id, 0),
        is_mixed=collection_id in tenant.mixed,
        has_worker=has_worker,
    )
    if stored.space is not None:
        yield from _check_index(stored, stored.space, status)
    yield from _check_effort(stored)
    if stored.ann_index is not None:  # otherwise every search compares all vectors: nothing can be missed
        yield from _check_recall(status, now)
    if collection_id in tenant.reembeddings:
        yield from _check_reembedding(name, *tenant.reembeddings[collection_id])
    for run in status.runs:
        if run.outcome == FAILED:
            error = run.details.get("error") or "no reason is on record"
            found = f"the last run of job {run.job} over collection {name!r} failed: {error}"
            yield Severity.WARNING.finding("jobs", found, _job(run.job, name), about=name)
    if lost := tenant.lost.get(collection_id):
        reasons = ", ".join(f"{reason} {number:,}" for reason, number in lost.items())
        yield Severity.WARNING.finding(
            "recording",
            f"{several(sum(lost.values()), 'answer')} of collection {name!r} in the last {LOSS_DAYS} days "
            f"were not recorded ({reasons})",
            "see docs/how-to/recording.md: let processes end their platform, or let searches wait for the record",
            about=name,
        )


def _job(job: str, name: str) -> str:
    return f"retrieval jobs run {job} --collection {shlex.quote(name)}"


_ADD_AGAIN = "add these items again with embeddings=, or open the platform with their embedder: connect(embedder=...)"


def _check_waiting(
    stored: StoredCollection, status: CollectionStatus, without_words: int, *, is_mixed: bool, has_worker: bool
) -> Iterator[Finding]:
    name = status.name
    severity = Severity.ADVICE if has_worker else Severity.WARNING
    if status.pending:
        found = f"{several(status.pending, 'item')} of collection {name!r} without a vector yet: only words find them"
        is_own = stored.space is not None and not is_configurable(stored.space.space)
        yield severity.finding("pending", found, _ADD_AGAIN if is_own else _job("embed", name), about=name)
    if without_words:
        found = f"{several(without_words, 'item')} of collection {name!r} not in the index of words"
        yield Severity.ERROR.finding("words", f"{found}: only vectors find them", _job("statistics", name), about=name)
    if status.weights_pending:
        found = f"the BM25 weights of collection {name!r} are outdated, because the average length changed"
        yield severity.finding("weights", found, _job("weights", name), about=name)
    if is_mixed:
        found = f"a change of neighbours of collection {name!r} is not finished: some items have the former ones"
        yield severity.finding("neighbours", found, _job("neighbours", name), about=name)


_OUTCOMES = {
    IndexOutcome.BUILT: (
        Severity.WARNING, "collection {!r} is large and has no index: each search compares all vectors",
    ),
    IndexOutcome.REBUILT: (
        Severity.WARNING,
        (
            "the index of collection {!r} takes more than twice as many bytes per item as when built, or was built "
            "small, or of former vectors"
        ),
    ),
    IndexOutcome.REPLACED: (
        Severity.ADVICE, "collection {!r} is set to another kind of index, or to other parts, than it has",
    ),
    IndexOutcome.MEASURED: (Severity.ADVICE, "the index of collection {!r} was measured at another size, or never"),
    IndexOutcome.DROPPED: (Severity.ADVICE, "collection {!r} has shrunk so far that its index is not needed"),
}  # fmt: skip
"""What is found where the job of indexes would have this outcome."""


def _check_index(stored: StoredCollection, space: StoredSpace, status: CollectionStatus) -> Iterator[Finding]:
    name, dimensions = stored.name, space.space.dimensions
    form = indexes.wanted_form(stored) if stored.ann_index is None else stored.ann_index.form
    parts_by_name = {index.name: index for index in status.indexes}
    index = all_parts(form.names(space.space_id, stored.collection_id), parts_by_name)
    if index is not None and not index.valid:
        return  # the check of all indexes reports it
    index_bytes, threshold = index.bytes if index else 0, indexes.index_rows(dimensions)
    outcome = indexes.wanted_outcome(stored, threshold, stored.ann_index, index_bytes, is_there=index is not None)
    if outcome in _OUTCOMES:
        severity, found = _OUTCOMES[outcome]
        is_rebuilt = outcome is IndexOutcome.REBUILT
        mend = f"retrieval reindex {shlex.quote(name)}" if is_rebuilt else _job("indexes", name)
        yield severity.finding("hnsw", found.format(name), mend, about=name)
    parts = indexes.parts_to_build(stored.documents, dimensions)
    if stored.ann_index is not None and parts > stored.parts:
        found = f"an index build of collection {name!r} does not fit in memory and takes many times as long"
        yield Severity.ADVICE.finding("hnsw", found, _split(name, parts), about=name)


def _split(name: str, parts: int) -> str:
    return f"retrieval collections split {shlex.quote(name)} --parts {parts}"


def _check_effort(stored: StoredCollection) -> Iterator[Finding]:
    index, name = stored.ann_index, stored.name
    if index is None or not index.is_measured or index.effort_10 <= MAX_EFFORT:
        return
    if index.is_quantised:
        kind, mend = "quantised ", f"retrieval collections index {shlex.quote(name)} full"
    elif stored.documents >= indexes.LARGE_ROWS:
        kind, mend = "", _split(name, min(4 * index.parts, MAX_PARTS))
    else:
        return  # comparing all of them takes milliseconds
    found = f"the {kind}index of collection {name!r} finds too few of the nearest vectors: each search compares all"
    yield Severity.WARNING.finding("hnsw", found, mend, about=name)


def _check_recall(status: CollectionStatus, now: datetime) -> Iterator[Finding]:
    name, recall = status.name, status.mean_recall
    job, severity = _job("recall", name), Severity.ADVICE
    measured_at = max((each.measured_at for each in status.recall if each.measured_at), default=now)
    if recall is None:
        found = f"the recall of collection {name!r} was not measured yet on its searches"
        job = f"{job} (once searches were sampled: RETRIEVAL_RECALL_SAMPLE_RATE)"
    elif recall[0] < indexes.RECALL_PROMISED and recall[1] >= indexes.LEAST_SAMPLES:
        share = f"{recall[0]:.1%} of the nearest items, in {several(recall[1], 'sample')}"
        found = f"searches of collection {name!r} find {share}; the target is 99 %"
        severity = Severity.WARNING
    elif now - measured_at > OLD_RECALL:
        found = f"the recall of collection {name!r} was last measured on {measured_at:%Y-%m-%d}"
    else:
        return
    yield severity.finding("recall", found, job, about=name)


def _check_reembedding(name: str, stage: ReembeddingState, note: str) -> Iterator[Finding]:
    if not note and stage is not ReembeddingState.READY:
        return  # it proceeds, or the former space is kept for a time
    found = f"the re-embedding of collection {name!r} is {stage.value} and waits: {note or 'somebody has to switch it'}"
    action = {"": " switch", PAUSED: " resume", REMOVING: " run"}.get(note, "")
    yield Severity.ADVICE.finding("reembed", found, f"retrieval reembed {shlex.quote(name)}{action}", about=name)


LATE_SECONDS = 3600
"""A job that has waited longer than this is late: jobs are usually done within minutes."""


def no_queue(schema: str) -> Finding:
    """The queue's tables are gone: no job can be added, and no worker starts."""
    found = f"schema {schema!r}, which holds the queue of jobs, is gone or lacks tables: no worker can run"
    mend = f"restore the schema {schema!r} from a backup; retrieval db sql prints how it is made"
    return Severity.ERROR.finding("worker", found, mend, about=schema)


def check_queue(queue: QueueFacts) -> Iterator[Finding]:
    """Check that a worker is alive, and that no job fails, hangs or waits for long."""
    yield from _check_worker(queue)
    if queue.failed:
        found = f"jobs in the queue failed: {', '.join(queue.failed)}"
        mend = "the worker's log shows the errors; retrieval jobs run JOB does it again"
        yield Severity.WARNING.finding("jobs", found, mend)
    if queue.stalled:
        found = f"{several(queue.stalled, 'job')} started by a worker that no longer responds"
        mend = "start a worker, which resumes them: retrieval worker"
        yield Severity.WARNING.finding("jobs", found, mend)
    if queue.waiting and queue.oldest_seconds > LATE_SECONDS:
        found = f"{several(queue.waiting, 'job')} ready to run, the oldest for {duration(queue.oldest_seconds)}"
        mend = "start another worker: retrieval worker --concurrency 4"
        yield Severity.WARNING.finding("jobs", found, mend)


def _check_worker(queue: QueueFacts) -> Iterator[Finding]:
    if queue.workers:
        return
    start = "retrieval worker, in a container or under a supervisor; or retrieval worker --once, by a scheduler"
    silent, due = queue.silent_seconds, queue.due_seconds
    # A killed worker's row stays; it does not matter if another worker checked the schedule later.
    if silent is not None and (due is None or silent <= due):
        found = f"the last sign of life of a worker was {duration(silent)} ago: it hangs or was killed"
        yield Severity.WARNING.finding("worker", found, start)
    elif due is None:
        found = "no worker has ever run: indexes, recall, learning and retention are left alone"
        yield Severity.ADVICE.finding("worker", found, start)
    elif due > LATE_SECONDS or queue.waiting:
        waiting = f", {several(queue.waiting, 'job')} waiting" if queue.waiting else ""
        found = f"no worker runs{waiting}; the last worker checked the schedule {duration(due)} ago"
        severity = Severity.WARNING if due > LATE_SECONDS else Severity.ADVICE
        yield severity.finding("worker", found, start)


def check_months(missing: Sequence[str], collection: str) -> Iterator[Finding]:
    """Check that partitions exist for the coming months of searches; ``collection``: one by which to run the job."""
    if not missing:
        return
    yield Severity.WARNING.finding(
        "months",
        f"tables of months are missing ({', '.join(missing)}): recorded searches go into no month's table "
        "and cannot be dropped with it",
        f"retrieval jobs run months --collection {collection}",
    )


_NOUNS = {"statistics": "row", "records": "recorded search", "arms": "arm"}
_ROWS = {
    "texts": "the text of {} was changed without {} hash",
    "words": "the indexed words of {} do not match {} text",
    "weights": "the BM25 weights of {} do not match {} words",
    "statistics": "the statistics of words are wrong in {}",
    "places": "the places of {} among neighbours do not match {} attributes, time and text",
    "filters": "the tags or declared attributes of {} differ from those that filters read",
    "vectors": "the vectors of {} do not match {} text, tags, attributes and status",
    "mixtures": "the vectors of {} are mixed with their neighbours', and {} own vectors are gone",
    "records": "the record of {} contradicts itself",
    "arms": "{} differing from the sum of the feedback",
}
"""The text of each kind of disagreement."""


def check_rows(name: str, disagreements: Sequence[tuple[str, int, list[str]]]) -> Iterator[Finding]:
    """Check that a collection's rows agree with their sources; kinds are those of SQL's ``disagreements``."""
    mends = {
        "arms": _job("arms", name),
        "records": "delete it, or leave it: searches do not read records; please report how it came about",
    }
    for kind, number, first in disagreements:
        found = _ROWS[kind].format(several(number, _NOUNS.get(kind, "item")), "its" if number == 1 else "their")
        found = f"{found}: {', '.join(map(repr, first))}{', ...' if number > len(first) else ''} (collection {name!r})"
        mend = mends.get(kind, f"retrieval reindex {shlex.quote(name)}")
        yield Severity.ERROR.finding(f"deep {kind}", found, mend, about=name)
