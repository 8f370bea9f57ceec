"""The quality of predictions, as log-loss and calibration error; and the rate before each event. Pure.

The logistic model learns from the rate before each event, so that it does not see the event's reward.

Rates from all *other* events, before and after, would reveal it: with an effect of the item in the model, the total
without the event determines the event's own reward, and the slope becomes negative.
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
    """-(r ln p + (1 - r) ln(1 - p)) of each pair, (n,); p is clipped to a millionth from 0 and 1."""
    _check(predicted, rewards)
    clipped = np.clip(predicted, EDGE, 1 - EDGE)
    return np.asarray(-(rewards * np.log(clipped) + (1 - rewards) * np.log1p(-clipped)), dtype=np.float64)


def calibration_error(predicted: Floats, rewards: Floats) -> float:
    """The expected calibration error over ten bins of equal size, 0 to 1.

    Mean over bins of |mean prediction - mean reward| (Naeini, Cooper and Hauskrecht, AAAI 2015). Equal predictions may
    fall into neighbouring bins. Raises ``InvalidRequestError`` for empty arrays, or for different lengths.
    """
    _check(predicted, rewards)
    order = np.argsort(predicted, kind="stable")
    gaps = [
        len(rows) * abs(float(predicted[rows].mean() - rewards[rows].mean()))
        for rows in np.array_split(order, min(10, len(order)))
    ]
    return sum(gaps) / len(order)


def _check(first: Floats, second: Floats) -> None:
    if not len(first) or len(first) != len(second):
        raise InvalidRequestError(f"there are {len(first)} predictions and {len(second)} rewards; give one for each")


CUTS = (0.1, 0.25, 0.5, 0.75, 1.0)
"""The shares of the events at which a model is fitted, which predicts the events up to the next cut."""


def rates_before(events: Sequence[Event], clusters: Mapping[str, int]) -> Floats:
    """The shrunk rate of each event's item in its context, from earlier events only, (events,).

    ``events`` are in order of time. NaN for the first tenth, which has too few events before it.
    """
    rates = np.full(len(events), np.nan)
    ends = [round(cut * len(events)) for cut in CUTS]
    for start, end in pairwise(ends):
        before = arms_of(events[:start], clusters)
        model = fit_shrinkage(arm_table(before))
        arms = {item.item_id: item for item in before}
        for contexts, rows in _by_context(events, start, end).items():
            ids = [events[row].item_id for row in rows]
            items = [arms.get(item) or ItemArms(item_id=item, cluster=clusters.get(item)) for item in ids]
            rates[rows] = sigmoid(posterior(model, contexts, items).logit_mean)
    return rates


def _by_context(events: Sequence[Event], start: int, end: int) -> dict[tuple[str, ...], list[int]]:
    rows_by_context: dict[tuple[str, ...], list[int]] = {}
    for row in range(start, end):
        rows_by_context.setdefault(events[row].contexts, []).append(row)
    return rows_by_context
