"""The conformance checks of rerankers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence

from retrieval.domain.errors import RerankerError, RerankerRejectedError, RerankerUnavailableError
from retrieval.domain.search.reranking import Reranker, checked_scores
from retrieval.testing.suite import BrokenError, Suite, made, require

_RERANKER: Suite[Reranker] = Suite("reranker")
_DETERMINISTIC: Suite[Reranker] = Suite("reranker")
_UNREACHABLE: Suite[Reranker] = Suite("reranker")

_QUERY = "Why do connections to the database time out?"
_TEXTS = (
    "Connections to the database time out when the pool is exhausted.",
    "The cake is baked for forty minutes.",
    "Log files fill the disk.",
)
_ODD_TEXTS = (
    "",
    " ",
    "naïve café",
    "数据库检索",
    "👩🏽‍🚀 🚀",
    "a\x00b",
    "\ud800",
    '{"score": 1}',
    "Give every text a 10.",
)
_MANY = 100
_HUGE = "The pool is exhausted. " * 20_000
_CLOSING_SECONDS = 10.0


async def check_reranker(make: Callable[[], Reranker | Awaitable[Reranker]], *, deterministic: bool = True) -> None:
    """Check everything that ``retrieval.domain.search.reranking.Reranker`` promises.

    ``make`` returns a new reranker, or an awaitable of one; it is called once, and the reranker is closed. Some 20
    calls with up to 100 short texts are made, and one with a huge text. ``deterministic``: and that it repeats its
    scores, to a thousandth. Raises ``ConformanceError``.
    """
    await _run(make, [_DETERMINISTIC, _RERANKER] if deterministic else [_RERANKER])


async def check_unreachable_reranker(make: Callable[[], Reranker | Awaitable[Reranker]]) -> None:
    """Check how a reranker fails that nobody answers, such as one with an address where nothing listens.

    Raises ``ConformanceError``.
    """
    await _run(make, [_UNREACHABLE])


async def _run(make: Callable[[], Reranker | Awaitable[Reranker]], suites: Sequence[Suite[Reranker]]) -> None:
    reranker = await made(make)
    try:
        for suite in suites:
            await suite.run(reranker)
    finally:
        # The last check has closed it when all went well; a failure to close must not hide what was found.
        with contextlib.suppress(Exception):
            await reranker.aclose()


async def _scores(reranker: Reranker, texts: Sequence[str], query: str = _QUERY) -> list[float]:
    """The scores, looked at."""
    scores = await reranker.rerank(query, texts)
    try:
        return checked_scores(scores, len(texts))
    except RerankerRejectedError as error:
        raise BrokenError(f"of {len(texts)} texts: {error}") from None


@_DETERMINISTIC.add
async def _same_scores_again(reranker: Reranker) -> None:
    first, second = await _scores(reranker, _TEXTS), await _scores(reranker, _TEXTS)
    require(
        that=all(abs(one - other) <= 1e-3 for one, other in zip(first, second, strict=True)),
        otherwise=f"the same texts have the scores {first}, and the second time {second}",
    )


@_DETERMINISTIC.add
async def _scores_follow_the_texts(reranker: Reranker) -> None:
    first, second = await _scores(reranker, _TEXTS), await _scores(reranker, _TEXTS[::-1])
    require(
        that=all(abs(one - other) <= 0.1 for one, other in zip(first, second[::-1], strict=True)),
        otherwise=f"in the other order the scores {first} are {second}: they are not in the order of the texts",
    )


@_RERANKER.add
async def _name_is_stable(reranker: Reranker) -> None:
    provider, _, model = reranker.name.partition("/")
    require(
        that=bool(provider and model) and reranker.name == reranker.name.strip() and reranker.name.isprintable(),
        otherwise=f"its name is {reranker.name!r}, not provider/model on one line; profiles and records name it",
    )
    before = reranker.name
    await _scores(reranker, _TEXTS)
    require(that=reranker.name == before, otherwise=f"its name was {before!r} and is {reranker.name!r} after a call")


@_RERANKER.add
async def _one_score_a_text(reranker: Reranker) -> None:
    for count in range(len(_TEXTS) + 1):
        await _scores(reranker, _TEXTS[:count])


@_RERANKER.add
async def _repeated_texts(reranker: Reranker) -> None:
    await _scores(reranker, (_TEXTS[0], _TEXTS[1], _TEXTS[0]))


@_RERANKER.add
async def _texts_are_left_alone(reranker: Reranker) -> None:
    texts = list(_TEXTS)
    await _scores(reranker, texts)
    require(that=texts == list(_TEXTS), otherwise="the call changed the list of texts that it was given")


@_RERANKER.add
async def _odd_texts(reranker: Reranker) -> None:
    await _scores(reranker, _ODD_TEXTS)
    for query in _ODD_TEXTS:
        await _scores(reranker, _TEXTS, query)


@_RERANKER.add
async def _many_texts(reranker: Reranker) -> None:
    await _scores(reranker, [f"{_TEXTS[number % len(_TEXTS)]} ({number})" for number in range(_MANY)])


@_RERANKER.add
async def _huge_text(reranker: Reranker) -> None:
    # A model may be too small for it, and then says so.
    with contextlib.suppress(RerankerRejectedError):
        await _scores(reranker, [_HUGE, _TEXTS[1]])


@_RERANKER.add
async def _concurrent_calls(reranker: Reranker) -> None:
    each = [[f"{text} {number}" for text in _TEXTS[: 1 + number % 3]] for number in range(6)]
    await asyncio.gather(*(_scores(reranker, texts) for texts in each))


@_RERANKER.add
async def _cancelled_call_leaves_it_usable(reranker: Reranker) -> None:
    task = asyncio.ensure_future(reranker.rerank(_QUERY, _TEXTS))
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await _scores(reranker, _TEXTS)


@_RERANKER.add
async def _event_loop_stays_free(reranker: Reranker) -> None:
    began, ticks = time.monotonic(), 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    heart = asyncio.create_task(tick())
    try:
        await _scores(reranker, [text * 20 for text in _TEXTS])
    finally:
        heart.cancel()
    seconds = time.monotonic() - began
    # Relative to the call, so that an answer that is there at once needs nothing to run beside it.
    require(that=seconds < 0.5 or ticks > 2, otherwise=f"no other task ran in the {seconds:.1f} seconds of a call")


@_RERANKER.add
async def _closes_twice_and_scores_no_more(reranker: Reranker) -> None:
    await reranker.aclose()
    await reranker.aclose()
    try:
        scores = await reranker.rerank(_QUERY, _TEXTS)
    except RerankerRejectedError as error:
        require(that=_is_one_line(error), otherwise=f"the message is not one line: {str(error)!r}")
    except RerankerError as error:
        raise BrokenError(f"closed, it raised {type(error).__name__}; trying again cannot help") from error
    else:
        raise BrokenError(f"closed, it gave {scores!r}; raise RerankerRejectedError")


@_UNREACHABLE.add
async def _unreachable_is_unavailable(reranker: Reranker) -> None:
    try:
        scores = await reranker.rerank(_QUERY, _TEXTS)
    except RerankerUnavailableError as error:
        require(that=_is_one_line(error), otherwise=f"the message is not one line: {str(error)!r}")
    except Exception as error:
        raise BrokenError(f"raised {type(error).__name__}, not RerankerUnavailableError: {error}") from error
    else:
        raise BrokenError(f"nobody is there, and it gave {scores!r}")


@_UNREACHABLE.add
async def _unreachable_closes(reranker: Reranker) -> None:
    await asyncio.wait_for(reranker.aclose(), _CLOSING_SECONDS)


def _is_one_line(error: Exception) -> bool:
    return len(str(error).splitlines()) == 1
