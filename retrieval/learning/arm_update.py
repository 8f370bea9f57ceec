"""An arm with one more event: the pure form of what the store does for many at once."""

from __future__ import annotations

from datetime import datetime

from retrieval.domain.arm import Arm
from retrieval.domain.errors import InvalidRequestError

SUCCESS_FROM = 0.5
"""The least reward that counts as a raw success."""


def updated(arm: Arm, reward: float, *, weight: float = 1.0, decay: float = 1.0, at: datetime | None = None) -> Arm:
    """The arm after an event with that reward, 0 to 1.

    ``decay``, above 0 and at most 1, is what the arm's evidence is still worth at the moment that the result is of:
    2^(-time passed / half-life). An event that is older than that moment decays in its ``weight``, which is at least
    0; so events may come in any order (forward decay: Cormode et al., ICDE 2009). Weight 0 counts nothing.

    Raises ``InvalidRequestError`` for a number outside its range.
    """
    _check(reward, weight, decay)
    if weight == 0:
        return arm._replace(successes=arm.successes * decay, failures=arm.failures * decay)
    return Arm(
        successes=arm.successes * decay + weight * reward,
        failures=arm.failures * decay + weight * (1 - reward),
        uses=arm.uses + 1,
        raw_successes=arm.raw_successes + (reward >= SUCCESS_FROM),
        last_used_at=_later(arm.last_used_at, at),
    )


def _check(reward: float, weight: float, decay: float) -> None:
    if not 0 <= reward <= 1:
        raise InvalidRequestError(f"reward is {reward}; it must be a number from 0 to 1")
    if not 0 <= weight < float("inf"):
        raise InvalidRequestError(f"weight is {weight}; it must be a number of at least 0")
    if not 0 < decay <= 1:
        raise InvalidRequestError(f"decay is {decay}; it must be above 0 and at most 1")


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    if one is None or other is None:
        return one or other
    return max(one, other)
