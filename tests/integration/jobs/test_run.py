"""One run of one job: alone, on record, resumed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from retrieval import Platform
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.installation.queue import JobRun, begin_run, last_runs_of_tenant
from retrieval.domain.errors import EmbedderUnavailableError
from retrieval.jobs.registry import JOBS, Job
from retrieval.jobs.run import run_job
from retrieval.jobs.upkeep import always
from retrieval.services.workplace import JobTarget, Workplace
from tests.support.jobs import WAITING, make_pending, target_of


async def last_runs(platform: Platform) -> list[JobRun]:
    """The last run of each job of the tenant."""
    return list((await last_runs_of_tenant(platform.database, platform.tenant_id)).values())


async def test_embedding_what_is_pending_is_done_and_on_record(platform: Platform) -> None:
    """The report, the record and the status agree; a second run finds nothing to do."""
    collection = await make_pending(platform, "docs")
    target = await target_of(platform, collection)
    progress: list[int] = []
    assert await JOBS["embed"].is_needed(platform.workplace, target)
    report = await run_job(replace(platform.workplace, advance=progress.append), JOBS["embed"], target)
    assert (report.outcome, report.details) == ("done", {"embedded": WAITING, "pending": 0})
    assert progress == [128, 256, 300]
    assert not await JOBS["embed"].is_needed(platform.workplace, target)
    again = await run_job(platform.workplace, JOBS["embed"], target)
    assert again.details == {"embedded": 0, "pending": 0}
    (run,) = await last_runs(platform)
    assert (run.job, run.outcome, run.details) == ("embed", "done", {"embedded": 0, "pending": 0})
    assert run.seconds is not None


async def test_the_last_run_is_the_one_that_began_last(platform: Platform) -> None:
    """An earlier run has a later time if the server's clock was ahead."""
    target = await target_of(platform, await platform.collection("docs"))
    await run_job(platform.workplace, JOBS["prune"], target)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("UPDATE job_runs SET started_at = '2100-01-01'")
    await run_job(platform.workplace, JOBS["prune"], target)
    (run,) = await last_runs(platform)
    assert run.finished_at is not None
    assert run.started_at <= run.finished_at


async def test_a_run_that_ends_on_request_keeps_its_work(platform: Platform) -> None:
    """It ends after its step, says so, and the next run does the rest."""
    collection = await make_pending(platform, "docs")
    target = await target_of(platform, collection)
    stopping = replace(platform.workplace, is_stopping=lambda: True)
    report = await run_job(stopping, JOBS["embed"], target)
    assert report.outcome == "interrupted"
    assert (await collection.info()).pending == WAITING - 128
    report = await run_job(platform.workplace, JOBS["embed"], target)
    assert report.details == {"embedded": WAITING - 128, "pending": 0}


async def test_of_two_at_once_the_second_says_that_it_is_running(platform: Platform) -> None:
    """The first may run in another process or in this one; the second leaves no record."""
    target = await target_of(platform, await platform.collection("docs"))
    inner: list[str] = []

    async def run(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
        inner.append((await run_job(workplace, job, target)).outcome)
        return {}

    job = Job(name="twice", what="", noun="", run=run, is_needed=always)
    report = await run_job(platform.workplace, job, target)
    assert (report.outcome, inner) == ("done", ["running elsewhere"])
    assert len(await last_runs(platform)) == 1


async def test_an_error_is_recorded_and_a_fault_is_also_raised(platform: Platform) -> None:
    """An error of the platform is an outcome; any other error is a fault and is raised."""
    target = await target_of(platform, await platform.collection("docs"))
    errors: list[Exception] = [EmbedderUnavailableError("the service is down"), ZeroDivisionError("oh")]

    async def run(_workplace: Workplace, _target: JobTarget) -> dict[str, Any]:
        raise errors.pop(0)

    job = Job(name="failing", what="", noun="", run=run, is_needed=always)
    report = await run_job(platform.workplace, job, target)
    assert (report.outcome, report.details) == ("failed", {"error": "the service is down"})
    with pytest.raises(ZeroDivisionError):
        await run_job(platform.workplace, job, target)
    (run_,) = await last_runs(platform)
    assert (run_.outcome, run_.details) == ("failed", {"error": "ZeroDivisionError: oh"})


async def test_a_run_says_that_its_collection_was_removed(platform: Platform) -> None:
    """The database's error would be about rights that nobody lacks."""
    target = await target_of(platform, await platform.collection("docs"))

    async def run(workplace: Workplace, target: JobTarget) -> dict[str, Any]:
        await platform.remove_collection("docs")
        await workplace.place(target).write(Compiled("INSERT INTO learning_states VALUES (%(collection_id)s)"))
        return {}

    report = await run_job(platform.workplace, Job(name="late", what="", noun="", run=run, is_needed=always), target)
    assert (report.outcome, report.details) == ("failed", {"error": "the collection was removed"})


async def test_a_run_that_is_cancelled_is_on_record_as_interrupted(platform: Platform) -> None:
    """A user cancelled it."""
    target = await target_of(platform, await platform.collection("docs"))
    begun = asyncio.Event()

    async def run(_workplace: Workplace, _target: JobTarget) -> dict[str, Any]:
        begun.set()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    job = Job(name="endless", what="", noun="", run=run, is_needed=always)
    running = asyncio.create_task(run_job(platform.workplace, job, target))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (run_,) = await last_runs(platform)
    assert run_.outcome == "interrupted"


async def test_a_run_that_is_cancelled_while_it_begins_is_on_record_as_interrupted(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record may be stored before the caller hears of it."""
    target = await target_of(platform, await platform.collection("docs"))
    stored, cancelled = asyncio.Event(), asyncio.Event()

    async def begin_late(place: CollectionPlace, job: str) -> int:
        run_id = await begin_run(place, job)
        stored.set()
        await cancelled.wait()
        return run_id

    monkeypatch.setattr("retrieval.adapters.store.installation.queue.begin_run", begin_late)
    running = asyncio.create_task(run_job(platform.workplace, JOBS["embed"], target))
    await stored.wait()
    running.cancel()
    cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    (run_,) = await last_runs(platform)
    assert run_.outcome == "interrupted"


async def test_while_a_run_goes_on_its_record_says_how_far_it_is(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The final result replaces the progress."""
    monkeypatch.setattr("retrieval.jobs.run.NOTED_SECONDS", 0.01)
    target = await target_of(platform, await platform.collection("docs"))

    async def run(workplace: Workplace, _target: JobTarget) -> dict[str, Any]:
        workplace.advance(7)
        async with asyncio.timeout(20):
            while (await last_runs(platform))[0].details != {"so_far": 7}:
                pass
        return {"items": 8}

    report = await run_job(platform.workplace, Job(name="long", what="", noun="", run=run, is_needed=always), target)
    assert (report.outcome, report.details) == ("done", {"items": 8})
    assert (await last_runs(platform))[0].details == {"items": 8}


async def test_an_interrupted_run_no_longer_counts_as_running(platform: Platform) -> None:
    """The next run knows that no other run goes on."""
    target = await target_of(platform, await platform.collection("docs"))
    where = CollectionPlace(platform.database, platform.tenant_id, target.collection.collection_id)
    await begin_run(where, "weights")
    (run,) = await last_runs(platform)
    assert (run.outcome, run.seconds) == ("running", None)
    await run_job(platform.workplace, JOBS["weights"], target)
    async with platform.database.transaction(platform.tenant_id) as connection:
        cursor = await connection.execute("SELECT outcome FROM job_runs ORDER BY run_id")
        assert await cursor.fetchall() == [("interrupted",), ("done",)]


@pytest.mark.parametrize("name", JOBS)
async def test_every_job_does_no_harm_to_an_empty_collection(platform: Platform, name: str) -> None:
    """Twice."""
    target = await target_of(platform, await platform.collection("docs"))
    for _ in range(2):
        assert (await run_job(platform.workplace, JOBS[name], target)).outcome == "done"


async def test_the_status_lists_pending_work_and_runs(platform: Platform) -> None:
    """As values that can be written as JSON."""
    target = await target_of(platform, await make_pending(platform, "docs", 3))
    await run_job(platform.workplace, JOBS["prune"], target)
    await (await platform.collection("docs")).use_model(0)
    (status,) = await platform.statistics()
    shown = json.loads(json.dumps(status.as_dict()))
    assert (shown["name"], shown["items"], shown["pending"], shown["weights_pending"]) == ("docs", 3, 3, False)
    assert (shown["indexes"], shown["recall"], shown["chosen_model"]) == ([], [], 0)
    assert [(run["job"], run["outcome"]) for run in shown["runs"]] == [("prune", "done")]


async def test_only_old_rows_are_pruned(platform: Platform) -> None:
    """Cached embeddings and records, each by its own time."""
    target = await target_of(platform, await make_pending(platform, "docs", 3))
    await run_job(platform.workplace, JOBS["weights"], target)
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("UPDATE embedding_cache SET created_at = now() - interval '89 days'")
        await connection.execute("UPDATE job_runs SET started_at = now() - interval '31 days'")
        await connection.execute(
            "INSERT INTO recording_losses (collection_id, day, reason) "
            "SELECT %s, current_date - age, 'overflow' FROM unnest(ARRAY[0, 364, 366]) AS age "
            "ON CONFLICT DO NOTHING",
            (target.collection.collection_id,),
        )
    report = await run_job(platform.workplace, JOBS["prune"], target)
    assert report.details == {
        "embedding_cache": 0, "query_rewrites": 0, "idempotency_keys": 0, "query_samples": 0, "recall_measurements": 0,
        "job_runs": 1, "recording_losses": 1,
    }  # fmt: skip
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("UPDATE embedding_cache SET created_at = now() - interval '91 days'")
    report = await run_job(platform.workplace, JOBS["prune"], target)
    assert report.details["embedding_cache"] == 3
