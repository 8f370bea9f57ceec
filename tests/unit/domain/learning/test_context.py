"""Contexts: checked at the door, and sorted into the buckets that feedback counts in."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval import Context
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.context import checked_context


def test_every_context_is_in_the_bucket_of_all_and_in_one_of_each_kind() -> None:
    """Missing values have no bucket."""
    assert Context().buckets() == ("",)
    assert Context(domain="db", complexity=0.5).buckets(3) == ("", "domain=db", "complexity=medium", "cluster=3")


@pytest.mark.parametrize(
    ("complexity", "named"),
    [(0.0, "low"), (0.33, "low"), (1 / 3, "medium"), (0.66, "medium"), (2 / 3, "high"), (1, "high")],
)
def test_complexity_is_bucketed_in_thirds(complexity: float, named: str) -> None:
    """The upper end of a third belongs to the next."""
    assert Context(complexity=complexity).buckets()[1] == f"complexity={named}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"domain": "x" * 201}, "domain is"),
        ({"actor": "a\x00"}, "without NUL"),
        ({"session": "\ud800"}, "surrogate"),
        (
            {"session": "s\x1b[31m"},
            r"session holds U\+001B \(an escape character\) at character 2, which cannot be sto",
        ),
        ({"domain": "a\u202e"}, r"U\+202E RIGHT-TO-LEFT OVERRIDE at character 2"),
        ({"complexity": 1.1}, "from 0 to 1"),
        ({"complexity": float("nan")}, "from 0 to 1"),
        ({"complexity": 10**400}, "from 0 to 1"),
        ({"backtracks": -1}, "from 0 to 2,147,483,647"),
        ({"backtracks": 2**31}, "from 0 to 2,147,483,647"),
    ],
)
def test_an_invalid_context_is_refused(fields: dict[str, Any], message: str) -> None:
    """One line says what it must be."""
    with pytest.raises(InvalidRequestError, match=message):
        Context(**fields)


@pytest.mark.parametrize("value", [None, {"domain": "x"}, "x"])
def test_a_search_takes_a_context_and_nothing_like_it(value: object) -> None:
    """A mapping would fail later."""
    with pytest.raises(InvalidRequestError, match=r"it must be a retrieval\.Context"):
        checked_context(value)
