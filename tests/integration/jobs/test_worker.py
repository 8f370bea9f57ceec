"""A worker: for every tenant, alone at each job, ending when asked, taking up what others left."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import pytest
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.manager import JobManager
from procrastinate.worker import Worker
from psycopg import sql

from retrieval import Collection, Platform, Settings, connect
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.adapters.store.database import Database
from retrieval.adapters.store.installation import queue as installed
from retrieval.adapters.store.installation.queue import last_runs_of_tenant
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.errors import ConfigurationError, DatabaseUnreachableError, MissingPrivilegeError
from retrieval.jobs import worker
from retrieval.jobs.registry import JOBS
from retrieval.jobs.run import RunReport
from retrieval.jobs.worker import (
    add_tasks,
    enqueue,
    enqueue_due,
    enqueue_needed,
    forget_failed,
    queue_of,
    requeue_stalled,
    schedule_of,
    work,
    work_once,
)
from retrieval.services.workplace import Workplace
from tests.support.cluster import LOCK_WAITS, not_on_a_cluster
from tests.support.database import SCHEMA, login, opened
from tests.support.jobs import WAITING, make_pending, target_of

NewDatabase = Callable[..., str]

NOTHING_DUE = dict.fromkeys(JOBS, "off")


@pytest.fixture
def url(new_database: NewDatabase) -> str:
    """A separate database for this test: a worker runs the jobs of every tenant."""
    return new_database()


@pytest.fixture
async def platform(url: str, settings: Settings) -> AsyncIterator[Platform]:
    """A platform whose jobs are due only when a test says so, looked for often and without listening."""
    own = settings.changed(
        jobs_schedule=NOTHING_DUE, worker_listen=False, worker_poll_seconds=0.05, worker_stalled_seconds=1
    )
    async with connect(url, settings=own, embedder=HashingEmbedder()) as opened_platform:
        yield opened_platform


@asynccontextmanager
async def queue(platform: Platform) -> AsyncIterator[App]:
    """The queue, open."""
    app = queue_of(platform.database, connections=2)
    async with app.open_async():
        yield app


def jobs_in(url: str) -> list[tuple[Any, ...]]:
    """The rows of the queue: job, status."""
    with opened(url) as admin:
        rows = sql.SQL("SELECT args->>'job', status::text FROM {} ORDER BY id")
        return admin.execute(rows.format(sql.Identifier(f"{SCHEMA}_jobs", "procrastinate_jobs"))).fetchall()


def in_queue(url: str, statement: str) -> None:
    """Change the queue's tables behind everybody's back."""
    with opened(url) as admin:
        admin.execute("SELECT set_config('search_path', %s, false)", (f"{SCHEMA}_jobs",))
        admin.execute(statement.encode())


def scheduled(workplace: Workplace, **crons: str) -> Workplace:
    """The workplace with these jobs due."""
    return replace(workplace, settings=workplace.settings.changed(jobs_schedule={**NOTHING_DUE, **crons}))


async def pending(collection: Collection) -> int:
    """The number of the collection's items that wait for their vector."""
    return (await collection.info()).pending


async def test_due_jobs_run_for_every_tenant(platform: Platform, settings: Settings) -> None:
    """Each collection that needs it, once; done, the worker ends and the queue is empty."""
    reports: list[RunReport] = []
    async with AsyncExitStack() as stack:
        collections = [await make_pending(platform, "mine"), await platform.collection("nothing to do")]
        other_settings = settings.changed(tenant=f"{settings.tenant}-other")
        other = await stack.enter_async_context(
            connect(platform.database.url, settings=other_settings, embedder=HashingEmbedder())
        )
        collections.append(await make_pending(other, "theirs"))
        workplace = scheduled(platform.workplace, embed="* * * * *")
        await work_once(workplace, asyncio.Event(), report=reports.append)
        assert sorted((report.job, report.tenant, report.collection, report.outcome) for report in reports) == [
            ("embed", settings.tenant, "mine", "done"),
            ("embed", other_settings.tenant, "theirs", "done"),
        ]
        assert [await pending(collection) for collection in collections] == [0, 0, 0]
        assert jobs_in(platform.database.url) == []


async def test_a_reindex_runs_by_schedule(platform: Platform) -> None:
    """It is recorded like every other job."""
    await make_pending(platform, "docs", 3)
    workplace = scheduled(platform.workplace, reindex="* * * * *")
    reports: dict[str, RunReport] = {}
    await work_once(workplace, asyncio.Event(), report=lambda report: reports.update({report.job: report}))
    assert reports["reindex"].details["weighed"] == 3
    runs = await last_runs_of_tenant(platform.database, platform.tenant_id)
    assert {job: run.outcome for job, run in runs.items()} == {"reindex": "done"}


async def test_a_missed_job_runs_once(platform: Platform) -> None:
    """A worker that runs once a day does what the day asked for; the same moment is never done twice."""
    await platform.collection("docs")
    workplace = scheduled(platform.workplace, prune="27 3 * * *")
    reports: list[RunReport] = []
    noon = 1_700_049_600.0
    for hours in (0, 1, 24):
        at = noon + hours * 3600
        then = replace(workplace, now=partial(datetime.fromtimestamp, at, UTC))
        await work_once(then, asyncio.Event(), report=reports.append)
    assert [report.job for report in reports] == ["prune", "prune"]


async def test_a_worker_whose_clock_went_ahead_and_back_keeps_to_its_schedule(platform: Platform) -> None:
    """It makes up for a year once, not minute by minute; back at noon it queues noon once more, and then the next."""
    minute, year, noon = 60.0, 366 * 86400.0, 1_700_049_600.0
    async with queue(platform) as app, asyncio.timeout(30):
        add_tasks(app, platform.workplace, lambda _report: None)
        registry = schedule_of(app, {**NOTHING_DUE, "prune": "* * * * *"})
        queued = []
        for at in (noon, noon + year, noon, noon, noon + minute):
            await enqueue_due(registry, at)
            queued.append(len(jobs_in(platform.database.url)))
            in_queue(platform.database.url, "DELETE FROM procrastinate_jobs")
    assert queued == [1, 1, 1, 0, 1]


@contextmanager
def failing_once(patch: pytest.MonkeyPatch, name: str, first: Callable[..., Awaitable[object]]) -> Iterator[None]:
    """The first call of a function of the worker is another function's, which fails."""
    function, calls = getattr(worker, name), 0

    async def called(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return await (first if calls == 1 else function)(*arguments)

    with patch.context() as context:
        context.setattr(worker, name, called)
        yield


async def unreachable(*_: object) -> None:
    """What a call meets while the login has no connections left."""
    raise DatabaseUnreachableError("no connection is left")


@pytest.mark.parametrize("name", ["enqueue_needed", "run_job"])
async def test_a_check_or_a_run_that_meets_no_database_is_made_by_the_next_worker(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """No record holds its failure: it is reported and logged, and waits in the queue, although its time has passed."""
    collection = await make_pending(platform, "docs", 3)
    # The only time is long past.
    workplace = scheduled(platform.workplace, embed=f"0 0 1 {(datetime.now(UTC).month + 5) % 12 + 1} *")
    reports: list[RunReport] = []
    with failing_once(monkeypatch, name, unreachable):
        await work_once(workplace, asyncio.Event(), report=reports.append)
        assert reports == [RunReport(job="embed", outcome="failed", details={"error": "no connection is left"})]
        (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert re.fullmatch(r"job embed.* failed and is tried again: no connection is left", warning)
        assert jobs_in(platform.database.url) == [("embed", "todo")]
        await work_once(workplace, asyncio.Event(), report=reports.append)
    assert [report.outcome for report in reports] == ["failed", "done"]
    assert await pending(collection) == 0
    assert jobs_in(platform.database.url) == []


async def test_a_worker_makes_a_failed_check_again(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its next look at the clock, although nothing is due then."""
    collection = await make_pending(platform, "docs", 3)
    monkeypatch.setattr(worker, "LONGEST_WAIT_SECONDS", 0.05)
    stop, outcomes = asyncio.Event(), list[str]()

    def report(report: RunReport) -> None:
        outcomes.append(report.outcome)
        if report.outcome == "done":
            stop.set()

    workplace = scheduled(platform.workplace, embed=f"0 0 1 {(datetime.now(UTC).month + 5) % 12 + 1} *")
    with failing_once(monkeypatch, "enqueue_needed", unreachable):
        await asyncio.wait_for(work(workplace, stop, report=report), 60)
    assert outcomes == ["failed", "done"]
    assert await pending(collection) == 0


async def test_a_check_that_fails_while_the_next_one_waits_is_not_queued_twice(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one stands for both."""
    collection = await make_pending(platform, "docs", 3)
    workplace = scheduled(platform.workplace, embed="* * * * *")

    async def fail_late(app: App, *_: object) -> None:
        await enqueue_due(schedule_of(app, workplace.settings.jobs_schedule or {}), time.time() + 120)
        await unreachable()

    with failing_once(monkeypatch, "enqueue_needed", fail_late):
        await work_once(workplace, asyncio.Event(), report=lambda _report: None)
    assert await pending(collection) == 0
    assert jobs_in(platform.database.url) == []


async def test_a_fault_of_the_program_is_reported_and_stays_in_the_queue(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To do it again would not help."""
    await platform.collection("docs")

    async def fail(*_: object) -> None:
        raise ZeroDivisionError("a fault")

    reports: list[RunReport] = []
    with failing_once(monkeypatch, "enqueue_needed", fail):
        await work_once(scheduled(platform.workplace, embed="0 0 1 1 *"), asyncio.Event(), report=reports.append)
    assert [(report.job, report.outcome, report.details) for report in reports] == [
        ("embed", "failed", {"error": "a fault"})
    ]
    assert jobs_in(platform.database.url) == [("embed", "failed")]


async def test_a_job_waits_in_the_queue_once(platform: Platform) -> None:
    """This does not depend on the number of requests."""
    target = await target_of(platform, await make_pending(platform, "docs", 3))
    async with queue(platform) as app:
        assert await enqueue(app, JOBS["embed"], target)
        assert not await enqueue(app, JOBS["embed"], target)
        assert await enqueue_needed(app, platform.workplace, JOBS["embed"], {}) == 0
        assert await enqueue(app, JOBS["prune"], target)
    assert jobs_in(platform.database.url) == [("embed", "todo"), ("prune", "todo")]


async def test_a_collection_that_cannot_be_checked_does_not_keep_others_from_their_jobs(platform: Platform) -> None:
    """Its job is queued too, and fails on record."""
    for name in ("a", "b"):
        await make_pending(platform, name, 3)

    def embedder_of(_tenant_id: int, _space: StoredSpace) -> Any:
        raise ConfigurationError("the embedder cannot be made")

    async with queue(platform) as app:
        workplace = replace(platform.workplace, embedder_of=embedder_of)
        assert await enqueue_needed(app, workplace, JOBS["embed"], {}) == 2


async def test_a_worker_polls_the_queue_without_listening_and_ends_on_request(platform: Platform) -> None:
    """It polls; its started job is finished or back in the queue."""
    collection = await make_pending(platform, "docs")
    stop, finished = asyncio.Event(), asyncio.Event()
    working = asyncio.create_task(work(platform.workplace, stop, report=lambda _report: finished.set()))
    async with queue(platform) as app:
        await enqueue(app, JOBS["embed"], await target_of(platform, collection))
        await finished.wait()
        stop.set()
        await working
    assert await pending(collection) == 0
    assert jobs_in(platform.database.url) == []


async def test_a_worker_listens_where_it_can(platform: Platform) -> None:
    """It hears of a new job long before it would look again."""
    collection = await make_pending(platform, "docs", 3)
    settings = platform.settings.changed(worker_listen=True, worker_poll_seconds=3600)
    stop, finished = asyncio.Event(), asyncio.Event()
    workplace = replace(platform.workplace, settings=settings)
    working = asyncio.create_task(work(workplace, stop, report=lambda _report: finished.set()))
    async with queue(platform) as app:
        await appears(platform, LISTENING)
        await enqueue(app, JOBS["embed"], await target_of(platform, collection))
        await finished.wait()
        stop.set()
        await working
    assert await pending(collection) == 0


async def test_a_worker_takes_a_job_that_was_queued_before_it_listened(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker fetches jobs before its connection listens; of a job in between nobody is notified."""
    collection = await make_pending(platform, "docs", 3)
    settings = platform.settings.changed(worker_listen=True, worker_poll_seconds=3600)
    fetched, queued, finished, stop = (asyncio.Event() for _ in range(4))
    fetch, listen = JobManager.fetch_job, PsycopgConnector.listen_notify

    async def fetching(*arguments: Any, **options: Any) -> Any:
        job = await fetch(*arguments, **options)
        fetched.set()
        return job

    async def listening_late(*arguments: Any, **options: Any) -> None:
        await queued.wait()
        await listen(*arguments, **options)

    monkeypatch.setattr(JobManager, "fetch_job", fetching)
    monkeypatch.setattr(PsycopgConnector, "listen_notify", listening_late)
    workplace = replace(platform.workplace, settings=settings)
    working = asyncio.create_task(work(workplace, stop, report=lambda _report: finished.set()))
    async with queue(platform) as app:
        await fetched.wait()
        await enqueue(app, JOBS["embed"], await target_of(platform, collection))
        queued.set()
        await asyncio.wait_for(finished.wait(), 60)
        stop.set()
        await working
    assert await pending(collection) == 0


async def test_a_worker_hears_of_a_job_while_it_fetches(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that has found nothing when the notification comes is followed by another one."""
    collection = await make_pending(platform, "docs", 3)
    target = await target_of(platform, collection)
    finished, heard = asyncio.Event(), asyncio.Event()
    fetch, hear = JobManager.fetch_job, Worker._handle_notification  # noqa: SLF001 - called for each notification
    is_queued = False

    async def hearing(*arguments: Any, **options: Any) -> None:
        await hear(*arguments, **options)
        heard.set()

    async with queue(platform) as app:

        async def fetching(*arguments: Any, **options: Any) -> Any:
            nonlocal is_queued
            job = await fetch(*arguments, **options)
            if heard.is_set() and not is_queued:  # the worker listens, and looks once when it begins to
                is_queued = True
                heard.clear()
                await enqueue(app, JOBS["embed"], target)
                await heard.wait()
            return job

        monkeypatch.setattr(JobManager, "fetch_job", fetching)
        monkeypatch.setattr(Worker, "_handle_notification", hearing)
        async with listening(platform, lambda _report: finished.set()):
            await asyncio.wait_for(finished.wait(), 60)
    assert await pending(collection) == 0


NOTIFICATIONS = (
    *("garbage", "", "[]", '"x"', "null", "{}", '{"type": 3}', "[" * 7000, "ü" * 3999),
    *('{"type": "abort_job_requested"}', '{"type": "abort_job_requested", "job_id": {}}'),
)


@asynccontextmanager
async def listening(platform: Platform, report: Callable[[RunReport], None]) -> AsyncIterator[None]:
    """A worker that hears of jobs and does not look for them meanwhile."""
    settings = platform.settings.changed(worker_listen=True, worker_poll_seconds=3600)
    stop = asyncio.Event()
    working = asyncio.create_task(work(replace(platform.workplace, settings=settings), stop, report=report))
    await appears(platform, LISTENING)
    try:
        yield
    finally:
        stop.set()
        await working


def notify(url: str, payload: str) -> None:
    """Send what any login may send."""
    with login(url) as (_, stranger), opened(stranger) as connection:
        connection.execute("SELECT pg_notify('procrastinate_any_queue_v1', %s)", (payload,))


async def test_a_worker_listens_on_whatever_it_is_notified_of(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    """Every login of the database may send anything: the worker neither stops nor says so, and hears the next job."""
    collection = await make_pending(platform, "docs", 3)
    finished = asyncio.Event()
    async with listening(platform, lambda _report: finished.set()), queue(platform) as app:
        for payload in NOTIFICATIONS:
            await asyncio.to_thread(notify, platform.database.url, payload)
        await enqueue(app, JOBS["embed"], await target_of(platform, collection))
        await asyncio.wait_for(finished.wait(), 20)
    assert await pending(collection) == 0
    assert [record.getMessage() for record in caplog.records if record.levelname in {"ERROR", "WARNING"}] == []


async def test_a_notification_that_asks_for_an_abort_ends_no_job(platform: Platform) -> None:
    """A role that may not change the queue's tables may not end a running job."""
    collection = await make_pending(platform, "docs", 3)
    reports: asyncio.Queue[RunReport] = asyncio.Queue()
    async with listening(platform, reports.put_nowait), queue(platform) as app:
        with psycopg.connect(platform.database.url) as holder:
            holder.execute("LOCK TABLE retrieval.items IN EXCLUSIVE MODE")
            await enqueue(app, JOBS["embed"], await target_of(platform, collection))
            await appears(platform, sql.SQL(LOCK_WAITS))
            for number in range(1, 4):
                abort = f'{{"type": "abort_job_requested", "job_id": {number}}}'
                await asyncio.to_thread(notify, platform.database.url, abort)
        assert (await asyncio.wait_for(reports.get(), 20)).outcome == "done"
    assert await pending(collection) == 0


async def test_a_job_that_is_stopped_waits_for_the_next_worker(platform: Platform) -> None:
    """It ends with its step; the next worker does the rest."""
    collection = await make_pending(platform, "docs")
    stop = asyncio.Event()
    embedder_of = platform.workplace.embedder_of

    def stopping(tenant_id: int, space: StoredSpace) -> Any:
        stop.set()
        return embedder_of(tenant_id, space)

    async with queue(platform) as app:
        await enqueue(app, JOBS["embed"], await target_of(platform, collection))
    reports: list[RunReport] = []
    await work_once(replace(platform.workplace, embedder_of=stopping), stop, report=reports.append)
    assert [report.outcome for report in reports] == ["interrupted"]
    assert await pending(collection) == WAITING - 128
    assert jobs_in(platform.database.url) == [("embed", "todo")]
    await work_once(platform.workplace, asyncio.Event(), report=reports.append)
    assert await pending(collection) == 0
    assert jobs_in(platform.database.url) == []


async def appears(platform: Platform, count: sql.SQL | sql.Composed) -> None:
    """Return as soon as the query counts a row."""
    async with await psycopg.AsyncConnection.connect(platform.database.url, autocommit=True) as watcher:
        while True:
            row = await (await watcher.execute(count)).fetchone()
            if row is not None and row[0]:
                return


LISTENING = sql.SQL("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()")

STALL = """
    WITH gone AS (INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 hour') RETURNING id)
    UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT id FROM gone)
"""


async def test_the_job_of_a_worker_that_is_gone_is_taken_up(platform: Platform) -> None:
    """The job of a worker that is alive is not taken up."""
    collection = await make_pending(platform, "docs", 3)
    async with queue(platform) as app:
        await enqueue(app, JOBS["embed"], await target_of(platform, collection))
        in_queue(platform.database.url, STALL)
        assert await requeue_stalled(app, 7200) == 0
        assert jobs_in(platform.database.url) == [("embed", "doing")]
    await work_once(platform.workplace, asyncio.Event(), report=lambda _report: None)
    assert await pending(collection) == 0


async def test_a_worker_that_is_gone_keeps_no_job_because_the_servers_clock_went_back(platform: Platform) -> None:
    """Its last heartbeat is an hour ahead: it counts from the first look on, and not in an hour."""
    collection = await make_pending(platform, "docs", 3)
    async with queue(platform) as app:
        await enqueue(app, JOBS["embed"], await target_of(platform, collection))
        in_queue(platform.database.url, STALL.replace("now() -", "now() +"))
        assert await requeue_stalled(app, 0.2) == 0
        await asyncio.sleep(0.3)
        assert await requeue_stalled(app, 0.2) == 1
        assert jobs_in(platform.database.url) == [("embed", "todo")]


async def test_a_stalled_job_does_not_hold_up_the_one_that_waits_for_its_lock(platform: Platform) -> None:
    """The waiting job stands for both; otherwise neither would ever run."""
    collection = await make_pending(platform, "docs", 3)
    async with queue(platform) as app:
        target = await target_of(platform, collection)
        await enqueue(app, JOBS["embed"], target)
        in_queue(platform.database.url, STALL)
        assert await enqueue(app, JOBS["embed"], target)
        assert await requeue_stalled(app, 1) == 1
        assert jobs_in(platform.database.url) == [("embed", "todo")]
    await work_once(platform.workplace, asyncio.Event(), report=lambda _report: None)
    assert await pending(collection) == 0


async def test_old_failed_jobs_leave_the_queue(platform: Platform) -> None:
    """With the pruning, by the age of its last event."""
    collection = await platform.collection("docs")
    async with queue(platform) as app:
        await enqueue(app, JOBS["embed"], await target_of(platform, collection))
    in_queue(platform.database.url, "UPDATE procrastinate_jobs SET status = 'doing'")
    in_queue(platform.database.url, "UPDATE procrastinate_jobs SET status = 'failed'")
    workplace = scheduled(platform.workplace, prune="* * * * *")
    async with queue(platform) as app:
        await forget_failed(app, 30)
        assert jobs_in(platform.database.url) == [("embed", "failed")]
    in_queue(platform.database.url, "UPDATE procrastinate_events SET at = at - interval '31 days'")
    await work_once(workplace, asyncio.Event(), report=lambda _report: None)
    assert jobs_in(platform.database.url) == []


async def test_a_job_of_a_collection_that_was_removed_does_nothing(platform: Platform) -> None:
    """It leaves the queue."""
    collection = await platform.collection("docs")
    async with queue(platform) as app:
        await enqueue(app, JOBS["prune"], await target_of(platform, collection))
    async with platform.database.transaction(platform.tenant_id) as connection:
        await connection.execute("DELETE FROM collections")
    await work_once(platform.workplace, asyncio.Event(), report=lambda _report: None)
    assert jobs_in(platform.database.url) == []


async def test_a_worker_outlives_the_loss_of_its_connections(platform: Platform) -> None:
    """It reconnects, and runs the jobs queued meanwhile."""
    collection = await make_pending(platform, "docs", 3)
    stop, finished = asyncio.Event(), asyncio.Event()
    working = asyncio.create_task(work(platform.workplace, stop, report=lambda _report: finished.set()))
    workers = sql.Identifier(f"{SCHEMA}_jobs", "procrastinate_workers")
    await appears(platform, sql.SQL("SELECT count(*) FROM {}").format(workers))
    with opened(platform.database.url) as admin:
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        admin.execute(f"SELECT pg_terminate_backend(pid) {others}".encode())
    async with queue(platform) as app:
        await enqueue(app, JOBS["embed"], await target_of(platform, collection))
    await finished.wait()
    stop.set()
    await working
    assert await pending(collection) == 0


async def test_a_worker_tells_once_that_its_database_went_and_once_that_it_came_back(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it tries, and whatever the parts of its queue log about their connections."""
    workplace = replace(platform.workplace, settings=platform.workplace.settings.changed(worker_listen=True))
    stop, tries = asyncio.Event(), 0

    async def listen(*_: object, **__: object) -> None:
        if tries == 1:
            raise ConnectorException
        stop.set()

    async def check_worker(database: Database) -> None:
        nonlocal tries
        tries += 1
        if 1 < tries < 5:
            raise DatabaseUnreachableError("cannot reach PostgreSQL; check that it runs")
        await installed.check_worker(database)

    monkeypatch.setattr(worker, "check_worker", check_worker)
    monkeypatch.setattr(PsycopgConnector, "listen_notify", listen)
    await asyncio.wait_for(work(workplace, stop, report=lambda _report: None), 60)

    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [re.sub(r"\d\d:\d\d:\d\d", "T", line) for line in told] == [
        "since T UTC the worker waits for its database: cannot reach PostgreSQL; check that it runs",
        "at T UTC the worker goes on: its database answers again",
    ]


async def test_a_task_that_fails_is_logged(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With its error, wherever in the queue's work it fails."""
    stop, schedule = asyncio.Event(), {**NOTHING_DUE, "embed": "* * * * *"}
    workplace = replace(platform.workplace, settings=platform.workplace.settings.changed(jobs_schedule=schedule))

    async def fail(*_: object) -> int:
        stop.set()
        raise ZeroDivisionError

    monkeypatch.setattr(worker, "enqueue_needed", fail)
    await asyncio.wait_for(work(workplace, stop, report=lambda _report: None), 60)
    logged = [record.exc_info[0] for record in caplog.records if record.exc_info and record.levelno >= logging.ERROR]
    assert logged == [ZeroDivisionError]


@not_on_a_cluster("on its other nodes, a login has only the rights that it inherits")
async def test_a_login_needs_the_two_roles_and_no_more(platform: Platform) -> None:
    """With both roles it works for every tenant; without the rights of the second, the message has the grant."""
    collection = await make_pending(platform, "docs", 3)
    with login(platform.database.url, "NOINHERIT") as (name, url):
        with opened(platform.database.url) as admin:
            admin.execute(f'GRANT "{SCHEMA}_app", "{SCHEMA}_definer" TO "{name}"'.encode())
        async with connect(url, settings=platform.settings, embedder=HashingEmbedder()) as other:
            workplace = scheduled(other.workplace, embed="* * * * *")
            with pytest.raises(MissingPrivilegeError, match="may not run the queue's jobs") as raised:
                await work_once(workplace, asyncio.Event(), report=lambda _report: None)
            grant = str(raised.value).partition("run: ")[2].partition(";")[0]
            assert grant in [finding.mend.partition("run: ")[2][:-1] for finding in (await other.doctor()).findings]
            with opened(platform.database.url) as admin:
                admin.execute(grant.encode())
            await work_once(workplace, asyncio.Event(), report=lambda _report: None)
    assert await pending(collection) == 0


def test_the_application_role_sees_neither_the_queue_nor_all_collections(url: str) -> None:
    """Acting as a tenant is acting for that tenant alone."""
    with opened(url) as connection:
        connection.execute("SELECT set_config('role', %s, false)", (f"{SCHEMA}_app",))
        for statement in ("SELECT FROM {0}_jobs.procrastinate_jobs", "SELECT {0}.every_collection()"):
            refused = connection.execute
            with pytest.raises(Exception, match="permission denied"):
                refused(statement.format(SCHEMA).encode())
