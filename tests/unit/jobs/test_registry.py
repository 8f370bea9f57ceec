"""The jobs by name, and when they are due."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from retrieval.domain.errors import InvalidRequestError
from retrieval.jobs.registry import JOBS, job_named, lock_of
from retrieval.jobs.run import next_time
from retrieval.services.workplace import JobTarget
from retrieval.settings import DEFAULT_SCHEDULE, Settings, schedule
from tests.support.facts import collection as a_collection


def test_every_job_has_a_schedule_and_no_other_has() -> None:
    """A name that is configured is a name that runs."""
    assert set(JOBS) == set(DEFAULT_SCHEDULE)


def test_the_default_schedules_pass_the_check_of_the_settings() -> None:
    """A shown default can be used as a setting."""
    assert Settings(jobs_schedule=dict(DEFAULT_SCHEDULE)).jobs_schedule == dict(DEFAULT_SCHEDULE)


def test_a_schedule_is_changed_by_job_and_switched_off() -> None:
    """The other jobs keep theirs."""
    changed = schedule({"embed": "* * * * *", "recall": "off", "reindex": "0 3 * * 0"})
    others = {name: cron for name, cron in schedule({}).items() if name not in {"embed", "recall"}}
    assert changed == {**others, "embed": "* * * * *", "reindex": "0 3 * * 0"}


def test_jobs_on_request_are_off_by_default() -> None:
    """These jobs can be scheduled like all others."""
    assert [name for name in JOBS if name not in schedule({})] == ["reindex"]


def test_jobs_that_build_indexes_of_one_table_run_in_turn() -> None:
    """A reindex that is due waits in the queue for the job that keeps the same table's indexes."""
    target = JobTarget(1, a_collection())
    assert lock_of("reindex", target) == lock_of("indexes", target) == "indexes:embeddings_4"
    assert lock_of("weights", target) == "weights:7"


def test_an_unknown_job_is_refused_with_those_there_are() -> None:
    """A mistyped name is the caller's to mend."""
    with pytest.raises(InvalidRequestError, match=r"no job 'embd'; did you mean 'embed'. There are: embed, .*prune"):
        job_named("embd")


def test_the_next_time_follows_now() -> None:
    """In UTC."""
    now = datetime(2026, 5, 1, 12, 3, tzinfo=UTC)
    assert next_time("*/10 * * * *", now) == datetime(2026, 5, 1, 12, 10, tzinfo=UTC)
