"""What follows from a metaphor that failed: what to prefer, and which way to look. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.domain.embedding import Vector

AWAY = 0.4
"""How much of the failed metaphor's vector is taken from the question's; see ``benchmarks/metaphors.py``."""

_LEAST_LENGTH = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """What is preferred beside similarity."""

    concrete: bool = False
    """Metaphors that are easily pictured."""
    rich: bool = False
    """Metaphors with many operations."""


def preference_after(failure_reason: str) -> Preference:
    """What the reason of a failure asks for, in any case of letters.

    After "too abstract" concrete metaphors, else after "missing concept" rich ones, else nothing in particular.
    """
    reason = failure_reason.casefold()
    if "too abstract" in reason:
        return Preference(concrete=True)
    return Preference(rich="missing concept" in reason)


def context_after(failed: Metaphor, failure_reason: str) -> str:
    """The failure in words: what generation is told, and what its triggers are looked for in."""
    return (
        f"Previous attempt with {failed.name!r} failed because: {failure_reason}\n"
        "Looking for metaphors that avoid this issue."
    )


def away_from(question: Vector, failed: Vector, strength: float = AWAY) -> Vector:
    """The question moved away from what failed, both of length 1 and shape (dimensions,): q' = q - strength × f.

    Rocchio's negative feedback (Rocchio 1971), scaled to length 1. Where nothing is left, the question as it was.
    """
    moved = question.astype(np.float64) - strength * failed.astype(np.float64)
    length = float(np.linalg.norm(moved))
    if length < _LEAST_LENGTH:
        return question
    return (moved / length).astype(np.float32)
