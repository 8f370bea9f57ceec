"""Buckets of tokens, on a clock of the test's own."""

from __future__ import annotations

import pytest

from retrieval.surfaces.http.authentication import RateLimits, burst


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


def count_admitted(limits: RateLimits, key_id: str, per_minute: int) -> int:
    """The number of admitted requests before the first that has to wait."""
    number = 0
    while not limits.take(key_id, per_minute).wait_seconds:
        number += 1
    return number


@pytest.mark.parametrize(("per_minute", "at_once"), [(1, 1), (9, 9), (10, 10), (60, 10), (100, 10), (6000, 600)])
def test_a_tenth_of_a_minutes_requests_may_come_at_once(per_minute: int, at_once: int) -> None:
    """At least ten, and never more than a minute's."""
    assert burst(per_minute) == at_once
    assert count_admitted(RateLimits(Clock()), "key", per_minute) == at_once


def test_a_minute_never_has_more_requests_than_the_burst_and_a_minutes_allowance() -> None:
    """However they are spread: asked every 50 ms, the 120 a minute and the 12 of the start get through."""
    clock = Clock()
    limits = RateLimits(clock)
    through = 0
    for step in range(1, 1201):
        through += not limits.take("key", 120).wait_seconds
        clock.now = step / 20
    assert 120 + 12 - 1 <= through <= 120 + 12


def test_a_client_that_honours_retry_after_is_accepted() -> None:
    """An earlier request is refused, and refusals cost nothing."""
    clock = Clock()
    limits = RateLimits(clock)
    count_admitted(limits, "key", 60)
    wait = limits.take("key", 60).wait_seconds
    assert wait == pytest.approx(1.0)
    clock.now = wait - 0.01
    assert limits.take("key", 60).wait_seconds == pytest.approx(0.01)
    clock.now = wait
    assert limits.take("key", 60).wait_seconds == 0
    assert limits.take("key", 60).wait_seconds == pytest.approx(1.0)


def test_keys_do_not_count_for_one_another() -> None:
    """One key's requests leave another's bucket full."""
    limits = RateLimits(Clock())
    count_admitted(limits, "busy", 60)
    assert limits.take("calm", 60).remaining == 9


def test_a_client_gets_its_remaining_requests() -> None:
    """The limit, the rest of the burst, and the time until the bucket is full."""
    limits = RateLimits(Clock())
    limits.take("key", 60)
    assert limits.take("key", 60).headers() == {
        "RateLimit-Limit": "60",
        "RateLimit-Remaining": "8",
        "RateLimit-Reset": "2",
    }


def test_the_number_of_buckets_is_limited() -> None:
    """The bucket unused for longest is dropped; the others keep their state."""
    limits = RateLimits(Clock(), most_buckets=2)
    count_admitted(limits, "first", 60)
    count_admitted(limits, "second", 60)
    assert limits.take("first", 60).wait_seconds > 0
    limits.take("third", 60)
    assert len(limits) == 2
    assert limits.take("first", 60).wait_seconds > 0
    assert limits.take("second", 60).remaining == 9
