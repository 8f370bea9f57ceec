"""The expected reward by plain counts."""

from __future__ import annotations

import pytest

from retrieval.domain.learning.arm import Expectation


@pytest.mark.parametrize(
    ("uses", "successes", "mean", "sd"), [(0, 0, 0.5, 12**-0.5), (1, 1, 2 / 3, 18**-0.5), (8, 2, 0.3, 0.1382)]
)
def test_counts_are_a_beta_distribution(uses: int, successes: int, mean: float, sd: float) -> None:
    """Beta(successes + 1, failures + 1): one half and all uncertainty without verdicts."""
    expectation = Expectation.of_counts(uses, successes)
    assert (expectation.mean, expectation.sd) == pytest.approx((mean, sd), abs=1e-4)
    assert (expectation.uses, expectation.effective_sample_size) == (uses, uses + 2)
    assert expectation.sd**2 == pytest.approx(
        expectation.mean * (1 - expectation.mean) / (expectation.effective_sample_size + 1)
    )


def test_uncertainty_is_the_deviation_at_one_half_and_falls_with_every_use() -> None:
    """Whereas a failure after many successes raises the deviation: Beta(100, 1) has .0098, Beta(100, 2) .0137."""
    assert Expectation.of_counts(0, 0).uncertainty == pytest.approx(Expectation.of_counts(0, 0).sd)
    surest, surprised = Expectation.of_counts(99, 99), Expectation.of_counts(100, 99)
    assert (surest.sd, surprised.sd) == pytest.approx((0.0098, 0.0137), abs=1e-4)
    assert surest.sd < surest.uncertainty
    assert surprised.uncertainty < surest.uncertainty
