"""The hybrid score of tickets, said as a profile."""

from __future__ import annotations

from retrieval.apps.tickets.config import TOP_K
from retrieval.apps.tickets.ticket_item import HOURS, PRIORITY, RESOLVED_AT
from retrieval.apps.tickets.weights import (
    NORMALIZATION_HOURS,
    PRIORITY_SHARE,
    TIME_SHARE,
    UNKNOWN,
    UNKNOWN_HOURS,
    PriorityWeights,
    weights_of,
)
from retrieval.domain.search.profile import Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.domain.search.signals import Priority, ResolutionTime, VectorSimilarity


def tickets_profile(
    vector_weight: float | None = None,
    metadata_weight: float | None = None,
    priority_weights: PriorityWeights | None = None,
    time_normalization_hours: float = NORMALIZATION_HOURS,
    *,
    candidates: int = TOP_K,
) -> Profile:
    """vector_weight × similarity + metadata_weight × (0.6 × priority + 0.4 × time), over the nearest tickets.

    time = max(0, 1 - resolution hours / ``time_normalization_hours``); hours that are not known count as 24. The
    formula and its numbers are those of the tickets' design. Without weights they are .7 and .3, and beside one alone
    the other is 1 minus it. The nearest ``candidates`` tickets are scored, 1 to 1000. What was learned from feedback
    does not count: the score is the formula's.

    Raises ``ProcessingError`` for weights that are no numbers from 0 to 1 or both 0, and ``InvalidProfileError`` for
    hours that are not above 0.
    """
    weights = weights_of(vector_weight, metadata_weight)
    return Profile(
        legs={LegName.DENSE.value: 1.0},
        fusion=Fusion(kind=FusionKind.UNION),
        depth=candidates,
        signals=(
            VectorSimilarity(weight=weights.vector),
            Priority(
                weight=weights.metadata * PRIORITY_SHARE,
                attribute=PRIORITY,
                values=(priority_weights or PriorityWeights()).by_name(),
                unknown=UNKNOWN,
            ),
            ResolutionTime(
                weight=weights.metadata * TIME_SHARE,
                attribute=HOURS,
                resolved_attribute=RESOLVED_AT,
                normalization_hours=time_normalization_hours,
                unknown_hours=UNKNOWN_HOURS,
            ),
        ),
        learned=Learned(combination=Combination.OFF),
    )
