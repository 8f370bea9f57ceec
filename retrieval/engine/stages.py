"""The clocks, and the stages of a search: the time of each, and a span for each where spans are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from opentelemetry.trace import Span

from retrieval.adapters.tracing import SpanContext, span

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
