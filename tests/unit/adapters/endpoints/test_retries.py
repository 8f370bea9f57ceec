"""Trying again, without waiting for real."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from retrieval.adapters.endpoints.client import EndpointClient, delay
from retrieval.adapters.endpoints.endpoint import TryAgainError, retry_after
from retrieval.adapters.endpoints.rerank import RERANKING
from retrieval.domain.errors import RerankerRejectedError, RerankerUnavailableError

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ENDPOINT = replace(RERANKING, url="http://localhost:1", model="m")


class Client(EndpointClient):
    """A client that asks nothing but a script."""

    async def play(self, script: Script) -> str:
        """Make the script's attempts."""
        return await self._call(script.attempt)


class Script:
    """Attempts that fail as told and then succeed."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.attempts = 0
        self.waits: list[float] = []

    async def attempt(self) -> str:
        """Fail with the next failure, or succeed."""
        self.attempts += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"

    async def sleep(self, seconds: float) -> None:
        """Note the wait."""
        self.waits.append(seconds)

    async def run(self, max_attempts: int = 6, seconds_left: Callable[[], float] = lambda: math.inf) -> str:
        """Play it."""
        client = Client(ENDPOINT, max_attempts=max_attempts, max_concurrency=1, sleep=self.sleep, rng=random.Random(1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("retrieval.adapters.endpoints.client.seconds_left", seconds_left)
            return await client.play(self)


async def test_success_needs_no_waiting() -> None:
    """A first attempt that succeeds is the only one."""
    script = Script()
    assert await script.run() == "done"
    assert (script.attempts, script.waits) == (1, [])


async def test_waits_grow_up_to_a_bound() -> None:
    """Each wait is between half and all of a time that doubles, until the longest."""
    script = Script(*[TryAgainError("busy") for _ in range(8)])
    await script.run(max_attempts=9)
    for wait, ceiling in zip(script.waits, [0.5, 1, 2, 4, 8, 16, 20, 20], strict=True):
        assert ceiling / 2 <= wait <= ceiling


async def test_clients_do_not_come_back_together() -> None:
    """Waits differ by chance."""
    assert delay(3, 0.0) == 1.0
    assert delay(3, 0.5) == 1.5
    assert delay(1000, 1.0) == 20.0


async def test_the_last_failure_is_reported_with_the_number_of_attempts() -> None:
    """When attempts are used up the error says why, how often, and what to do."""
    script = Script(*[TryAgainError("busy") for _ in range(9)])
    with pytest.raises(RerankerUnavailableError, match=r"^busy \(tried 3 times\); try again later$"):
        await script.run(max_attempts=3)
    assert (script.attempts, len(script.waits)) == (3, 2)


async def test_permanent_errors_are_not_retried() -> None:
    """Other errors pass through at once."""
    script = Script(RerankerRejectedError("no"))
    with pytest.raises(RerankerRejectedError, match="no"):
        await script.run()
    assert script.attempts == 1


async def test_the_servers_wish_replaces_our_own_wait() -> None:
    """A server may ask for less than the backoff and for more, up to the bound."""
    script = Script(TryAgainError("busy", retry_after_seconds=0), TryAgainError("busy", retry_after_seconds=59))
    await script.run()
    assert 0 <= script.waits[0] < 0.5
    assert 59 <= script.waits[1] < 59.5


async def test_a_wish_beyond_the_bound_ends_it() -> None:
    """Too long a wait is the caller's decision; the message says how long."""
    script = Script(TryAgainError("busy", retry_after_seconds=61))
    with pytest.raises(RerankerUnavailableError, match="asks to wait 61 seconds"):
        await script.run()
    assert script.waits == []


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5", 5.0),
        ("0.25", 0.25),
        ("-3", 0.0),
        ("Tue, 01 Jan 2030 00:00:20 GMT", 20.0),
        ("Tue, 01 Jan 2030 00:00:20 -0000", 20.0),
        ("Mon, 31 Dec 2029 00:00:00 GMT", 0.0),
        ("inf", None),
        ("nan", None),
        ("soon", None),
        ("Tue, 01 Jan 99999999999999999999 00:00:20 GMT", None),
        ("", None),
    ],
)
def test_retry_after_is_read_in_both_forms(value: str, seconds: float | None) -> None:
    """Seconds and dates are understood, the past is now, and nonsense is ignored."""
    assert retry_after({"retry-after": value}, NOW) == seconds


def test_a_missing_retry_after_is_none() -> None:
    """An answer that does not say leaves the wait to us."""
    assert retry_after({}, NOW) is None


async def test_no_attempt_begins_after_the_time_is_over() -> None:
    """The error is raised while there is time for an alternative."""
    script = Script(*[TryAgainError("answered 500") for _ in range(5)])
    remaining = iter([10.0, 1.0, 0.3])
    with pytest.raises(RerankerUnavailableError, match=r"^answered 500 \(tried 3 times\); try again later$"):
        await script.run(seconds_left=lambda: next(remaining))
    assert len(script.waits) == 2
