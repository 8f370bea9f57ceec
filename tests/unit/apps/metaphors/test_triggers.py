"""When candidates are generated."""

from __future__ import annotations

import pytest

from retrieval.apps.metaphors.ranking import Situation, is_unusual, why_generate

FINE = 0.8


@pytest.mark.parametrize(("score", "expected"), [(0.0, True), (0.299, True), (0.3, False), (0.9, False)])
def test_a_top_score_below_three_tenths_calls_for_it(score: float, expected: bool) -> None:  # noqa: FBT001
    """Three tenths itself does not."""
    assert (why_generate(Situation(top_score=score)) is not None) == expected


@pytest.mark.parametrize(
    ("context", "expected"),
    [("No Good Candidates so far", True), ("there were no good candidates", True), ("good", False), ("", False)],
)  # fmt: skip
def test_a_context_that_says_so_calls_for_it(context: str, expected: bool) -> None:  # noqa: FBT001
    """In any case of letters, anywhere in it."""
    assert (why_generate(Situation(top_score=FINE, context=context)) is not None) == expected


@pytest.mark.parametrize(
    ("backtracks", "after", "expected"), [(1, 2, False), (2, 2, True), (3, 2, True), (3, 4, False)]
)
def test_so_many_backtracks_call_for_it(backtracks: int, after: int, expected: bool) -> None:  # noqa: FBT001
    """The number is the caller's."""
    why = why_generate(Situation(top_score=FINE, backtracks=backtracks), after_backtracks=after)
    assert (why is not None) == expected


def test_an_unusual_domain_calls_for_it_and_is_named() -> None:
    """The reason says which."""
    why = why_generate(Situation(top_score=FINE, unusual_domain="falconry"))
    assert why is not None
    assert "falconry" in why


@pytest.mark.parametrize(
    ("verdicts", "of_domain", "is_known", "expected"),
    [(20, 0, False, True), (19, 0, False, False), (500, 1, False, False), (500, 0, True, False)],
)
def test_a_domain_is_unusual_once_enough_is_known_and_nothing_of_it(
    verdicts: int,
    of_domain: int,
    is_known: bool,  # noqa: FBT001
    expected: bool,  # noqa: FBT001
) -> None:
    """Twenty verdicts, none of them in it, and no metaphor from it."""
    told = is_unusual(verdicts=verdicts, verdicts_of_domain=of_domain, is_a_metaphors_domain=is_known)
    assert told == expected
