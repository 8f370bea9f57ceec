"""Each event's shrunk rate as it was before the event.

So the logistic model learns from it without seeing the answer.

Rates from *other* events, before and after, would not do: beside an effect of the item they tell what this event's own
reward must have been (the rest is the total without it), and the slope turns negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from retrieval.domain.arm import ItemArms
from retrieval.learning.arm_table import Floats, arm_table
from retrieval.learning.event import Event, arms_of
from retrieval.learning.logit import sigmoid
from retrieval.learning.shrinkage import posterior
from retrieval.learning.shrinkage_fit import fit_shrinkage

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
