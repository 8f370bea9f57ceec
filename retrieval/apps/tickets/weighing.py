"""Candidates weighed anew, without another search: their signals' values under other weights. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retrieval.apps.tickets.answers import similar_ticket, values_of
from retrieval.apps.tickets.models import SimilarTicket
from retrieval.domain.hit import Hit
from retrieval.domain.profile import Profile
from retrieval.domain.signals.signal import Asked


@dataclass(frozen=True, slots=True)
class Weighed:
    """A candidate under one weighting."""

    ticket: SimilarTicket
    rank: int
    """From 1."""
    contributions: dict[str, float]
    """What each signal adds to the score, by name."""


def weighed(hits: Sequence[Hit], profile: Profile, now: datetime, as_of: datetime | None) -> list[Weighed]:
    """The candidates under the profile's signals, best first; equal scores are ordered by ticket id.

    ``now`` is the moment that the signals take as now.
    """
    moment = Asked(now=now)
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
