"""Telemetry: ids of requests, log lines, and metrics for Prometheus.

Keys and passwords are redacted from log lines. Metrics have few labels with known values: templates of routes, never
paths; names of stages, never of items.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from urllib.parse import unquote

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from pydantic import SecretStr

from retrieval.adapters.store.deadline import LateError, within
from retrieval.adapters.store.installation.queue import QueueState, read_queue_state
from retrieval.adapters.store.pool import PoolState
from retrieval.adapters.store.replicas import ReplicaState
from retrieval.adapters.store.search.recall import CollectionRecall, lowest_recalls
from retrieval.domain.errors import RetrievalError
from retrieval.domain.learning.feedback import FeedbackReport
from retrieval.domain.search.hit import SearchResult
from retrieval.platform import Platform
from retrieval.settings import Settings
from retrieval.surfaces.http.limits import Load
from retrieval.surfaces.listening import installed_version

_log = logging.getLogger(__name__)

_NO_POOL = PoolState()

_Samples = Iterable[tuple[Sequence[str], float]]

EVERY_SECONDS = 60.0
"""The least time between two reads of the figures from the database."""

WITHIN_SECONDS = 3.0
"""The time limit of reading the figures; after it the last figures are published."""

MOST_TENANTS, MOST_COLLECTIONS = 20, 200
"""The greatest number of tenants, and of collections in total, whose recall is published."""


class Figures(Collector):
    """The state of the service, collected for each request of the metrics, and the figures that were read last.

    ``opened`` returns the open platforms, the host's first; it is empty until the database was available once.
    """

    def __init__(self, load: Load, opened: Callable[[], Sequence[Platform]]) -> None:
        self._load, self._opened = load, opened
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self.recalls: Sequence[tuple[str, CollectionRecall]] = ()
        """Each with its tenant."""
        self.queue: QueueState | None = None
        """None: not read yet, or not visible to the login."""
        self.is_up: bool | None = None
        """Whether the database answered; None: not called yet."""

    async def refresh(self) -> None:
        """Read the figures again if they are old."""
        async with self._reading:
            now, platforms = time.monotonic(), self._opened()
            if self._read_at is not None and now - self._read_at < EVERY_SECONDS:
                return
            if not platforms:
                self.is_up = False
                return
            try:
                await within(self._read(platforms), WITHIN_SECONDS)
                self.is_up, self._read_at = True, now
            except (RetrievalError, LateError) as error:
                self.is_up = False  # the database may be back at the next refresh
                reason = "it took too long" if isinstance(error, LateError) else error
                _log.info("the figures of the metrics were not read: %s", reason)

    async def _read(self, platforms: Sequence[Platform]) -> None:
        recalls: list[tuple[str, CollectionRecall]] = []
        for platform in platforms[:MOST_TENANTS]:
            room = MOST_COLLECTIONS - len(recalls)
            lowest = await lowest_recalls(platform.database, platform.tenant_id, room) if room > 0 else ()
            recalls += [(platform.settings.tenant, recall) for recall in lowest]
        host = platforms[0]
        # A worker reports that it is alive three times within that time.
        self.queue = await read_queue_state(host.database, alive_seconds=2 * host.settings.worker_stalled_seconds)
        self.recalls = recalls

    def collect(self) -> Iterator[Metric]:
        """All metrics; an unknown metric has no value."""
        load, platforms = self._load, self._opened()
        pool = platforms[0].database.pool if platforms else _NO_POOL
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        waiting = sum(platform.recording.waiting for platform in platforms)
        yield gauge("retrieval_http_requests_in_flight", "Requests in progress.", load.in_flight)
        yield gauge("retrieval_http_requests_limit", "Greatest number of concurrent requests.", load.limit)
        yield counter("retrieval_http_requests_shed", "Requests refused for lack of room.", load.shed)
        yield gauge("retrieval_pool_connections_limit", "Greatest number of connections in the pool.", pool.most)
        yield gauge("retrieval_pool_connections", "Open connections.", pool.open)
        yield gauge("retrieval_pool_connections_idle", "Open connections that are not in use.", pool.idle)
        yield gauge("retrieval_pool_waiting", "Calls that wait for a connection.", pool.waiting)
        yield counter("retrieval_pool_timeouts", "Calls that timed out waiting for a connection.", pool.timeouts)
        yield counter(
            "retrieval_pool_wait_seconds", "Total time that calls waited for a connection.", pool.wait_seconds
        )
        yield gauge("retrieval_recordings_waiting", "Searches that wait to be recorded.", waiting)
        replicas = platforms[0].database.replicas if platforms else None
        yield from _of_replicas([] if replicas is None else replicas.states)
        yield from self._of_database()

    def _of_database(self) -> Iterator[Metric]:
        up: _Samples = [] if self.is_up is None else [([], float(self.is_up))]
        yield _labelled("retrieval_database_up", "Whether the database answered at the last refresh.", (), up)
        labelled = [((tenant, recall.collection), recall) for tenant, recall in self.recalls]
        whose, text = ("tenant", "collection"), "Last measured recall, for the filters with the lowest."
        yield _labelled("retrieval_recall", text, whose, ((labels, state.recall) for labels, state in labelled))
        name, text = "retrieval_recall_measured_timestamp_seconds", "Time of that measurement, in seconds since 1970."
        yield _labelled(name, text, whose, ((labels, state.measured_at.timestamp()) for labels, state in labelled))
        queue = self.queue
        jobs = [] if queue is None else sorted(queue.jobs.items())
        yield _labelled("retrieval_jobs", "Jobs by queue and status: todo, doing, failed.", ("queue", "status"), jobs)
        workers: _Samples = [] if queue is None else [([], queue.workers)]
        yield _labelled("retrieval_workers", "Workers that are alive.", (), workers)


def _labelled(name: str, text: str, labels: Sequence[str], samples: _Samples) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _of_replicas(replicas: Sequence[ReplicaState]) -> Iterator[Metric]:
    numbered = [(str(number), replica) for number, replica in enumerate(replicas, 1)]
    used = (([number], float(not state.passed_over)) for number, state in numbered)
    yield _labelled("retrieval_replica_used", "Whether searches read from the replica.", ["replica"], used)
    lag = (([number], state.lag_seconds) for number, state in numbered if state.lag_seconds is not None)
    text = "Age of the newest commit that the replica is known to have."
    yield _labelled("retrieval_replica_lag_seconds", text, ["replica"], lag)


REQUEST_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The histogram's bounds for requests."""

STAGE_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The histogram's bounds for the stages of a search."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""The methods that become labels; others become ``OTHER``, because a client may send any word."""


class Metrics:
    """The metrics of the service, which observe the platform and each request; ``registry`` holds them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        # Cached: a histogram looks its labels up under a lock.
        self._request = cache(
            Histogram(
                "retrieval_http_request_duration_seconds",
                "Duration of requests, from their headers to the end of the response.",
                ("method", "route", "status"),
                buckets=REQUEST_SECONDS,
                registry=self.registry,
            ).labels
        )
        self._stage = cache(
            Histogram(
                "retrieval_search_duration_seconds",
                "Duration of each stage of a search, and of all (total), by the path of the dense leg.",
                ("stage", "path"),
                buckets=STAGE_SECONDS,
                registry=self.registry,
            ).labels
        )
        self._searches = self._counter("retrieval_searches", "Searches, by the path of the dense leg.", "path")
        self._noted = self._counter(
            "retrieval_searches_noted", "Searches whose results have notes, for example about a leg that could not run."
        )
        self._feedback = self._counter(
            "retrieval_feedback_events", "Events of feedback: recorded, repeated, or stored without weight.", "outcome"
        )
        self._recorded = self._counter("retrieval_recorded_searches", "Searches that were recorded.")
        self._lost = self._counter("retrieval_unrecorded_searches", "Searches that were not recorded.", "reason")
        info = Gauge("retrieval_build_info", "The version, as a label; always 1.", ("version",), registry=self.registry)
        info.labels(installed_version() or "unknown").set(1)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a finished request; ``route`` is the route's template, empty if none matched."""
        self._request(method if method in METHODS else "OTHER", route or "none", status).observe(seconds)

    def searched(self, results: Sequence[SearchResult]) -> None:
        """Count the searches of one call; the call's stages count once."""
        path = results[0].path.value
        for stage, milliseconds in results[0].timings_ms.items():
            self._stage(stage, path).observe(milliseconds / 1e3)
        for result in results:
            self._searches.labels(result.path.value).inc()
            if result.notes:
                self._noted.inc()

    def rewarded(self, report: FeedbackReport) -> None:
        """Count the events of feedback."""
        discounted = sum(report.discounted.values())
        for outcome, number in (
            ("recorded", report.recorded - discounted),
            ("repeated", report.repeated),
            ("discounted", discounted),
        ):
            if number:
                self._feedback.labels(outcome).inc(number)

    def recorded(self, searches: int) -> None:
        """Count searches that were recorded."""
        self._recorded.inc(searches)

    def unrecorded(self, reason: str) -> None:
        """Count a search that was not recorded."""
        self._lost.labels(reason).inc()


HEADER = b"x-request-id"

_SANE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")

_CURRENT: ContextVar[str] = ContextVar("retrieval_request_id", default="")

set_request_id, reset_request_id = _CURRENT.set, _CURRENT.reset


def current_request_id() -> str:
    """The id of the request in progress; empty outside of a request."""
    return _CURRENT.get()


def request_id_of(header: bytes | None) -> str:
    """The id in the request's header, if it is safe in a log; otherwise a new one."""
    text = "" if header is None else header.decode("latin-1")
    return text if text and _SANE.fullmatch(text) else secrets.token_hex(16)


SECRET = "[secret]"  # noqa: S105 - a placeholder

_PARAMETER = re.compile(r"((?:ssl)?password=)('[^']*'|[^\s&;'\"]+)", re.IGNORECASE)
_SECRETS = (
    re.compile(r"(rtv_[A-Za-z0-9]{12}_)[A-Za-z0-9_-]+"),  # an API key, whose id may be logged
    re.compile(r"(://[^\s:/@]*:)[^\s/@]+(?=@)"),
    _PARAMETER,
)
"""Each pattern's first group is kept."""


class Redaction:
    """Replaces secrets in a text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # Shorter secrets would match parts of ordinary words.
        known = {secret for secret in secrets if len(secret) >= 4}
        known |= {json.dumps(secret, ensure_ascii=False)[1:-1] for secret in known}  # as in a line of JSON
        longest_first = sorted(known, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    @classmethod
    def of(cls, settings: Settings) -> Redaction:
        """Redacts every secret of the settings, and the password in the database's URL."""
        values = [getattr(settings, name) for name in type(settings).model_fields]
        secrets = [value.get_secret_value() for value in values if isinstance(value, SecretStr)]
        url = settings.database_url.get_secret_value() if settings.database_url else ""
        return cls([*secrets, *_passwords(url)])

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        if self._known is not None:
            text = self._known.sub(SECRET, text)
        for secret in _SECRETS:
            text = secret.sub(rf"\1{SECRET}", text)
        return text


class ServiceFormatter(logging.Formatter):
    """Formats a log record as a line without secrets, as JSON or text.

    JSON: one object per line with ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, ``request_id``, and the
    fields in the record's ``fields``. Text: ``12:30:01.250 INFO retrieval.access POST /v1/... 200 ms=3.1 ...``.
    """

    def __init__(self, redaction: Redaction, *, as_json: bool, debug: bool = False) -> None:
        super().__init__()
        self._redaction = redaction
        self._as_json = as_json
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        """One line for any record; in the text format a traceback follows on separate lines."""
        at, message = datetime.fromtimestamp(record.created, UTC), record.getMessage()
        fields = {"request_id": current_request_id() or None, **getattr(record, "fields", {})}
        trace = _traceback(record, debug=self._debug) if record.exc_info else None
        if self._as_json:
            line = {
                "time": at.isoformat(timespec="milliseconds"),
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": message,
                **fields,
                **({} if trace is None else {"traceback": trace}),
            }
            return self._redaction(json.dumps(line, ensure_ascii=False, default=str))
        shown = [f"{name}={value}" for name, value in fields.items() if value not in (None, "", [])]
        words = [at.strftime("%H:%M:%S.%f")[:-3], record.levelname, record.name, *message.split(), *shown]
        return self._redaction("\n".join([" ".join(words), *([] if trace is None else [trace])]))


def configure_service_logging(settings: Settings, *, as_json: bool, debug: bool = False) -> None:
    """Send the process's log records to standard error as lines of JSON, or of text.

    They are the package's from INFO on, and libraries' from WARNING on; with ``debug`` all from INFO on.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(ServiceFormatter(Redaction.of(settings), as_json=as_json, debug=debug))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO if debug else logging.WARNING)
    logging.getLogger("retrieval").setLevel(logging.INFO)


def _passwords(url: str) -> list[str]:
    """The passwords in the database's URL, encoded and decoded."""
    passwords = [match[1] for match in re.finditer(r"://[^:/@]*:(.+)@", url)]
    passwords += [match[2] for match in _PARAMETER.finditer(url)]
    return [*passwords, *map(unquote, passwords)]


def _traceback(record: logging.LogRecord, *, debug: bool) -> str:
    """The traceback of an error, without messages unless debugging: a message may quote the query."""
    lines: list[str] = []
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        message = f": {error}" if debug else ""
        lines.append(f"{type(error).__module__}.{type(error).__qualname__}{message}")
        lines += [
            f"  {frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
        ]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(lines)
