"""Whether slates were drawn as often as their propensities say, by a chi-square test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

Floats = NDArray[np.float64]


def p_value(counts: Floats, expected: Floats, covariance: Floats) -> float:
    """How probable counts at least so far from the expected ones are, where the propensities are right.

    ``counts`` and ``expected`` have the shape (candidates,), ``covariance`` is that of the counts. Slates may each have
    had other propensities: what was drawn minus its probability adds up to 0 on average, and so do the covariances.
    """
    off = counts - expected
    degrees = int(np.linalg.matrix_rank(covariance, hermitian=True))
    return float(chi2.sf(off @ np.linalg.pinv(covariance, hermitian=True) @ off, degrees))


def covariance_of_one(joint: Floats) -> Floats:
    """Of one drawing, whose ``joint[i, j]`` is the probability that i and j are both drawn."""
    single = np.diag(joint)
    return joint - np.outer(single, single)
