"""Metrics for Prometheus: counters, and the state at the moment it asks.

Labels are few and known beforehand: routes as they are written, never paths; names of stages, never of items.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from retrieval.adapters.store.database import PoolState
from retrieval.adapters.store.installation.queue import QueueState, read_queue_state
from retrieval.adapters.store.search.recall import CollectionRecall, lowest_recalls
from retrieval.domain.errors import RetrievalError
from retrieval.domain.learning.feedback import FeedbackReport
from retrieval.domain.search.hit import Path, SearchResult
from retrieval.engine.stopwatch import Clock
from retrieval.platform import Platform
from retrieval.surfaces.http.limits import Load
from retrieval.surfaces.listening import installed_version

_log = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
"""The database is not asked again sooner."""

WITHIN_SECONDS = 3.0
"""How long a look may take; who asks for metrics gets the last figures then."""

MOST_TENANTS, MOST_COLLECTIONS = 20, 200
"""The number of tenants, and of collections in all, whose recall is shown."""


@dataclass(frozen=True, slots=True)
class TenantRecall:
    """A collection's recall, with whose it is."""

    tenant: str
    found: CollectionRecall


class Figures:
    """The figures as they were read last."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self.recalls: Sequence[TenantRecall] = ()
        self.queue: QueueState | None = None
        """None: not read yet, or the login may not see it."""
        self.is_up: bool | None = None
        """Whether the database answered; None: it was not asked yet."""

    async def refresh(self, platforms: Sequence[Platform]) -> None:
        """Read them again if that was long ago; ``platforms``: the host's first. A database that is away is told of."""
        async with self._reading:
            now = self._clock()
            if self._read_at is not None and now - self._read_at < EVERY_SECONDS:
                return
            if not platforms:
                self.is_up = False
                return
            self._read_at = now
            try:
                async with asyncio.timeout(WITHIN_SECONDS):
                    await self._read(platforms)
                self.is_up = True
            except (RetrievalError, TimeoutError) as error:
                self.is_up = False
                self._read_at = None  # it may be back at the next look
                reason = "it took too long" if isinstance(error, TimeoutError) else error
                _log.info("the figures of the metrics were not read: %s", reason)

    def forget(self) -> None:
        """Read them again at the next look."""
        self._read_at = None

    async def _read(self, platforms: Sequence[Platform]) -> None:
        recalls: list[TenantRecall] = []
        for one in platforms[:MOST_TENANTS]:
            found = await lowest_recalls(one.database, one.tenant_id, MOST_COLLECTIONS - len(recalls))
            recalls += [TenantRecall(one.settings.tenant, recall) for recall in found]
            if len(recalls) >= MOST_COLLECTIONS:
                break
        host = platforms[0]
        # A worker tells three times within that time that it lives.
        self.queue = await read_queue_state(host.database, alive_seconds=2 * host.settings.worker_stalled_seconds)
        self.recalls = recalls


REQUEST_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The histogram's bounds for requests."""

STAGE_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The histogram's bounds for the stages of a search."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Others are told as ``OTHER``: a client may send any word."""


class Metrics:
    """An observer of the platform that also hears of each request; ``registry`` holds what is told."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Histogram(
            "retrieval_http_request_duration_seconds",
            "How long requests took, from their head to the end of the answer.",
            ("method", "route", "status"),
            buckets=REQUEST_SECONDS,
            registry=self.registry,
        )
        self._stages = Histogram(
            "retrieval_search_duration_seconds",
            "How long each stage of a search took, and all of them (total), by the way the dense leg went.",
            ("stage", "path"),
            buckets=STAGE_SECONDS,
            registry=self.registry,
        )
        self._searches = self._counter("retrieval_searches", "Searches, by the way the dense leg went.", "path")
        self._noted = self._counter(
            "retrieval_searches_noted", "Searches that were answered with notes, such as of a leg that could not run."
        )
        self._feedback = self._counter(
            "retrieval_feedback_events",
            "Events of feedback: recorded, repeated, or stored without weight.",
            "outcome",
        )
        self._recorded = self._counter("retrieval_recorded_searches", "Searches that were recorded.")
        self._lost = self._counter("retrieval_unrecorded_searches", "Searches that were not recorded.", "reason")
        info = Gauge("retrieval_build_info", "The version, as a label; always 1.", ("version",), registry=self.registry)
        info.labels(installed_version() or "unknown").set(1)
        self._stage_of: dict[tuple[str, Path], Histogram] = {}
        self._request_of: dict[tuple[str, str, int], Histogram] = {}

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered; ``route`` is the route's template, empty where none matched."""
        known = method if method in METHODS else "OTHER"
        series = self._request_of.get((known, route, status))
        if series is None:
            series = self._request_of[known, route, status] = self._requests.labels(known, route or "none", status)
        series.observe(seconds)

    def searched(self, results: Sequence[SearchResult]) -> None:
        """Searches of one call were answered; the call's stages count once."""
        path = results[0].path
        for stage, milliseconds in results[0].timings_ms.items():
            series = self._stage_of.get((stage, path))
            if series is None:
                series = self._stage_of[stage, path] = self._stages.labels(stage, path.value)
            series.observe(milliseconds / 1e3)
        for one in results:
            self._searches.labels(one.path.value).inc()
            if one.notes:
                self._noted.inc()

    def rewarded(self, report: FeedbackReport) -> None:
        """Events of feedback were taken."""
        discounted = sum(report.discounted.values())
        for outcome, number in (
            ("recorded", report.recorded - discounted),
            ("repeated", report.repeated),
            ("discounted", discounted),
        ):
            if number:
                self._feedback.labels(outcome).inc(number)

    def recorded(self, searches: int) -> None:
        """Counts searches that were recorded."""
        self._recorded.inc(searches)

    def unrecorded(self, reason: str) -> None:
        """A search was not recorded."""
        self._lost.labels(reason).inc()


_NO_POOL = PoolState.of({})


class Watched(Protocol):
    """The service, as far as its state is told."""

    @property
    def load(self) -> Load:
        """How many requests there are."""

    @property
    def opened(self) -> Sequence[Platform]:
        """The platforms that are open, the host's first; none while the database was never there."""


class StateMetrics(Collector):
    """Collected anew for each who asks."""

    def __init__(self, watched: Watched, figures: Figures) -> None:
        self._watched = watched
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """All of them; those that have nothing to tell are there without a value."""
        yield from _of_requests(self._watched.load)
        platforms = self._watched.opened
        yield from _of_pool(platforms[0].database.pool if platforms else _NO_POOL)
        waiting = sum(one.recording.waiting for one in platforms)
        yield GaugeMetricFamily("retrieval_recordings_waiting", "Searches that wait to be recorded.", value=waiting)
        yield from _of_database(self._figures)


def _of_requests(load: Load) -> Iterator[Metric]:
    yield GaugeMetricFamily("retrieval_http_requests_in_flight", "Requests being answered.", value=load.in_flight)
    yield GaugeMetricFamily("retrieval_http_requests_limit", "Requests answered at once, at most.", value=load.limit)
    yield CounterMetricFamily("retrieval_http_requests_shed", "Requests turned away for want of room.", value=load.shed)


def _of_pool(pool: PoolState) -> Iterator[Metric]:
    yield GaugeMetricFamily("retrieval_pool_connections_limit", "Connections that the pool opens.", value=pool.most)
    yield GaugeMetricFamily("retrieval_pool_connections", "Open connections.", value=pool.open)
    yield GaugeMetricFamily("retrieval_pool_connections_idle", "Open connections that nobody uses.", value=pool.idle)
    yield GaugeMetricFamily("retrieval_pool_waiting", "Calls that wait for a connection.", value=pool.waiting)
    yield CounterMetricFamily("retrieval_pool_timeouts", "Calls that waited in vain.", value=pool.timeouts)
    yield CounterMetricFamily("retrieval_pool_wait_seconds", "What calls waited together.", value=pool.wait_seconds)


def _of_database(figures: Figures) -> Iterator[Metric]:
    up = GaugeMetricFamily("retrieval_database_up", "Whether the database answered the last look.", labels=())
    if figures.is_up is not None:
        up.add_metric((), float(figures.is_up))
    yield up
    whose = ("tenant", "collection")
    recall = GaugeMetricFamily(
        "retrieval_recall", "Recall measured last, for the filters where it is lowest.", labels=whose
    )
    measured = GaugeMetricFamily(
        "retrieval_recall_measured_timestamp_seconds", "When that was, in seconds since 1970.", labels=whose
    )
    for one in figures.recalls:
        labels = (one.tenant, one.found.collection)
        recall.add_metric(labels, one.found.recall)
        measured.add_metric(labels, one.found.measured_at.timestamp())
    yield recall
    yield measured
    yield from _of_queue(figures)


def _of_queue(figures: Figures) -> Iterator[Metric]:
    jobs = GaugeMetricFamily(
        "retrieval_jobs", "Jobs by queue and status: todo, doing, failed.", labels=("queue", "status")
    )
    workers = GaugeMetricFamily("retrieval_workers", "Workers that gave a sign of life lately.", labels=())
    if figures.queue is not None:
        for (queue, status), number in sorted(figures.queue.jobs.items()):
            jobs.add_metric((queue, status), number)
        workers.add_metric((), figures.queue.workers)
    yield jobs
    yield workers
