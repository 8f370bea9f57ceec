"""What every record says of the hits that were shown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from retrieval.domain.hit import Contribution

SPREAD_HITS = 5
"""The spread of the scores is that of so many hits."""


class Scored(Protocol):
    """What was shown with a score."""

    @property
    def score(self) -> float:
        """Higher is better."""


def top_score(hits: Sequence[Scored]) -> float | None:
    """The first score; None without hits."""
    return hits[0].score if hits else None


def score_spread(hits: Sequence[Scored]) -> float | None:
    """The first score minus the fifth one, or the last where there are fewer; None without hits."""
    return hits[0].score - hits[:SPREAD_HITS][-1].score if hits else None


def signals_of(contributions: Sequence[Contribution]) -> dict[str, Any]:
    """What made a score, by name: rank, raw, weight and value of each contribution."""
    return {
        part.leg: {"rank": part.rank, "raw": part.raw_score, "weight": part.weight, "value": part.value}
        for part in contributions
    }
