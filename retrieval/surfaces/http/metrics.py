"""What Prometheus is told: counted while it happens, in a registry of the application's own.

Labels are few and known beforehand: routes as they are written, never paths; names of stages, never of items.
"""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.process_collector import ProcessCollector

from retrieval.domain.feedback import FeedbackReport
from retrieval.domain.hit import Path, SearchResult
from retrieval.surfaces.version import installed_version

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
        """So many searches were recorded."""
        self._recorded.inc(searches)

    def unrecorded(self, reason: str) -> None:
        """A search was not recorded."""
        self._lost.labels(reason).inc()
