"""Calls that are shared, and go on behind who no longer waits."""

from __future__ import annotations

import asyncio

import pytest

from retrieval.domain.errors import LLMUnavailableError
from retrieval.engine import shared_calls
from retrieval.engine.shared_calls import SharedCalls


async def hang() -> None:
    """For ever."""
    await asyncio.Event().wait()


async def test_closing_ends_what_is_under_way_and_begins_nothing() -> None:
    """Waiting callers get an error."""
    calls = SharedCalls()
    with pytest.raises(TimeoutError):
        await calls.result("a", hang, 0)
    waiting = asyncio.create_task(calls.result("a", hang))
    await asyncio.sleep(0)
    await calls.aclose()
    with pytest.raises(LLMUnavailableError, match="was closed"):
        await waiting
    with pytest.raises(LLMUnavailableError, match="is closed; open it again"):
        await calls.result("a", hang)


class Model:
    """A language model whose name cannot be printed as it is."""

    name = "odd\ud800\nmodel"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (asyncio.CancelledError(), "odd model failed: it was cancelled from within"),
        (ValueError("\ud800 b\nc"), "odd model failed: ValueError b c"),
        (MemoryError(), "odd model failed: MemoryError"),
    ],
)
async def test_any_error_of_a_model_is_one_readable_line(error: BaseException, message: str) -> None:
    """A call that the model itself cancels does not cancel its caller."""

    async def fail() -> None:
        raise error

    with pytest.raises(LLMUnavailableError) as raised:
        await SharedCalls().answer(Model(), fail)  # type: ignore[arg-type]
    assert str(raised.value) == message


async def test_a_cancelled_caller_is_cancelled() -> None:
    """Its call is not taken for the model's failure."""
    calls = SharedCalls()
    calling = asyncio.create_task(calls.answer(Model(), hang))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_the_next_caller_does_not_join_a_call_that_is_being_cancelled() -> None:
    """It may take time to end, and would give no result."""
    calls, ended = SharedCalls(), asyncio.Event()

    async def end_slowly() -> None:
        try:
            await hang()
        finally:
            await ended.wait()

    async def succeed() -> str:
        return "answer"

    calling = asyncio.create_task(calls.result("a", end_slowly))
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert await calls.result("a", succeed, 1) == "answer"
    ended.set()
    await asyncio.sleep(0)
    assert await calls.result("a", succeed, 1) == "answer"


async def test_calls_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused; one more that waits for the same is not."""
    monkeypatch.setattr(shared_calls, "MOST_CALLS", 1)
    calls = SharedCalls()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await calls.result("a", hang, 0)
    with pytest.raises(LLMUnavailableError, match="are running already"):
        await calls.result("b", hang)
    await calls.aclose()


async def test_a_model_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without a time limit of its caller ends too."""
    monkeypatch.setattr(shared_calls, "LONGEST_SECONDS", 0.01)
    with pytest.raises(LLMUnavailableError, match=r"odd model gave no answer within 0\.01 s"):
        await SharedCalls().answer(Model(), hang)  # type: ignore[arg-type]
