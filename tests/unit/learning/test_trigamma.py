"""The trigamma function."""

from __future__ import annotations

import numpy as np
from scipy.special import polygamma

from retrieval.learning.trigamma import trigamma


def test_it_equals_scipys_from_tiny_to_huge_numbers() -> None:
    """Within 1e-9, relatively."""
    values = np.logspace(-5, 7, 200)

    assert np.allclose(trigamma(values), polygamma(1, values), rtol=1e-9)
