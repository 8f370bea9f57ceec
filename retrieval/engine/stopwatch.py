"""Measures the time of each stage of a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Clock = Callable[[], float]
"""Seconds that only ever rise."""


@dataclass(slots=True)
class Stopwatch:
    """Milliseconds by stage."""

    clock: Clock
    laps: dict[str, float] = field(default_factory=dict)
    started: float = field(init=False)
    last: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.last = self.clock()

    def lap(self, stage: str) -> None:
        """The stage ends now; a stage that comes again adds up."""
        now = self.clock()
        self.laps[stage] = round(self.laps.get(stage, 0.0) + (now - self.last) * 1e3, 3)
        self.last = now

    def total(self) -> Mapping[str, float]:
        """Every stage, and all together."""
        return {**self.laps, "total": round((self.last - self.started) * 1e3, 3)}
