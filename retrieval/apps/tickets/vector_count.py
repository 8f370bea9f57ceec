"""How many vectors there are, without counting them for every search."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

_TRUSTED_A_SECOND = 20_000
"""Vectors for each second that a count is trusted: counting 100,000 takes some 30 ms, and happens every 5 s at most."""


class VectorCount:
    """Remembers a count for a time that grows with it; a small one is as good as new."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._number = 0
        self._until = clock()

    async def read(self, count: Callable[[], Awaitable[int]]) -> int:
        """The number of vectors; ``count`` counts them when the last one is too old."""
        if self._clock() >= self._until:
            self._number = await count()
            self._until = self._clock() + self._number / _TRUSTED_A_SECOND
        return self._number

    def forget(self) -> None:
        """Count again next time."""
        self._until = self._clock()
