"""What plain counts say of an item."""

from __future__ import annotations

import pytest

from retrieval.domain.expectation import Expectation


@pytest.mark.parametrize(
    ("uses", "successes", "mean", "sd"), [(0, 0, 0.5, 12**-0.5), (1, 1, 2 / 3, 18**-0.5), (8, 2, 0.3, 0.1382)]
)
def test_counts_are_a_beta_distribution(uses: int, successes: int, mean: float, sd: float) -> None:
    """Beta(successes + 1, failures + 1): one half and all uncertainty without verdicts."""
    found = Expectation.of_counts(uses, successes)
    assert (found.mean, found.sd) == pytest.approx((mean, sd), abs=1e-4)
    assert (found.uses, found.effective_sample_size) == (uses, uses)
