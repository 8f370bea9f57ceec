"""Every job by its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from retrieval.domain.checks import choices_hint
from retrieval.domain.errors import InvalidRequestError
from retrieval.jobs import learning, recall, reembed, upkeep
from retrieval.services.workplace import JobTarget, Workplace


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work on one collection: idempotent, and resumed after an interruption."""

    name: str
    what: str
    """A line about it for people."""
    noun: str
    """The unit of its progress, in the singular."""
    run: Callable[[Workplace, JobTarget], Awaitable[dict[str, Any]]]
    """Returns what the job did, as plain JSON values."""
    is_needed: Callable[[Workplace, JobTarget], Awaitable[bool]]
    """A quick check whether there is work to do."""


_ALL = (
    Job(name="embed", what="embed items that wait for their vector", noun="item",
        run=upkeep.embed_pending, is_needed=upkeep.is_anything_pending),
    Job(name="reembed", what="move the collection to another embedding space", noun="item",
        run=reembed.reembed, is_needed=reembed.is_reembedding_due),
    Job(name="neighbours", what="index items by neighbours that were set and not finished", noun="item",
        run=upkeep.finish_walk, is_needed=upkeep.is_walk_unfinished),
    Job(name="indexes", what="make, keep or drop indexes, by size", noun="index",
        run=upkeep.index, is_needed=upkeep.is_index_in_question),
    Job(name="recall", what="measure recall on sampled queries, and mend it", noun="sample",
        run=recall.measure_recall, is_needed=recall.is_recall_in_question),
    Job(name="weights", what="recompute BM25 weights where lengths have drifted", noun="item",
        run=upkeep.weigh, is_needed=upkeep.are_weights_off),
    Job(name="statistics", what="count terms again", noun="term",
        run=upkeep.recount, is_needed=upkeep.always),
    Job(name="clusters", what="group items by meaning, where there is feedback to learn from", noun="item",
        run=learning.find_clusters, is_needed=learning.are_clusters_needed),
    Job(name="learn", what="fit a model of rewards, and use it if it is better", noun="verdict",
        run=learning.learn, is_needed=learning.is_there_to_learn),
    Job(name="expire", what="forget expired memories", noun="memory",
        run=upkeep.forget_expired, is_needed=upkeep.is_anything_expired),
    Job(name="months", what="make the months of recorded searches, drop old ones", noun="table",
        run=upkeep.keep_months, is_needed=upkeep.are_months_due),
    Job(name="arms", what="recount arms from their events, and mend drift", noun="arm",
        run=learning.keep_arms, is_needed=learning.has_feedback),
    Job(name="prune", what="remove what has been kept long enough", noun="row",
        run=upkeep.prune, is_needed=upkeep.always),
    Job(name="reindex", what="rebuild indexes, term counts and weights", noun="item",
        run=upkeep.reindex, is_needed=upkeep.always),
)  # fmt: skip

JOBS: Mapping[str, Job] = {job.name: job for job in _ALL}


def job_named(name: str) -> Job:
    """The job of that name. Raises ``InvalidRequestError`` with the names of all jobs."""
    if name not in JOBS:
        raise InvalidRequestError(f"there is no job {name!r}; {choices_hint(name, JOBS)}")
    return JOBS[name]


def lock_of(job: str, target: JobTarget) -> str:
    """The lock that keeps two runs apart: that of the collection, or for index jobs that of the table."""
    space = target.collection.space
    if job in {"indexes", "reindex"} and space is not None:
        return f"indexes:{space.table_name}"
    return f"{job}:{target.collection.collection_id}"
