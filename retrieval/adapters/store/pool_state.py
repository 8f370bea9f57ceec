"""How the pool of connections stands, for who watches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """The pool now, and what it counted since it was opened."""

    most: int
    """The most connections that it opens."""
    open: int
    """Connections that are open."""
    idle: int
    """Those of them that nobody uses."""
    waiting: int
    """Calls that wait for one."""
    timeouts: int
    """Calls that waited in vain, or were turned away because too many waited."""
    wait_seconds: float
    """What all calls together waited."""

    @property
    def is_exhausted(self) -> bool:
        """Whether every connection that there may be is in use."""
        return self.open >= self.most and not self.idle

    @classmethod
    def of(cls, counted: Mapping[str, int]) -> PoolState:
        """From what the driver's pool counts; it leaves out what is 0."""
        return cls(
            most=counted.get("pool_max", 0),
            open=counted.get("pool_size", 0),
            idle=counted.get("pool_available", 0),
            waiting=counted.get("requests_waiting", 0),
            timeouts=counted.get("requests_errors", 0),
            wait_seconds=counted.get("requests_wait_ms", 0) / 1e3,
        )
