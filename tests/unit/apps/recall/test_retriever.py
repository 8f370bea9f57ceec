"""The arguments of a retriever and of its searches."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from retrieval.adapters.llms.sim import SimLLM
from retrieval.apps.recall import DualRetriever
from retrieval.domain.errors import InvalidRequestError

STORAGE: Any = SimpleNamespace(search=print)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"storage": None}, "storage is None; give a collection"),
        ({"llm": "gpt"}, "llm is 'gpt'; give a language model"),
        ({"profile": "x"}, "profile is 'x'; give a Profile"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"seed": 10**5000}, "seed is a number of many digits"),
        ({"rewrite_timeout_seconds": 10**400}, "rewrite_timeout_seconds is a number of many digits"),
        ({"clock": 5}, "clock is 5; it must be a function"),
    ],
)
def test_invalid_parts_of_a_retriever_are_refused(arguments: dict[str, Any], message: str) -> None:
    """In one line that says what to give."""
    with pytest.raises(InvalidRequestError, match=message):
        DualRetriever(**{"storage": STORAGE, "llm": SimLLM(), **arguments})


@pytest.mark.parametrize("as_of", ["2026-01-01", datetime(2026, 1, 1), 5])  # noqa: DTZ001 - without a zone
async def test_a_moment_is_a_time_with_a_zone(as_of: Any) -> None:
    """A text is none."""
    with pytest.raises(InvalidRequestError, match=r"as_of is .*; it must be a datetime with a time zone"):
        await DualRetriever(STORAGE, None).search("Ann", as_of=as_of)


@pytest.mark.parametrize("now", ["2026-01-01", datetime(2026, 1, 1)])  # noqa: DTZ001 - without a zone
async def test_a_clock_gives_a_time_with_a_zone(now: Any) -> None:
    """Whether the question names a time or not."""
    with pytest.raises(InvalidRequestError, match=r"the clock's time is .*; it must be a datetime with a time zone"):
        await DualRetriever(STORAGE, None, clock=lambda: now).search("Ann")


@pytest.mark.parametrize("deep_search", ["no", None, 0])
async def test_deep_search_is_true_or_false(deep_search: Any) -> None:
    """The text "no" is not taken for a yes."""
    with pytest.raises(InvalidRequestError, match=r"deep_search is .*; it must be True or False"):
        await DualRetriever(STORAGE, None).search("Ann", deep_search=deep_search)


def test_only_texts_are_judged_and_no_endless_number_merges() -> None:
    """Both are refused in one line."""
    retriever = DualRetriever(STORAGE, None)
    with pytest.raises(InvalidRequestError, match="text"):
        retriever.needs_deep_search(5)  # type: ignore[arg-type]
    for number in (10**400, 10**5000):
        with pytest.raises(InvalidRequestError, match="k is"):
            retriever.merge_rrf([], k=number)


async def test_a_stretch_without_a_moment_is_refused() -> None:
    """It is not the wrong way round: it is empty."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidRequestError, match="so it is empty"):
        await DualRetriever(STORAGE, None).search("Ann", time_range=(moment, moment))
