"""The breaker's states, with a controlled clock, and the calls through it."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.adapters.endpoints import breaker as module
from retrieval.adapters.endpoints.breaker import EMBEDDER, RERANKER, Breaker, Guard, Guards, Permit, before_deadline
from retrieval.adapters.store import deadline as deadlines
from retrieval.adapters.store.deadline import Deadline, deadline, seconds_left
from retrieval.domain.errors import EmbedderRejectedError, EmbedderUnavailableError, RerankerUnavailableError


def permitted(breaker: Breaker, now: float) -> Permit:
    """A permit that there has to be."""
    permit = breaker.permit(now)
    assert permit is not None
    return permit


def open_breaker(now: float = 0.0) -> Breaker:
    """A breaker that a spent budget opened."""
    breaker = Breaker()
    breaker.record_failure(permitted(breaker, now), now, is_spent=True)
    return breaker


def test_failures_in_a_row_open_it() -> None:
    """A success restarts the count."""
    breaker = Breaker(most_failures=3)
    for _ in range(2):
        breaker.record_failure(permitted(breaker, 0), 0, is_spent=False)
    breaker.record_success()
    for _ in range(2):
        breaker.record_failure(permitted(breaker, 0), 0, is_spent=False)
    assert not breaker.is_open
    breaker.record_failure(permitted(breaker, 0), 0, is_spent=False)
    assert breaker.is_open
    assert breaker.permit(0.9) is None


def test_one_spent_budget_opens_it() -> None:
    """Later calls are skipped at once; calls that started earlier change nothing."""
    breaker = Breaker()
    first, second = permitted(breaker, 0), permitted(breaker, 0)
    breaker.record_failure(first, 2, is_spent=True)
    breaker.record_failure(second, 2.9, is_spent=True)
    assert breaker.permit(2.99) is None
    assert breaker.permit(3.0) is not None


def test_one_probe_at_a_time_closes_it() -> None:
    """Until it ends, all other calls are skipped, whatever its duration."""
    breaker = open_breaker()
    permitted(breaker, 1)
    assert breaker.permit(1) is None
    assert breaker.permit(100) is None
    breaker.record_success()
    assert not breaker.is_open
    assert breaker.permit(100) is not breaker.permit(100) is not None


def test_waits_grow_up_to_a_bound() -> None:
    """Each failed probe doubles the wait; a success resets it."""
    breaker, now, waits = open_breaker(), 0.0, list[float]()
    for _ in range(7):
        wait = 0.0
        while (permit := breaker.permit(now + wait)) is None:
            wait += 0.5
        waits.append(wait)
        now += wait
        breaker.record_failure(permit, now, is_spent=False)
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    breaker.record_success()
    breaker.record_failure(permitted(breaker, now), now, is_spent=True)
    assert breaker.permit(now + 1) is not None


def test_a_probe_of_which_nothing_is_known_makes_place_for_another() -> None:
    """A caller that stops waiting neither closes nor opens the breaker."""
    breaker = open_breaker()
    breaker.release(permitted(breaker, 1))
    assert breaker.is_open
    assert breaker.permit(1) is not None
    assert breaker.permit(1) is None


@given(st.lists(st.tuples(st.sampled_from(["ask", "answer", "fail", "spend", "drop"]), st.floats(0, 40)), max_size=60))
def test_a_service_is_always_probed_again(events: list[tuple[str, float]]) -> None:
    """Open or not, with any number of calls under way: never two probes at once, and never closed to all for good."""
    breaker, now, under_way = Breaker(), 0.0, list[Permit]()
    for what, seconds in events:
        now += seconds
        if what == "ask":
            was_open = breaker.is_open
            permit = breaker.permit(now)
            assert permit is not None or was_open
            assert not was_open or breaker.permit(now) is None
            under_way += [] if permit is None else [permit]
        elif under_way:
            permit = under_way.pop(0)
            if what == "answer":
                breaker.record_success()
            elif what != "drop":
                breaker.record_failure(permit, now, is_spent=what == "spend")
            breaker.release(permit)
    for permit in under_way:
        breaker.release(permit)
    assert breaker.permit(now + breaker.longest_wait_seconds) is not None


class Service:
    """Answers as configured, and counts."""

    def __init__(self) -> None:
        self.asked = self.ended = 0
        self.error: BaseException | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self) -> str:
        """The answer, once the gate is open."""
        self.asked += 1
        try:
            await self.gate.wait()
        finally:
            self.ended += 1
        if self.error is not None:
            raise self.error
        return "answer"


class Clock:
    """A time that is set."""

    now = 0.0

    def __call__(self) -> float:
        """It."""
        return self.now


async def test_a_call_that_hangs_costs_its_budget_once() -> None:
    """Later calls fail at once with the reason, and a successful probe closes the breaker."""
    clock, service = Clock(), Service()
    guard = Guard(EMBEDDER, "it", clock)
    service.gate.clear()
    with pytest.raises(EmbedderUnavailableError, match=r"^it did not answer within 0\.05 s$"):
        await guard.in_time(service.ask, 0.05)
    with pytest.raises(
        EmbedderUnavailableError, match=r"^it is skipped for now, because its last calls failed: it did not answer"
    ):
        await guard.in_time(service.ask, 60)
    await asyncio.sleep(0)
    assert guard.outage is not None
    assert (guard.outage.role, guard.outage.name) == ("embedder", "it")
    assert (service.asked, service.ended) == (1, 1)

    clock.now, calls = 1.0, [asyncio.create_task(guard.in_time(service.ask, 60)) for _ in range(5)]
    await asyncio.sleep(0.01)
    assert service.asked == 2
    service.gate.set()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(answer, EmbedderUnavailableError) for answer in answers] == [False, True, True, True, True]
    assert guard.outage is None
    assert await guard.in_time(service.ask, 60) == "answer"


async def test_a_call_that_ignores_cancellation_is_abandoned() -> None:
    """The budget holds although the call swallows its cancellation."""
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with asyncio.timeout(30):
        with pytest.raises(EmbedderUnavailableError):
            await Guard(EMBEDDER, "it", time.monotonic).in_time(stubborn, 0.05)
    release.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not deadlines._UNDER_WAY  # noqa: SLF001 - nothing is left behind


async def test_a_refusal_is_an_answer() -> None:
    """A wrong key says nothing against the endpoint; it closes a breaker, and never opens one."""
    clock, service = Clock(), Service()
    guard = Guard(EMBEDDER, "it", clock)
    service.error = EmbedderRejectedError("the key")
    for _ in range(5):
        with pytest.raises(EmbedderRejectedError):
            await guard.in_time(service.ask, 60)
    assert guard.outage is None
    service.error = EmbedderUnavailableError("down")
    for _ in range(3):
        with pytest.raises(EmbedderUnavailableError, match=r"^down$"):
            await guard.in_time(service.ask, 60)
    assert guard.outage is not None
    clock.now, service.error = 1.0, EmbedderRejectedError("the key")
    with pytest.raises(EmbedderRejectedError):
        await guard.in_time(service.ask, 60)
    assert guard.outage is None


async def test_a_failure_shortly_before_the_budget_is_over_is_one_of_three() -> None:
    """It came within the budget; a retry may have used most of it."""
    clock = Clock()
    guard = Guard(RERANKER, "it", clock)
    for failures in range(1, 4):

        async def fails() -> str:
            clock.now += 50
            raise RerankerUnavailableError("it answered 500 (tried 2 times)")

        with pytest.raises(RerankerUnavailableError, match="500"):
            await guard.in_time(fails, 60)
        assert (guard.outage is not None) == (failures == 3)
    assert guard.outage is not None
    assert "500" in guard.outage.why


async def test_an_exceeded_budget_is_reported_with_the_advice_of_the_role() -> None:
    """Unless the caller had less time: then the profile is not at fault."""
    service = Service()
    guard = Guard(RERANKER, "it", time.monotonic)
    service.gate.clear()
    without_advice = pytest.raises(RerankerUnavailableError, match=r"^it did not answer within 0\.\d+ s$")
    with deadline(Deadline(time.monotonic() + 0.1)), without_advice:
        await guard.in_time(service.ask, 60)
    with pytest.raises(RerankerUnavailableError, match=r"^it did not answer within 0\.05 s; raise rerank\.milli"):
        await guard.in_time(service.ask, 0.05)
    assert guard.outage is not None
    assert "; raise rerank.milliseconds" in guard.outage.why


async def test_a_caller_with_little_time_does_not_open_the_breaker() -> None:
    """A client could take the embedder away from all others."""
    service = Service()
    guard = Guard(EMBEDDER, "it", time.monotonic)
    service.gate.clear()
    for _ in range(5):
        with deadline(Deadline(time.monotonic() + 1.0)):
            with pytest.raises(EmbedderUnavailableError, match="did not answer within"):
                await guard.in_time(service.ask, 60)
            assert seconds_left() > 0
    await asyncio.sleep(0)
    assert guard.outage is None
    assert service.ended == 5


async def test_a_caller_that_hangs_up_cancels_the_call_and_does_not_open_the_breaker() -> None:
    """The state of the service is unknown, and the next call is the probe."""
    clock, service = Clock(), Service()
    guard = Guard(EMBEDDER, "it", clock)
    service.gate.clear()
    with pytest.raises(EmbedderUnavailableError):
        await guard.in_time(service.ask, 0.01)
    clock.now = 1.0
    probe = asyncio.create_task(guard.in_time(service.ask, 60))
    await asyncio.sleep(0.01)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    await asyncio.sleep(0)
    assert service.ended == 2
    service.gate.set()
    assert await guard.in_time(service.ask, 60) == "answer"


async def test_a_late_answer_closes_it() -> None:
    """A language model's call is not cancelled: later searches skip the model until its late answer."""
    service = Service()
    guard = Guard(EMBEDDER, "it", time.monotonic)
    service.gate.clear()
    late = asyncio.create_task(guard.call(service.ask, 0.02))
    await asyncio.sleep(0.1)
    assert guard.outage is not None
    service.gate.set()
    assert await late == "answer"
    assert guard.outage is None


async def test_opening_and_closing_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log shows the failure to the operator; foreign errors are not quoted."""
    caplog.set_level(logging.WARNING)
    clock, service = Clock(), Service()
    guard = Guard(EMBEDDER, "it", clock)
    service.error = RuntimeError("a\nbug")
    for _ in range(5):
        with pytest.raises((RuntimeError, EmbedderUnavailableError)):
            await guard.in_time(service.ask, 60)
    clock.now, service.error = 1.0, None
    for _ in range(2):
        await guard.in_time(service.ask, 60)
    assert [record.getMessage() for record in caplog.records] == [
        "the embedder it is skipped until a probe succeeds: RuntimeError",
        "the embedder it answers again",
    ]


async def test_each_service_has_one_guard() -> None:
    """Every caller gets the same guard; of very many services, the recently used ones keep theirs."""
    guards = Guards(EMBEDDER)
    services = [Service() for _ in range(module.MOST_KEPT + 1)]
    first = guards.of(services[0], "first")
    for service in services[1:]:
        assert guards.of(service, "other") is not first
        assert guards.of(services[0], "first") is first
    assert not guards.outages


async def test_work_that_may_take_long_ends_before_the_deadline() -> None:
    """The answer can then report the stored items; without a deadline the work is not limited."""
    service = Service()
    assert await before_deadline(service.ask, EmbedderUnavailableError) == "answer"
    service.gate.clear()
    with deadline(Deadline(time.monotonic() + 0.2)):
        with pytest.raises(EmbedderUnavailableError, match="no answer within"):
            await before_deadline(service.ask, EmbedderUnavailableError)
        assert seconds_left() > 0
