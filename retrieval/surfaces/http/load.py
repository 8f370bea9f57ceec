"""How many requests are being answered, and how many were turned away because of that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Load:
    """Counted by the service for itself: one process, one loop."""

    limit: int
    """Requests that are answered at the same time, at most."""
    in_flight: int = 0
    shed: int = 0
    """Turned away for want of room."""

    def enter(self) -> bool:
        """Whether there is room; who got in has to ``leave``."""
        if self.in_flight >= self.limit:
            self.shed += 1
            return False
        self.in_flight += 1
        return True

    def leave(self) -> None:
        """Make room."""
        self.in_flight -= 1
