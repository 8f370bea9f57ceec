"""What Prometheus is told of the state at the moment it asks: requests, the pool, records that wait, recall, jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from retrieval.adapters.store.pool import PoolState
from retrieval.platform import Platform
from retrieval.surfaces.http.figures import Figures
from retrieval.surfaces.http.load import Load

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
