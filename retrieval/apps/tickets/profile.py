"""The hybrid score of tickets, said as a profile."""

from __future__ import annotations

from retrieval.apps.tickets.priorities import UNKNOWN, PriorityWeights
from retrieval.apps.tickets.ticket_item import HOURS, PRIORITY, RESOLVED_AT
from retrieval.apps.tickets.weights import (
    METADATA_WEIGHT,
    NORMALIZATION_HOURS,
    PRIORITY_SHARE,
    TIME_SHARE,
    VECTOR_WEIGHT,
    Weights,
    check_weights,
)
from retrieval.domain.learned import Combination, Learned
from retrieval.domain.profile import DEPTH, MAX_DEPTH, Fusion, FusionKind, LegName, Profile
from retrieval.domain.signals.priority import Priority
from retrieval.domain.signals.resolution_time import ResolutionTime
from retrieval.domain.signals.vector_similarity import VectorSimilarity

_CANDIDATES_A_TICKET = 5


def tickets_profile(
    vector_weight: float = VECTOR_WEIGHT,
    metadata_weight: float = METADATA_WEIGHT,
    priority_weights: PriorityWeights | None = None,
    time_normalization_hours: float = NORMALIZATION_HOURS,
    *,
    top_k: int = 20,
) -> Profile:
    """vector_weight × similarity + metadata_weight × (0.6 × priority + 0.4 × time), over the nearest tickets.

    time = max(0, 1 - resolution hours / ``time_normalization_hours``). The formula and its numbers are those of the
    tickets' design. The nearest ``candidates(top_k)`` tickets are scored. What was learned from feedback does not
    count: the score is the formula's.

    Raises ``ProcessingError`` for weights that are no numbers from 0 to 1 or do not add up to 1, and
    ``InvalidProfileError`` for hours that are not above 0.
    """
    weights = check_weights(Weights(vector_weight, metadata_weight))
    return Profile(
        legs={LegName.DENSE.value: 1.0},
        fusion=Fusion(kind=FusionKind.UNION),
        depth=candidates(top_k),
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
            ),
        ),
        learned=Learned(combination=Combination.OFF),
    )


def candidates(top_k: int) -> int:
    """How many of the nearest tickets are scored for so many results: five times as many, at least 100."""
    return min(MAX_DEPTH, max(DEPTH, _CANDIDATES_A_TICKET * top_k))
