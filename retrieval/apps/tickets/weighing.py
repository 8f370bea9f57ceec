"""Candidates weighed anew, and what moves by it and why; also of tickets written as dictionaries. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Real
from statistics import fmean
from typing import Any

from retrieval.apps.tickets.answers import TIME, VECTOR, WORTH, similar_ticket, values_of
from retrieval.apps.tickets.errors import ProcessingError
from retrieval.apps.tickets.models import MovedTicket, SimilarTicket, Weighting, WeightingPreview
from retrieval.apps.tickets.profile import tickets_profile
from retrieval.apps.tickets.weights import NORMALIZATION_HOURS, PRIORITY_SHARE, TIME_SHARE, PriorityWeights
from retrieval.domain.search.hit import Hit
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.signal import Facts, Question


@dataclass(frozen=True, slots=True)
class Weighed:
    """A candidate under one weighting."""

    ticket: SimilarTicket
    rank: int
    """The rank, from 1."""
    contributions: dict[str, float]
    """The part of each signal in the score, by name."""


def weighed(hits: Sequence[Hit], profile: Profile, now: datetime, as_of: datetime | None) -> list[Weighed]:
    """The candidates under the profile's signals, best first; equal scores are ordered by ticket id.

    ``now`` is the moment that the signals take as now.
    """
    moment = Question(now=now)
    valued = [(hit, values_of(hit, profile, moment)) for hit in hits]
    scored = [(sum(profile.weights[name] * value for name, value in values.items()), hit, values)
              for hit, values in valued]  # fmt: skip
    scored.sort(key=lambda one: (-one[0], one[1].item_id))
    return [
        Weighed(
            similar_ticket(hit, score, values, as_of),
            rank,
            {name: profile.weights[name] * value for name, value in values.items()},
        )
        for rank, (score, hit, values) in enumerate(scored, 1)
    ]


# The hours that a ticket is given with are known, whenever it was resolved.
_AT_ANY_TIME = Question(now=datetime.max.replace(tzinfo=UTC))


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


_NAMES = {VECTOR: "similarity", WORTH: "priority", TIME: "resolution time"}
_NOTHING = 5e-4
"""A change that three digits do not show."""


def compared(
    weighting: Weighting, ranked: Sequence[Weighed], before: Sequence[Weighed], top_k: int
) -> WeightingPreview:
    """The first page of ``ranked`` against that of ``before``: the same candidates, best first."""
    earlier = {candidate.ticket.ticket_id: candidate for candidate in before}
    page = {candidate.ticket.ticket_id for candidate in ranked[:top_k]}
    page_before = [candidate.ticket.ticket_id for candidate in before[:top_k]]
    both = page | set(page_before)
    changes = {
        candidate.ticket.ticket_id: _changes(candidate, earlier[candidate.ticket.ticket_id])
        for candidate in ranked
        if candidate.ticket.ticket_id in both
    }
    usual = _means(list(changes.values()))
    moved = {
        candidate.ticket.ticket_id: _moved(
            candidate, earlier[candidate.ticket.ticket_id], changes[candidate.ticket.ticket_id], usual
        )
        for candidate in ranked
        if candidate.ticket.ticket_id in both
    }
    tickets = [moved[candidate.ticket.ticket_id] for candidate in ranked[:top_k]]
    left = [moved[ticket_id] for ticket_id in page_before if ticket_id not in page]
    entered = [ticket.ticket.ticket_id for ticket in tickets if ticket.ticket.ticket_id not in page_before]
    return WeightingPreview(
        weighting=weighting,
        tickets=tickets,
        entered=entered,
        left=left,
        summary=_summary(weighting, tickets, entered, left),
    )


def _changes(now: Weighed, before: Weighed) -> dict[str, float]:
    return {name: value - before.contributions[name] for name, value in now.contributions.items()}


def _means(changes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: fmean(change[name] for change in changes) for name in changes[0]} if changes else {}


def _moved(now: Weighed, before: Weighed, changes: dict[str, float], usual: Mapping[str, float]) -> MovedTicket:
    against = {name: change - usual[name] for name, change in changes.items()}
    moved = before.rank - now.rank
    return MovedTicket(
        ticket=now.ticket,
        rank=now.rank,
        rank_before=before.rank,
        moved=moved,
        contributions=now.contributions,
        changes=changes,
        against_others=against,
        why=_why(now, before, changes, against),
    )


def _why(now: Weighed, before: Weighed, changes: Mapping[str, float], against: Mapping[str, float]) -> str:
    """``up 3, from 4 to 1: priority adds 0.300 (+0.120; on average +0.050)``: what speaks most for it goes first."""
    moved = before.rank - now.rank
    if moved == 0:
        return f"stays at {now.rank}"
    sign = 1 if moved > 0 else -1
    order = sorted(against, key=lambda name: -sign * against[name])
    reasons = [name for name in order if sign * against[name] > _NOTHING]
    head = f"{'up' if moved > 0 else 'down'} {abs(moved)}, from {before.rank} to {now.rank}"
    said = [
        f"{_NAMES[name]} adds {now.contributions[name]:.3f} ({changes[name]:+.3f}; "
        f"on average {changes[name] - against[name]:+.3f})"
        for name in reasons
    ]
    return f"{head}: {', '.join(said)}" if said else f"{head}: others changed more"


def _summary(
    weighting: Weighting, tickets: Sequence[MovedTicket], entered: Sequence[str], left: Sequence[MovedTicket]
) -> str:
    moved = sum(1 for ticket in tickets if ticket.moved)
    weights = f"{weighting.name} ({weighting.vector_weight:g} similarity, {weighting.metadata_weight:g} metadata)"
    return f"{weights}: {moved} of {len(tickets)} stand elsewhere, {len(entered)} came in and {len(left)} went out"
