"""Checks of a retriever's arguments."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.apps.metaphors import Metaphor, Problem, validate_metaphor
from retrieval.domain.checks import check_flags, checked_number, checked_positive
from retrieval.domain.errors import InvalidProfileError, InvalidRequestError
from retrieval.domain.llm import NAME_LENGTH, checked_llm, model_name
from retrieval.domain.search.profile_parts import Learned

HUGE = 10**400
"""No float holds it."""


@pytest.mark.parametrize(
    "make",
    [
        lambda: checked_positive("seconds", HUGE, "20", 86_400),
        lambda: checked_number("exploration_rate", HUGE, 1e6),
        lambda: Metaphor(id="a", name="A", concreteness=HUGE),
        lambda: check_flags(prefer_concrete="no"),
        lambda: validate_metaphor("x"),  # type: ignore[arg-type]
        lambda: Metaphor(id="a", name="A", embedding="x"),  # type: ignore[arg-type]
        lambda: Metaphor(id="a", name="A", embedding=(float("nan"), 1.0)),
        lambda: Metaphor(id="a", name="A", embedding=(HUGE, 1.0)),
        lambda: Problem(id="p", description="d", embedding="x"),  # type: ignore[arg-type]
        lambda: checked_llm(object()),
    ],
)
def test_invalid_values_are_refused_with_a_reason(make: Any) -> None:
    """Never with an error of Python's own."""
    with pytest.raises(InvalidRequestError):
        make()


def test_a_share_that_no_float_holds_is_refused() -> None:
    """As any other that is above 1."""
    with pytest.raises(InvalidProfileError, match="share"):
        Learned(share=HUGE)


def test_a_domain_is_recognised_in_any_case_and_with_blanks() -> None:
    """Verdicts are counted by it."""
    assert Problem(id="p", description="d", domain=" Software ").domain == "software"


def test_a_models_name_is_short_and_printable() -> None:
    """A model without a name gets that of its class."""
    odd = type("Odd", (), {"name": "a\x00b\ud800" + "x" * 1_000_000})()
    assert model_name(odd).startswith("a b xxx")
    assert len(model_name(odd)) == NAME_LENGTH
    assert model_name(object()) == "object"
