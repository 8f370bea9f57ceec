"""A worker: runs due and queued jobs of every tenant until it is asked to end.

Like everything else it works through a pooler in transaction mode: each statement is a transaction that sets its own
search path, and nothing stays on the session. Only listening for new jobs needs a session, and can be left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.connector import LISTEN_TIMEOUT, Notify
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException, UniqueViolation
from procrastinate.jobs import Job as QueuedJob
from procrastinate.jobs import Notification, Status
from procrastinate.periodic import MARGIN, PeriodicDeferrer, PeriodicRegistry
from procrastinate.worker import WORKER_NAME, Worker
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from retrieval.adapters.store.database import CollectionPlace, Database
from retrieval.adapters.store.installation.queue import (
    FAILED,
    INTERRUPTED,
    check_worker,
    tenant_name,
    tenants_with_collections,
)
from retrieval.adapters.store.installed_sql import quote_identifier
from retrieval.adapters.store.items.collections import all_collections, collection_by_id
from retrieval.adapters.store.round_trip import CONNECT_TIMEOUT_SECONDS, CONNECTION, lasting
from retrieval.adapters.store.translate import server_name, translated
from retrieval.domain.errors import DatabaseError, DatabaseUnreachableError, RetrievalError
from retrieval.jobs.registry import Job, job_named, lock_of
from retrieval.jobs.run import RunReport, run_job
from retrieval.services.workplace import JobTarget, Workplace
from retrieval.settings import schedule

_log = logging.getLogger(__name__)


# A heartbeat of a later time was sent before the server's clock went back. It counts as sent now; otherwise a killed
# worker would keep its jobs until the clock reaches that time.
_BRING_BACK = "UPDATE procrastinate_workers SET last_heartbeat = now() WHERE last_heartbeat > now()"


async def requeue_stalled(app: App, seconds: float) -> int:
    """Requeue jobs whose worker has not sent a heartbeat for that time; returns their number.

    Where the same job is queued again already, the old one is aborted, because it would keep the lock that the new one
    waits for.
    """
    requeued = 0
    await app.connector.execute_query_async(_BRING_BACK)
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=seconds):
        try:
            await app.job_manager.retry_job(job)
        except UniqueViolation:
            await app.job_manager.finish_job(job, Status.ABORTED, delete_job=True)
        except ConnectorException as error:
            _log.info("job %s was requeued by another worker: %s", job.id, error)
            continue
        _log.warning("%s is requeued: its worker sent no heartbeat", _described(job))
        requeued += 1
    return requeued


def _described(job: QueuedJob) -> str:
    """``job embed, tenant 1, collection 3``, or ``job embed`` for its check in every collection."""
    named = {name.removesuffix("_id"): value for name, value in job.task_kwargs.items() if name != "timestamp"}
    return ", ".join(f"{name} {value}" for name, value in named.items())


MAKE_UP_SECONDS = 400 * 86400.0
"""The age up to which a missed job is run, once, when a worker starts."""

_LOOK = json.dumps({"type": "job_inserted", "job_id": 0})
"""The notification that makes a worker look for jobs; the worker reads only its type."""

_Connection = psycopg.AsyncConnection[tuple[Any, ...]]


class _QueuePool(AsyncConnectionPool[_Connection]):
    """Connections that are handed out in a transaction which finds the queue's tables."""

    def __init__(self, *, search_path: str, **options: Any) -> None:
        super().__init__(**options)
        self._search_path = search_path

    @asynccontextmanager
    async def connection(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - the pool's own
    ) -> AsyncIterator[_Connection]:
        async with super().connection(timeout) as connection:
            await connection.execute("SELECT set_config('search_path', %s, true)", (self._search_path,))
            yield connection


class _Connector(PsycopgConnector):
    """The queue's connections; any notification is only a hint that there may be a job.

    Every login of the database may send one. A payload that is not JSON would end the worker's listening, and a request
    to abort would end another's job: such requests are read from the queue's table.
    """

    async def _loop_notify(
        self,
        on_notification: Notify,
        connection: psycopg.AsyncConnection[Any],
        timeout: float = LISTEN_TIMEOUT,  # noqa: ASYNC109 - the connector's own
    ) -> None:
        async def look(*, channel: str, payload: str) -> None:
            _log.debug("notified on %s: %.100r", channel, payload)
            await on_notification(channel=channel, payload=_LOOK)

        # Nobody was notified of a job that was queued before the connection listened.
        await on_notification(channel="", payload=_LOOK)
        await super()._loop_notify(look, connection, timeout)


def queue_of(database: Database, *, connections: int) -> App:
    """The queue, to be opened with ``async with app.open_async()``; it keeps at most that many connections.

    Every login that may act as the definer role may use it.
    """
    search_path = f"{quote_identifier(database.names.jobs_schema)}, pg_temp"
    connector = _Connector(
        conninfo=lasting(database.url),
        kwargs=dict(CONNECTION),
        min_size=1,
        max_size=connections,
        timeout=CONNECT_TIMEOUT_SECONDS,
        pool_factory=partial(_QueuePool, search_path=search_path),
    )
    return App(connector=connector)


RUN, DISPATCH = "retrieval.run", "retrieval.dispatch"

Report = Callable[[RunReport], None]
"""Called with the report of each run."""


async def enqueue(app: App, job: Job, target: JobTarget) -> bool:
    """Put the job of a collection into the queue; False: it waits there already."""
    waiting = app.configure_task(
        RUN, lock=lock_of(job.name, target), queueing_lock=f"{job.name}:{target.collection.collection_id}"
    )
    try:
        await waiting.defer_async(
            job=job.name, tenant_id=target.tenant_id, collection_id=target.collection.collection_id
        )
    except AlreadyEnqueued:
        return False
    return True


CHECKING_SHARE = 0.01
"""The largest share of its time that a worker spends on checks of a job in a collection that find no work."""

Rests = dict[tuple[str, int], float]
"""The time, of ``time.monotonic``, before which no job of a name is checked again in a collection of a number."""


async def is_needed(workplace: Workplace, job: Job, target: JobTarget, rests: Rests) -> bool:
    """Whether the job is needed; False without a check for a while after a check that found no work.

    A check may read all of a collection, such as to find items that wait for their vector: the pause bounds its cost.
    A job whose check fails counts as needed: its run records the failure, and other collections get their jobs.
    """
    key, began = (job.name, target.collection.collection_id), time.monotonic()
    if began < rests.get(key, began):
        return False
    try:
        if await job.is_needed(workplace, target):
            return True
    except DatabaseUnreachableError:
        raise
    except RetrievalError as error:
        _log.warning("whether %s needs job %s is not known: %s", target.collection.name, job.name, error)
        return True
    ended = time.monotonic()
    rests[key] = ended + (ended - began) / CHECKING_SHARE
    return False


async def enqueue_needed(app: App, workplace: Workplace, job: Job, rests: Rests) -> int:
    """Put the job of every collection of every tenant that needs it into the queue; returns their number."""
    enqueued = 0
    for tenant_id in await tenants_with_collections(workplace.database):
        for collection in await all_collections(workplace.database, tenant_id):
            target = JobTarget(tenant_id, collection)
            if await is_needed(workplace, job, target, rests):
                enqueued += await enqueue(app, job, target)
    return enqueued


async def forget_failed(app: App, days: int) -> None:
    """Remove jobs from the queue that failed that many days ago; jobs that succeed leave it at once."""
    await app.job_manager.delete_old_jobs(days * 24, include_failed=True, include_cancelled=True, include_aborted=True)


_RETRY = "UPDATE procrastinate_jobs SET scheduled_at = NULL WHERE status = 'todo' AND scheduled_at IS NOT NULL"


async def retry_failed(app: App) -> None:
    """Make the jobs due that failed for want of the database and wait in the queue."""
    await app.connector.execute_query_async(_RETRY)


@asynccontextmanager
async def _tried_again(app: App, job: QueuedJob, report: Report) -> AsyncIterator[None]:
    """Report a failure in the block, and queue the job again if it failed for want of the database.

    A run records its own failure and does not raise it: what fails here is a check, or a run without a record.
    """
    try:
        yield
    except Exception as error:
        report(RunReport(job=str(job.task_kwargs["job"]), outcome=FAILED, details={"error": str(error)}))
        if not isinstance(error, DatabaseError | ConnectorException):
            raise
        _log.warning("%s failed and is tried again: %s", _described(job), error)
        # Not due before the next ``retry_failed``, even if the server's clock is ahead of this one.
        again = app.configure_task(
            job.task_name, lock=job.lock, queueing_lock=job.queueing_lock, schedule_in={"days": 1}
        )
        with contextlib.suppress(AlreadyEnqueued):
            await again.defer_async(**job.task_kwargs)


def add_tasks(app: App, workplace: Workplace, report: Report) -> None:
    """Register the tasks that run the queue's jobs."""
    rests: Rests = {}

    @app.task(name=RUN, pass_context=True)
    async def run(context: JobContext, job: str, tenant_id: int, collection_id: int) -> None:
        async with _tried_again(app, context.job, report):
            collection = await collection_by_id(CollectionPlace(workplace.database, tenant_id, collection_id))
            if collection is None:
                return  # it was removed since
            target = JobTarget(tenant_id, collection)
            done = await run_job(workplace, job_named(job), target)
            report(replace(done, tenant=await tenant_name(workplace.database, tenant_id)))
            if done.outcome == INTERRUPTED:
                await enqueue(app, job_named(job), target)

    @app.task(name=DISPATCH, pass_context=True)
    async def dispatch(context: JobContext, timestamp: int, job: str) -> None:
        async with _tried_again(app, context.job, report):
            if job == "prune":
                await forget_failed(app, workplace.settings.retention_runs_days)
            enqueued = await enqueue_needed(app, workplace, job_named(job), rests)
            _log.info("job %s, due at %d, is needed by %d collections", job, timestamp, enqueued)


def schedule_of(app: App, changes: Mapping[str, str]) -> PeriodicRegistry:
    """The times of the jobs; ``changes`` are changes to the default schedule."""
    # Not the queue's own registry, which would remember times.
    registry = PeriodicRegistry()  # type: ignore[no-untyped-call]
    for name, cron in schedule(changes).items():
        registry.register_task(
            task=app.tasks[DISPATCH],
            cron=cron,
            periodic_id=name,
            configure_kwargs={
                "queueing_lock": f"dispatch:{name}",
                "lock": f"dispatch:{name}",
                "task_kwargs": {"job": name},
            },
        )
    return registry


async def enqueue_due(registry: PeriodicRegistry, at: float) -> None:
    """Queue each job whose last time before ``at``, in seconds since 1970, was not queued yet.

    Only the database remembers the queued times. A process that remembered them would queue nothing for hours after its
    clock went back by hours, and each missed time after its clock went ahead.
    """
    deferrer = PeriodicDeferrer(registry, MAKE_UP_SECONDS)
    await deferrer.defer_jobs(deferrer.get_previous_tasks(at=at))


LONGEST_WAIT_SECONDS = 60.0
"""The time after which a worker looks at the clock again, which may have been set."""


class _Worker(Worker):
    """A worker that follows the platform's schedule (None: it runs queued jobs only), and requeues stalled jobs."""

    def __init__(self, app: App, registry: PeriodicRegistry | None, **options: Any) -> None:
        super().__init__(app, **options)
        self._registry = registry
        self._notified = 0
        """The number of notifications so far."""

    async def _handle_notification(self, *, channel: str, notification: Notification) -> None:
        self._notified += 1
        await super()._handle_notification(channel=channel, notification=notification)

    async def _fetch_and_process_jobs(self) -> None:
        # The queue's worker forgets a notification that comes while it fetches, although its statement may have begun
        # before the job was there.
        before = None
        while before != self._notified:
            before = self._notified
            await super()._fetch_and_process_jobs()  # type: ignore[no-untyped-call]

    async def _periodic_deferrer(self) -> None:
        # The worker's end cancels this; it never ends by itself, because the worker watches its tasks until the first
        # one ends.
        while True:
            wait, now = LONGEST_WAIT_SECONDS, time.time()
            if self._registry is not None:
                await retry_failed(self.app)
                await enqueue_due(self._registry, now)
                if self._registry.periodic_tasks:
                    wait = min(wait, PeriodicDeferrer(self._registry).get_next_tick(at=now) + MARGIN)
            await asyncio.sleep(wait)

    async def _update_heartbeat(self) -> None:
        # Its own heartbeat comes first: after the server's clock went ahead, every heartbeat looks old.
        while self.worker_id is not None:
            await asyncio.sleep(self.update_heartbeat_interval)
            await self.app.job_manager.update_heartbeat(self.worker_id)
            await requeue_stalled(self.app, self.stalled_worker_timeout)


HEARTBEATS = 3
"""The number of heartbeats in the time after which a worker counts as stalled."""


async def work(workplace: Workplace, stop: asyncio.Event, *, report: Report) -> None:
    """Work until ``stop`` is set; running jobs then end with their step, and are queued again.

    While the database does not answer, the worker waits. Raises ``DatabaseError`` if it cannot be reached at the start.
    """
    for part in ("worker", f"worker.{WORKER_NAME}", "utils"):
        logging.getLogger(f"procrastinate.{part}").addFilter(_is_other)
    started, is_waiting = False, False
    while not stop.is_set():
        try:
            async with _open_queue(workplace, stop, report) as app:
                await requeue_stalled(app, workplace.settings.worker_stalled_seconds)
                if is_waiting:
                    _log.warning("at %s the worker goes on: its database answers again", _time(workplace))
                started, is_waiting = True, False
                await _until(stop, _run(app, workplace, wait=True))
                if not stop.is_set():
                    _log.info("the worker restarts its queue, whose loop has ended")
        except DatabaseError as error:
            if not started:
                raise
            if not is_waiting:
                _log.warning("since %s the worker waits for its database: %s", _time(workplace), error)
            is_waiting = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), workplace.settings.worker_poll_seconds)


def _is_other(record: logging.LogRecord) -> bool:
    """False for the loss of the database, which the queue logs many times and the worker once."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, ConnectorException | DatabaseUnreachableError)


def _time(workplace: Workplace) -> str:
    """The time of day, by which the log lines of two losses differ: some logs leave out repeated lines."""
    return f"{workplace.now():%H:%M:%S} UTC"


async def work_once(workplace: Workplace, stop: asyncio.Event, *, report: Report) -> None:
    """Run the due and the queued jobs, then end."""
    async with _open_queue(workplace, stop, report) as app:
        await requeue_stalled(app, workplace.settings.worker_stalled_seconds)
        await retry_failed(app)
        await enqueue_due(schedule_of(app, workplace.settings.jobs_schedule or {}), workplace.now().timestamp())
        # Due jobs queue the needed jobs, so one pass is not enough; jobs that wait for another worker's jobs are left
        # to that worker.
        before, waiting = set[int](), await _waiting(app)
        while waiting not in (set(), before) and not stop.is_set():
            await _until(stop, _run(app, workplace, wait=False))
            before, waiting = waiting, await _waiting(app)


@asynccontextmanager
async def _open_queue(workplace: Workplace, stop: asyncio.Event, report: Report) -> AsyncIterator[App]:
    """The opened queue with its tasks, with the queue's errors raised as the platform's."""
    await check_worker(workplace.database)
    app = queue_of(workplace.database, connections=workplace.settings.worker_concurrency + 3)
    add_tasks(app, replace(workplace, is_stopping=stop.is_set), report)
    with _queue_errors(workplace.database.url):
        async with app.open_async():
            yield app


async def _run(app: App, workplace: Workplace, *, wait: bool) -> None:
    settings = workplace.settings
    await _Worker(
        app,
        schedule_of(app, settings.jobs_schedule or {}) if wait else None,
        concurrency=settings.worker_concurrency,
        wait=wait,
        listen_notify=wait and settings.worker_listen,
        fetch_job_polling_interval=settings.worker_poll_seconds,
        update_heartbeat_interval=settings.worker_stalled_seconds / HEARTBEATS,
        stalled_worker_timeout=settings.worker_stalled_seconds,
        # Results of jobs are in job_runs; failed jobs are also kept here, until they are pruned.
        delete_jobs="successful",
        install_signal_handlers=False,
    ).run()  # type: ignore[no-untyped-call]


async def _waiting(app: App) -> set[int]:
    """The jobs in the queue."""
    return {job.id for job in await app.job_manager.list_jobs_async(status="todo") if job.id is not None}


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Do the work; when ``stop`` is set, cancel it and wait for its end."""
    running, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@contextmanager
def _queue_errors(url: str) -> Iterator[None]:
    """Raise the platform's errors for the queue's."""
    with translated(url):
        try:
            yield
        except ConnectorException as error:
            if isinstance(error.__cause__, PoolTimeout):
                # The queue's connections are as many as its parts, so none of them waits for another's.
                raise DatabaseUnreachableError(
                    f"PostgreSQL at {server_name(url)} gives no connection; check that it runs and has connections left"
                ) from error
            if isinstance(error.__cause__, psycopg.Error):
                raise error.__cause__ from error
            raise DatabaseError(f"the queue of jobs cannot be used: {error}; run: retrieval db status") from error
