"""How many requests a minute: a bucket of tokens for each key, refilled steadily.

A bucket holds a tenth of a minute's allowance, at least ten requests and never more than a minute's: so much may come
at once. It starts full. The buckets are bounded: of very many, the one that was used longest ago is forgotten, and is
full again.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from retrieval.engine.stopwatch import Clock

MOST_BUCKETS = 10_000

RATE_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
"""Requests a minute, requests that may still be made at once, and seconds until as many as ever may be."""

_LEAST_BURST = 10


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a key may do now."""

    wait_seconds: float
    """0: the request may go on; else it may be made again so much later."""
    limit: int
    """Requests a minute."""
    remaining: int
    """Requests that may still be made at once."""
    reset_seconds: int
    """When as many as ever may be made at once."""

    def headers(self) -> dict[str, str]:
        """As a client is told."""
        return dict(zip(RATE_HEADERS, map(str, (self.limit, self.remaining, self.reset_seconds)), strict=True))


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimits:
    """The buckets of a process; ``clock`` gives seconds that only ever rise."""

    def __init__(self, clock: Clock, *, most_buckets: int = MOST_BUCKETS) -> None:
        self._clock = clock
        self._most = most_buckets
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, key_id: str, per_minute: int) -> Allowance:
        """Take one token from the key's bucket, if it holds one."""
        return self._asked(key_id, per_minute, wanted=1)

    def look(self, key_id: str, per_minute: int) -> Allowance:
        """The same without taking it."""
        return self._asked(key_id, per_minute, wanted=0)

    def __len__(self) -> int:
        return len(self._buckets)

    def _asked(self, key_id: str, per_minute: int, *, wanted: int) -> Allowance:
        size, rate = burst(per_minute), per_minute / 60
        now = self._clock()
        bucket = self._bucket(key_id, size, now)
        tokens = min(size, bucket.tokens + (now - bucket.at) * rate)
        wait = max(0.0, (1 - tokens) / rate)
        if wait == 0:
            tokens -= wanted
        bucket.tokens, bucket.at = tokens, now
        return Allowance(wait, per_minute, int(tokens), math.ceil((size - tokens) / rate))

    def _bucket(self, key_id: str, size: int, now: float) -> _Bucket:
        bucket = self._buckets.get(key_id)
        if bucket is None:
            bucket = self._buckets[key_id] = _Bucket(size, now)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key_id)
        return bucket


def burst(per_minute: int) -> int:
    """How many requests may come at once."""
    return min(per_minute, max(_LEAST_BURST, per_minute // 10))
