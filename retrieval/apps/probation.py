"""The rule that accepts or rejects a candidate by its use: the same for every application that learns."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

LEAST_TO_PROVE: Final = 3
PROVED_FROM: Final = 0.6
LEAST_TO_FAIL: Final = 5
FAILED_BELOW: Final = 0.3


class ProbationVerdict(StrEnum):
    """The verdict on a candidate, from its use so far."""

    PROVED = "proved"
    FAILED = "failed"
    OPEN = "open"


def expected_success(uses: int, successes: float) -> float:
    """The mean of Beta(successes + 1, failures + 1), in (0, 1): 0.5 without a use (Laplace's rule of succession)."""
    return (successes + 1.0) / (uses + 2.0)


def probation(uses: int, successes: float) -> ProbationVerdict:
    """Judges a candidate by `uses` verdicts, `successes` (0 to `uses`) of them good.

    It is proved after at least 3 uses with an expected success of at least 0.6, and failed after at least 5 uses with
    one below 0.3. Failing takes more uses than proving, because a failed candidate is not shown again and cannot
    recover.
    """
    expected = expected_success(uses, successes)
    if uses >= LEAST_TO_PROVE and expected >= PROVED_FROM:
        return ProbationVerdict.PROVED
    if uses >= LEAST_TO_FAIL and expected < FAILED_BELOW:
        return ProbationVerdict.FAILED
    return ProbationVerdict.OPEN
