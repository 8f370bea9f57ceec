"""How honest predictions are: log-loss, expected calibration error, coverage of intervals."""

from __future__ import annotations

import numpy as np

from retrieval.domain.errors import InvalidRequestError
from retrieval.learning.arm_table import Floats
from retrieval.learning.logit import EDGE


def log_losses(predicted: Floats, rewards: Floats) -> Floats:
    """-(r ln p + (1 - r) ln(1 - p)) of each pair, (n,); p is kept a millionth away from 0 and 1."""
    _check(predicted, rewards)
    kept = np.clip(predicted, EDGE, 1 - EDGE)
    return np.asarray(-(rewards * np.log(kept) + (1 - rewards) * np.log1p(-kept)), dtype=np.float64)


def log_loss(predicted: Floats, rewards: Floats, weights: Floats | None = None) -> float:
    """The weighted mean of ``log_losses``. Raises ``InvalidRequestError`` for none, or for lengths that differ."""
    return float(np.average(log_losses(predicted, rewards), weights=weights))


def calibration_error(predicted: Floats, rewards: Floats, bins: int = 10) -> float:
    """The expected calibration error over bins of equal size, 0 to 1.

    Mean over bins of |mean prediction - mean reward| (Naeini, Cooper and Hauskrecht, AAAI 2015). Equal predictions may
    fall into neighbouring bins. Raises ``InvalidRequestError`` for none, or for lengths that differ.
    """
    _check(predicted, rewards)
    order = np.argsort(predicted, kind="stable")
    gaps = [
        len(rows) * abs(float(predicted[rows].mean() - rewards[rows].mean()))
        for rows in np.array_split(order, min(bins, len(order)))
    ]
    return sum(gaps) / len(order)


def intervals(means: Floats, sizes: Floats, share: float = 0.9) -> tuple[Floats, Floats]:
    """The ends of the central interval of each Beta distribution, by its mean and effective sample size."""
    from scipy.special import betaincinv

    outside = (1.0 - share) / 2.0
    low, high = (betaincinv(means * sizes, (1.0 - means) * sizes, part) for part in (outside, 1.0 - outside))
    return low, high


def interval_coverage(means: Floats, sizes: Floats, true_rates: Floats, share: float = 0.9) -> float:
    """The share of true rates, 0 to 1, inside ``intervals``. They are known in simulations alone."""
    _check(means, true_rates)
    low, high = intervals(means, sizes, share)
    return float(((low <= true_rates) & (true_rates <= high)).mean())


def _check(first: Floats, second: Floats) -> None:
    if not len(first) or len(first) != len(second):
        raise InvalidRequestError(f"there are {len(first)} predictions and {len(second)} rewards; give one for each")
