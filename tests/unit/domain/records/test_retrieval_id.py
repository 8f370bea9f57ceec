"""Identifiers of recorded searches."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from retrieval.domain.records.retrieval_id import time_of, uuid7

MOMENT = datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)


@given(ms=st.integers(0, 2**48 - 1), seed=st.integers())
def test_the_id_is_a_uuid_of_version_7(ms: int, seed: int) -> None:
    """Version and variant are where others look for them."""
    retrieval_id = uuid7(ms, random.Random(seed))
    assert retrieval_id.version == 7
    assert retrieval_id.variant == RFC_4122


def test_the_id_has_its_time_to_the_millisecond() -> None:
    """The moment that went in comes out."""
    assert time_of(uuid7(int(MOMENT.timestamp() * 1000), random.Random(1))) == MOMENT


def test_any_uuid_has_a_time() -> None:
    """A made-up identifier is looked up, and not found."""
    assert time_of(UUID(int=2**128 - 1)) == datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)


def test_later_ones_sort_after_earlier_ones() -> None:
    """The time comes first."""
    chance = random.Random(2)
    ids = [uuid7(ms, chance) for ms in range(1000, 1100)]
    assert ids == sorted(ids)


def test_within_a_millisecond_they_differ() -> None:
    """74 bits are random."""
    chance = random.Random(3)
    assert len({uuid7(5, chance) for _ in range(1000)}) == 1000
