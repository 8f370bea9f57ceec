"""The rule by which a candidate proves itself by use: one for every application that learns."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

LEAST_TO_PROVE: Final = 3
PROVED_FROM: Final = 0.6
LEAST_TO_FAIL: Final = 5
FAILED_BELOW: Final = 0.3


class ProbationVerdict(StrEnum):
    """The verdict of a candidate's use so far."""

    PROVED = "proved"
    FAILED = "failed"
    OPEN = "open"


def expected_success(uses: int, successes: float) -> float:
    """The mean of Beta(successes + 1, failures + 1), in (0, 1): .5 without a use (Laplace's rule of succession)."""
    return (successes + 1.0) / (uses + 2.0)


def probation(uses: int, successes: float) -> ProbationVerdict:
    """Judges a candidate by `uses` verdicts, `successes` (0 to `uses`) of them good.

    Proved from 3 uses on with an expected success of at least .6, failed from 5 uses on with one below .3. Failing
    takes more uses than proving, since what failed is not shown any more and cannot recover.
    """
    expected = expected_success(uses, successes)
    if uses >= LEAST_TO_PROVE and expected >= PROVED_FROM:
        return ProbationVerdict.PROVED
    if uses >= LEAST_TO_FAIL and expected < FAILED_BELOW:
        return ProbationVerdict.FAILED
    return ProbationVerdict.OPEN
