"""The rule by which a candidate proves itself."""

from __future__ import annotations

import pytest

from retrieval.apps.probation import ProbationVerdict, expected_success, probation


@pytest.mark.parametrize(
    ("uses", "successes", "verdict"),
    [
        (0, 0, ProbationVerdict.OPEN),
        (2, 2, ProbationVerdict.OPEN),
        (3, 3, ProbationVerdict.PROVED),
        (3, 2, ProbationVerdict.PROVED),
        (4, 2, ProbationVerdict.OPEN),
        (4, 0, ProbationVerdict.OPEN),
        (5, 0, ProbationVerdict.FAILED),
        (5, 1, ProbationVerdict.FAILED),
        (6, 1, ProbationVerdict.FAILED),
        (5, 2, ProbationVerdict.OPEN),
        (100, 59, ProbationVerdict.OPEN),
        (100, 61, ProbationVerdict.PROVED),
    ],
)
def test_three_uses_can_prove_and_five_can_fail(uses: int, successes: int, verdict: ProbationVerdict) -> None:
    """Proved with an expected success of at least .6, failed with one below .3."""
    assert probation(uses, successes) is verdict


def test_without_a_use_one_half_is_expected() -> None:
    """Even n of n uses never make success certain."""
    assert expected_success(0, 0) == 0.5
    assert expected_success(8, 8) == 0.9
