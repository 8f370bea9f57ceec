"""The calibration of predictions: log-loss and calibration error; and each event's rate before it. Pure.

The logistic model learns from the rate before each event, without seeing the answer.

Rates from *other* events, before and after, would not do: beside an effect of the item they tell what this event's own
reward must have been (the rest is the total without it), and the slope turns negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.arm import ItemArms
from retrieval.learning.arm_table import Floats, arm_table
from retrieval.learning.examples import Event, arms_of
from retrieval.learning.logit import EDGE, sigmoid
from retrieval.learning.shrinkage import fit_shrinkage, posterior


def log_losses(predicted: Floats, rewards: Floats) -> Floats:
    """-(r ln p + (1 - r) ln(1 - p)) of each pair, (n,); p is kept a millionth away from 0 and 1."""
    _check(predicted, rewards)
    kept = np.clip(predicted, EDGE, 1 - EDGE)
    return np.asarray(-(rewards * np.log(kept) + (1 - rewards) * np.log1p(-kept)), dtype=np.float64)


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


def _check(first: Floats, second: Floats) -> None:
    if not len(first) or len(first) != len(second):
        raise InvalidRequestError(f"there are {len(first)} predictions and {len(second)} rewards; give one for each")


CUTS = (0.1, 0.25, 0.5, 0.75, 1.0)
"""The model of the events up to each cut says what to expect of those up to the next."""


def rates_before(events: Sequence[Event], clusters: Mapping[str, int]) -> Floats:
    """The shrunk rate of each event's item in its context by earlier events alone, (events,).

    ``events`` stand in order of time. NaN for the first tenth: there is hardly anything before.
    """
    found = np.full(len(events), np.nan)
    ends = [round(cut * len(events)) for cut in CUTS]
    for start, end in pairwise(ends):
        before = arms_of(events[:start], clusters)
        model = fit_shrinkage(arm_table(before))
        arms = {item.item_id: item for item in before}
        for contexts, rows in _by_context(events, start, end).items():
            ids = [events[row].item_id for row in rows]
            items = [arms.get(item) or ItemArms(item_id=item, cluster=clusters.get(item)) for item in ids]
            found[rows] = sigmoid(posterior(model, contexts, items).logit_mean)
    return found


def _by_context(events: Sequence[Event], start: int, end: int) -> dict[tuple[str, ...], list[int]]:
    found: dict[tuple[str, ...], list[int]] = {}
    for row in range(start, end):
        found.setdefault(events[row].contexts, []).append(row)
    return found
