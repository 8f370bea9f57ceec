"""The clocks, and the stages of a search: the time of each, and a span for each where spans are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from retrieval.adapters.tracing import SpanContext, span

if TYPE_CHECKING:
    from retrieval.adapters.store.items.collections import StoredCollection
    from retrieval.adapters.store.search.candidate_request import CandidateRequest
    from retrieval.adapters.store.search.candidates import LegResults
    from retrieval.domain.search.hit import SearchResult

Clock = Callable[[], float]
"""Returns seconds that never decrease; a wall clock: seconds since 1970."""


def moment(seconds: float) -> datetime:
    """The time that many seconds after 1970, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def utc_now() -> datetime:
    """The current time in UTC."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Stages:
    """A context manager that measures the milliseconds of each stage; a stage ends where the next begins."""

    clock: Clock
    search_span: Span | None
    """None: no spans are recorded."""
    laps: dict[str, float] = field(default_factory=dict)
    started: float = field(init=False)
    last: float = field(init=False)
    _lap: str = ""
    _open: SpanContext | None = None

    def __enter__(self) -> Self:
        self.started = self.last = self.clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            self._open.__exit__(kind, error, trace)

    def begin(self, name: str, lap: str = "") -> Span | None:
        """End the current stage and begin the next; returns its span, None if spans are not recorded.

        ``lap``: the name under which its time is added up; empty: the stage is not timed.
        """
        now = self.clock()
        if self._lap:
            self.laps[self._lap] = self.laps.get(self._lap, 0.0) + (now - self.last) * 1e3
            self.last = now
        self._lap = lap
        if self.search_span is None:
            return None
        if self._open is not None:
            self._open.__exit__(None, None, None)
        self._open = span(name)
        return self._open.__enter__()

    def timings(self) -> Mapping[str, float]:
        """The milliseconds of every finished stage, and the total."""
        timings = {lap: round(milliseconds, 3) for lap, milliseconds in self.laps.items()}
        timings["total"] = round((self.last - self.started) * 1e3, 3)
        return timings


def trace_search(root: Span, tenant_id: int, collection: StoredCollection, results: Sequence[SearchResult]) -> None:
    """Set the tenant, the number of searches, the path and the results as attributes of the span."""
    first = results[0]
    root.set_attributes(
        {
            "retrieval.tenant_id": tenant_id,
            "retrieval.collection": collection.name,
            "retrieval.profile_version": first.profile_version or 0,
            "retrieval.searches": len(results),
            "retrieval.path": first.path.value,
            "retrieval.why": first.why,
            "retrieval.weighed": first.weighed,
            "retrieval.hits": sum(len(result) for result in results),
            "retrieval.notes": len(first.notes),
        }
    )
    if first.retrieval_id is not None:
        root.set_attribute("retrieval.retrieval_id", str(first.retrieval_id))


def trace_candidates(leg_span: Span, request: CandidateRequest, each: Sequence[LegResults]) -> None:
    """Add an event to the span for each leg, because one statement finds the candidates of all legs."""
    leg_span.set_attributes(
        {
            "retrieval.legs": sorted({leg for leg_results in each for leg in leg_results.rankings}),
            "retrieval.depth": request.depth,
            "retrieval.effort": request.effort,
            "retrieval.filtered": request.condition is not None,
            "retrieval.fell_short": any(leg_results.fell_short for leg_results in each),
        }
    )
    for leg_results in each:
        for leg, candidates in leg_results.rankings.items():
            attributes: dict[str, AttributeValue] = {"retrieval.leg": leg, "retrieval.candidates": len(candidates)}
            if leg.startswith("dense"):
                attributes |= {"retrieval.path": leg_results.path.value, "retrieval.weighed": leg_results.weighed}
            leg_span.add_event("leg", attributes)
