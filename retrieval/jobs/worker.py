"""A worker: does what is due and what is queued, for every tenant, until it is asked to end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import psycopg
from procrastinate import App
from procrastinate.exceptions import ConnectorException
from procrastinate.periodic import PeriodicDeferrer, PeriodicRegistry

from retrieval.adapters.store.installation.queue import check_worker
from retrieval.adapters.store.translate import translated
from retrieval.domain.errors import DatabaseError
from retrieval.jobs.dispatch import Report, add_schedule, add_tasks
from retrieval.jobs.queue import MAKE_UP_SECONDS, queue_of
from retrieval.jobs.stalled import take_up_stalled
from retrieval.jobs.workplace import Workplace

_log = logging.getLogger(__name__)

SIGNS_OF_LIFE = 3
"""How many a worker gives in the time after which it counts as stalled."""


async def work(workplace: Workplace, stop: asyncio.Event, *, report: Report) -> None:
    """Work until ``stop`` is set; running jobs then end with their step, and their rest waits in the queue.

    A database that goes away is waited for. Raises ``DatabaseError`` when it is not to be had from the start.
    """
    started = False
    while not stop.is_set():
        try:
            async with _opened(workplace, stop, report) as app:
                add_schedule(app.periodic_registry, app, workplace.settings.jobs_schedule or {})
                await take_up_stalled(app, workplace.settings.worker_stalled_seconds)
                started = True
                await _until(stop, _serve(app, workplace))
                if not stop.is_set():
                    # The queue says in its own log that the worker stops.
                    _log.warning("the worker goes on: it begins anew with the queue, whose loop has ended")
        except DatabaseError as error:
            if not started:
                raise
            _log.warning("the worker waits for its database: %s", error)
        await _pause(stop, workplace.settings.worker_poll_seconds)


async def work_once(
    workplace: Workplace, stop: asyncio.Event, *, report: Report, clock: Callable[[], float] = time.time
) -> None:
    """Do what is due and what is queued, then end. ``clock`` gives seconds since 1970."""
    async with _opened(workplace, stop, report) as app:
        await take_up_stalled(app, workplace.settings.worker_stalled_seconds)
        # Not the queue's own registry, by which a pass would look at the time for itself.
        registry = PeriodicRegistry()  # type: ignore[no-untyped-call]
        add_schedule(registry, app, workplace.settings.jobs_schedule or {})
        deferrer = PeriodicDeferrer(registry, MAKE_UP_SECONDS)
        await deferrer.defer_jobs(deferrer.get_previous_tasks(at=clock()))
        # What is due puts into the queue what is needed, so one pass is not enough; what another worker's jobs hold up
        # is left to that worker.
        before, waiting = set[int](), await _waiting(app)
        while waiting not in (set(), before) and not stop.is_set():
            await _until(stop, _run(app, workplace, wait=False))
            before, waiting = waiting, await _waiting(app)


@asynccontextmanager
async def _opened(workplace: Workplace, stop: asyncio.Event, report: Report) -> AsyncIterator[App]:
    """The queue with its tasks, whose errors are the platform's."""
    await check_worker(workplace.database)
    app = queue_of(workplace.database, connections=workplace.settings.worker_concurrency + 3)
    add_tasks(app, replace(workplace, is_stopping=stop.is_set), report)
    with _queue_errors(workplace.database.url):
        async with app.open_async():
            yield app


async def _serve(app: App, workplace: Workplace) -> None:
    """Run jobs for ever, and look after those of others; ends only when the database is lost."""
    watch = asyncio.create_task(_watch(app, workplace.settings.worker_stalled_seconds))
    try:
        await _run(app, workplace, wait=True)
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def _watch(app: App, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds / SIGNS_OF_LIFE)
        try:
            await take_up_stalled(app, seconds)
        except ConnectorException as error:
            _log.info("stalled jobs were not looked for: %s", error)


async def _run(app: App, workplace: Workplace, *, wait: bool) -> None:
    settings = workplace.settings
    await app.run_worker_async(
        concurrency=settings.worker_concurrency,
        wait=wait,
        listen_notify=wait and settings.worker_listen,
        fetch_job_polling_interval=settings.worker_poll_seconds,
        update_heartbeat_interval=settings.worker_stalled_seconds / SIGNS_OF_LIFE,
        stalled_worker_timeout=settings.worker_stalled_seconds,
        # What a job did is on record in job_runs; what failed is kept here too, until it is pruned.
        delete_jobs="successful",
        install_signal_handlers=False,
    )


async def _waiting(app: App) -> set[int]:
    """The jobs in the queue."""
    return {job.id for job in await app.job_manager.list_jobs_async(status="todo") if job.id is not None}


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Do the work, or until ``stop`` is set: then it is cancelled, and ends its own way."""
    running, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


@contextmanager
def _queue_errors(url: str) -> Iterator[None]:
    """Raise the platform's errors for the queue's."""
    with translated(url):
        try:
            yield
        except ConnectorException as error:
            if isinstance(error.__cause__, psycopg.Error):
                raise error.__cause__ from error
            raise DatabaseError(f"the queue of jobs cannot be used: {error}; run: retrieval db status") from error
