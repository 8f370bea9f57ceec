"""The conformance suites of rerankers detect faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from retrieval.domain.errors import RerankerRejectedError, RerankerUnavailableError
from retrieval.testing import ConformanceError, check_reranker, check_unreachable_reranker
from tests.support.rerank_server import overlap


class Good:
    """Keeps the contract."""

    name = "good/1"

    def __init__(self) -> None:
        self.closed = 0
        self.calls = 0

    async def rerank(self, query: str, texts: Sequence[str]) -> Any:
        """The shares of common words."""
        if self.closed:
            raise RerankerRejectedError("it is closed")
        self.calls += 1
        await asyncio.sleep(0)
        return [overlap(query, text) for text in texts]

    async def aclose(self) -> None:
        """Count it."""
        self.closed += 1


class Nameless(Good):
    """Names no model."""

    name = "good"


class Short(Good):
    """Leaves out the last."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Any:
        """Score with the fault."""
        return (await super().rerank(query, texts))[: max(len(texts) - 1, 1)]


class Logits(Good):
    """A reranker whose scores are not probabilities."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Any:
        """Score with the fault."""
        return [8 * score - 4 for score in await super().rerank(query, texts)]


class Sorted(Good):
    """Best first, instead of in the order of the texts."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Any:
        """Score with the fault."""
        return sorted(await super().rerank(query, texts), reverse=True)


class Moody(Good):
    """Other scores each time."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Any:
        """Score with the fault."""
        scores = await super().rerank(query, texts)
        return [(score + self.calls % 2) / 2 for score in scores]


class Picky(Good):
    """Cannot encode everything."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Any:
        """Score with the fault."""
        "".join([query, *texts]).encode()
        return await super().rerank(query, texts)


class Blocking(Good):
    """Holds up the event loop."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Any:
        """Score with the fault."""
        if len(texts[:1]) and len(texts[0]) > 1000:
            time.sleep(0.6)  # noqa: ASYNC251 - that is the fault
        return await super().rerank(query, texts)


class Undead(Good):
    """Answers when it is closed."""

    async def aclose(self) -> None:
        """Do nothing."""


async def test_a_good_reranker_passes_and_is_closed() -> None:
    """Whether made directly or awaited."""
    good = Good()

    async def later() -> Good:
        return good

    await check_reranker(later)
    assert good.closed


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (Nameless, "name is stable"),
        (Short, "same scores again"),
        (Logits, "same scores again"),
        (Sorted, "scores follow the texts"),
        (Moody, "same scores again"),
        (Picky, "odd texts"),
        (Blocking, "event loop stays free"),
        (Undead, "closes twice and scores no more"),
    ],
)
async def test_each_fault_is_caught_by_name(kind: type[Good], check: str) -> None:
    """The error says which check failed."""
    with pytest.raises(ConformanceError) as caught:
        await check_reranker(kind)
    assert (caught.value.role, caught.value.check) == ("reranker", check)


async def test_an_unreachable_reranker_says_so() -> None:
    """A missing server is "unavailable", and not an answer."""

    class Down(Good):
        async def rerank(self, query: str, texts: Sequence[str]) -> Any:  # noqa: ARG002
            """Raise the error of an unreachable server."""
            raise RerankerUnavailableError("no connection")

    await check_unreachable_reranker(Down)
    with pytest.raises(ConformanceError):
        await check_unreachable_reranker(Good)
