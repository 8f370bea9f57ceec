"""Who is eligible for a slot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from retrieval.domain.learning.arm import Arm
from retrieval.domain.search.profile_parts import Exploration
from retrieval.learning.propensity import is_eligible

NOW = datetime(2026, 3, 1, tzinfo=UTC)
OLD = NOW - timedelta(days=100)


@pytest.mark.parametrize(
    ("uses", "created_at", "expected"),
    [
        (0, OLD, True),
        (4, OLD, True),
        (5, OLD, False),
        (5, NOW - timedelta(days=6, hours=23), True),
        (5, NOW - timedelta(days=7), False),
        (4, None, True),
        (5, None, False),
    ],
)
def test_fewer_than_five_uses_or_younger_than_seven_days(
    uses: int, created_at: datetime | None, *, expected: bool
) -> None:
    """Uses are raw; what was stored exactly seven days ago is not younger."""
    assert is_eligible(Arm(uses=uses), created_at, NOW, Exploration()) is expected


def test_the_profile_says_how_few_and_how_young() -> None:
    """0 uses and 0 days: nobody."""
    nobody = Exploration(fewer_uses_than=0, younger_than_days=0)

    assert not is_eligible(Arm(), NOW, NOW, nobody)
    assert is_eligible(Arm(uses=50), OLD, NOW, Exploration(younger_than_days=101))


def test_decayed_counts_make_nobody_eligible_again() -> None:
    """An item that was used often long ago is known."""
    assert not is_eligible(Arm(successes=0.001, failures=0.001, uses=50), OLD, NOW, Exploration())
