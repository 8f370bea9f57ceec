"""The rule by which a candidate proves itself."""

from __future__ import annotations

import pytest

from retrieval.apps.probation import ACTIVE, ARCHIVED, status_after


@pytest.mark.parametrize(
    ("uses", "successes", "status"),
    [
        (0, 0, None),
        (2, 2, None),
        (3, 3, ACTIVE),
        (3, 2, ACTIVE),
        (4, 2, None),
        (4, 0, None),
        (5, 0, ARCHIVED),
        (5, 1, ARCHIVED),
        (6, 1, ARCHIVED),
        (5, 2, None),
        (100, 59, None),
        (100, 61, ACTIVE),
    ],
)
def test_three_uses_can_prove_and_five_can_fail(uses: int, successes: int, status: str | None) -> None:
    """Proved with an expected success of at least .6, failed with one below .3."""
    assert status_after(uses, successes) == status
