"""The conformance checks of rerankers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from retrieval.domain.errors import RerankerError, RerankerRejectedError, RerankerUnavailableError
from retrieval.domain.search.reranking import Reranker, checked_scores
from retrieval.testing import suite
from retrieval.testing.suite import BrokenError, Suite

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


async def check_reranker(make: Callable[[], Reranker | Awaitable[Reranker]], *, deterministic: bool = True) -> None:
    """Check everything that ``retrieval.domain.search.reranking.Reranker`` promises.

    ``make`` returns a new reranker, or an awaitable of one; it is called once, and the reranker is closed. Some 20
    calls with up to 100 short texts are made, and one with a huge text. ``deterministic``: and that it repeats its
    scores, to a thousandth. Raises ``ConformanceError``.
    """
    await suite.run_closing(make, [_DETERMINISTIC, _RERANKER] if deterministic else [_RERANKER])


async def check_unreachable_reranker(make: Callable[[], Reranker | Awaitable[Reranker]]) -> None:
    """Check the failure of a reranker that does not answer, such as one with an address where nothing listens.

    Raises ``ConformanceError``.
    """
    await suite.run_closing(make, [_UNREACHABLE])


async def _scores(reranker: Reranker, texts: Sequence[str], query: str = _QUERY) -> list[float]:
    scores = await reranker.rerank(query, texts)
    try:
        return checked_scores(scores, len(texts))
    except RerankerRejectedError as error:
        raise BrokenError(f"of {len(texts)} texts: {error}") from None


@_DETERMINISTIC.add
async def _same_scores_again(reranker: Reranker) -> None:
    first, second = await _scores(reranker, _TEXTS), await _scores(reranker, _TEXTS)
    if not all(abs(score - other) <= 1e-3 for score, other in zip(first, second, strict=True)):
        raise BrokenError(f"the same texts have the scores {first}, and the second time {second}")


@_DETERMINISTIC.add
async def _scores_follow_the_texts(reranker: Reranker) -> None:
    first, second = await _scores(reranker, _TEXTS), await _scores(reranker, _TEXTS[::-1])
    if not all(abs(score - other) <= 0.1 for score, other in zip(first, second[::-1], strict=True)):
        raise BrokenError(f"in the other order the scores {first} are {second}: they are not in the order of the texts")


@_RERANKER.add
async def _name_is_stable(reranker: Reranker) -> None:
    await suite.require_stable_name(reranker, lambda: _scores(reranker, _TEXTS), "profiles and records name it")


@_RERANKER.add
async def _one_score_a_text(reranker: Reranker) -> None:
    for count in range(len(_TEXTS) + 1):
        await _scores(reranker, _TEXTS[:count])


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
    # A model may be too small for the text, and then refuses it.
    with contextlib.suppress(RerankerRejectedError):
        await _scores(reranker, [_HUGE, _TEXTS[1]])


@_RERANKER.add
async def _concurrent_calls(reranker: Reranker) -> None:
    each = [[f"{text} {number}" for text in _TEXTS[: 1 + number % 3]] for number in range(6)]
    await asyncio.gather(*(_scores(reranker, texts) for texts in each))


@_RERANKER.add
async def _cancelled_call_leaves_it_usable(reranker: Reranker) -> None:
    await suite.cancel_soon(reranker.rerank(_QUERY, _TEXTS))
    await _scores(reranker, _TEXTS)


@_RERANKER.add
async def _event_loop_stays_free(reranker: Reranker) -> None:
    await suite.require_free_loop(_scores(reranker, [text * 20 for text in _TEXTS]))


@_RERANKER.add
async def _closes_twice_and_scores_no_more(reranker: Reranker) -> None:
    await reranker.aclose()
    await reranker.aclose()
    call = reranker.rerank(_QUERY, _TEXTS)
    await suite.require_rejection(call, "a call after it was closed", RerankerRejectedError, RerankerError)


@_UNREACHABLE.add
async def _unreachable_is_unavailable(reranker: Reranker) -> None:
    await suite.require_unavailable(reranker.rerank(_QUERY, _TEXTS), RerankerUnavailableError)


@_UNREACHABLE.add
async def _unreachable_closes(reranker: Reranker) -> None:
    await suite.require_closing(reranker)
