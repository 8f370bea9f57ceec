"""The hybrid score of tickets that were found already, written as dictionaries. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from numbers import Real
from typing import Any

from retrieval.apps.tickets.answers import TIME, VECTOR, WORTH
from retrieval.apps.tickets.errors import ProcessingError
from retrieval.apps.tickets.priorities import PriorityWeights
from retrieval.apps.tickets.profile import tickets_profile
from retrieval.apps.tickets.weights import NORMALIZATION_HOURS, PRIORITY_SHARE, TIME_SHARE
from retrieval.domain.profile import Profile
from retrieval.domain.signals.signal import Asked, Facts

# The hours that a ticket is given with are known, whenever it was resolved.
_AT_ANY_TIME = Asked(now=datetime.max.replace(tzinfo=UTC))


def rescored(
    tickets: Sequence[Mapping[str, Any]],
    vector_weight: float | None = None,
    metadata_weight: float | None = None,
    time_normalization_hours: float = NORMALIZATION_HOURS,
    priority_weights: PriorityWeights | None = None,
) -> list[dict[str, Any]]:
    """The tickets with ``similarity_score`` and ``metadata_score``, the highest score first, equal ones by id.

    The score is that of ``tickets_profile``, and so are weights that are not given. A ticket has a
    ``vector_similarity`` (negative counts as 0), and may have a ``priority`` and ``resolution_time_hours``. What is
    given stays as it is. Raises ``ProcessingError`` for a ticket without a similarity and for weights that make no
    score, and ``InvalidProfileError`` for hours that are not above 0.
    """
    profile = tickets_profile(vector_weight, metadata_weight, priority_weights, time_normalization_hours)
    scored = [_rescored(ticket, profile, place) for place, ticket in enumerate(tickets, 1)]
    return sorted(scored, key=lambda one: (-one["similarity_score"], str(one.get("ticket_id", ""))))


def _rescored(ticket: Mapping[str, Any], profile: Profile, place: int) -> dict[str, Any]:
    facts = Facts(attributes=ticket, cosine=_cosine(ticket, place))
    values = {signal.key: signal.value(facts, _AT_ANY_TIME) for signal in profile.signals}
    return {
        **ticket,
        "similarity_score": sum(profile.weights[name] * value for name, value in values.items()),
        "metadata_score": PRIORITY_SHARE * values[WORTH] + TIME_SHARE * values[TIME],
    }


def _cosine(ticket: Mapping[str, Any], place: int) -> float:
    given = ticket.get("vector_similarity") if isinstance(ticket, Mapping) else None
    if isinstance(given, bool) or not isinstance(given, Real) or not math.isfinite(given):
        name = ticket.get("ticket_id", place) if isinstance(ticket, Mapping) else place
        raise ProcessingError(f"ticket {name!r:.80}: {VECTOR} is {given!r:.40}; it must be a number such as 0.8")
    return float(given)
