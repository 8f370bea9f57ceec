"""The trial of a candidate: use accepts or rejects it, by the same rule for every application that learns."""

from __future__ import annotations

from typing import Final

from retrieval.domain.learning.arm import rate

ACTIVE, CANDIDATE, ARCHIVED = "active", "candidate", "archived"
"""The statuses: accepted, on trial, and failed. Failed items stay stored, so that they are not taken for new ones."""

LEAST_TO_PROVE: Final = 3
PROVED_FROM: Final = 0.6
LEAST_TO_FAIL: Final = 5
FAILED_BELOW: Final = 0.3


def status_after(uses: int, successes: int) -> str | None:
    """The status that ends a candidate's trial after ``uses`` verdicts, ``successes`` of them good; None: it goes on.

    It is accepted from 3 uses on with a rate of at least 0.6, and archived from 5 uses on with one below 0.3: a failed
    candidate is not shown again and cannot recover.
    """
    expected = rate(successes, uses)
    if uses >= LEAST_TO_PROVE and expected >= PROVED_FROM:
        return ACTIVE
    if uses >= LEAST_TO_FAIL and expected < FAILED_BELOW:
        return ARCHIVED
    return None
