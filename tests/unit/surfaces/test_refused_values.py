"""Values that a model refuses, told in plain words, whichever door they came through."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from retrieval.surfaces.refused_values import arguments_hint, refusal_of


class FieldKinds(BaseModel):
    """A model with a field of each kind."""

    model_config = ConfigDict(strict=True)

    text: Annotated[str, Field(min_length=2, max_length=3)] = "ab"
    number: Annotated[int, Field(ge=1, lt=9)] = 1
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    truth: bool = True
    names: Annotated[list[str], Field(max_length=1)] = []
    where: dict[str, Any] = {}
    kind: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("text", 5, "must be a text, not a number"),
        ("text", None, "must be a text, not null"),
        ("text", "a", "must have at least 2 characters"),
        ("text", "abcd", "must have at most 3 characters"),
        ("number", "5", "must be a whole number, not a text"),
        ("number", True, "must be a whole number, not true or false"),
        ("number", 0, "must be 1 or more"),
        ("number", 9, "must be less than 9"),
        ("share", [1], "must be a number, not a list"),
        ("share", 0.0, "must be more than 0"),
        ("share", 2.0, "must be 1 or less"),
        ("truth", "yes", "must be true or false, not a text"),
        ("names", "a", "must be a list, not a text"),
        ("names", ["a", "b"], "must have at most 1 member"),
        ("where", ["a"], "must be an object, not a list"),
        ("kind", "c", "must be 'a' or 'b'"),
    ],
)
def test_a_refused_value_gets_the_expected_type(field: str, value: object, message: str) -> None:
    """The message names the expected type, but never the value."""
    with pytest.raises(ValidationError) as refused:
        FieldKinds.model_validate({field: value})
    assert [refusal_of(dict(error)) for error in refused.value.errors()] == [message]


def test_other_refusals_keep_their_words() -> None:
    """Messages of our own validators are not reworded."""
    assert refusal_of({"type": "value_error", "msg": "Value error, give a time"}) == "give a time"
    assert refusal_of({"type": "missing", "msg": "Field required"}) == "is missing; it is needed"


def test_the_nearest_name_comes_first() -> None:
    """The nearest name comes first, if one is near."""
    assert arguments_hint("limt", ["query", "limit"]) == "did you mean 'limit'? There are: query, limit"
    assert arguments_hint("zebra", ["query", "limit"]) == "there are: query, limit"
    assert arguments_hint("zebra", []) == "none is taken"


def test_many_and_long_names_are_shown_in_part() -> None:
    """The number of the other names is shown; the nearest name is shown wherever it is in the list."""
    names = ["x" * 100, *(f"tickets-{number}" for number in range(62))]
    hint = arguments_hint("tickets-6O", names)
    assert hint.startswith(f"did you mean 'tickets-6'? There are: {'x' * 59}…, tickets-0, ")
    assert hint.endswith(", tickets-18 and 43 more")


@pytest.mark.parametrize(("name", "name_here"), [("filter", "where"), ("top_k", "limit"), ("querry", "query")])
def test_a_name_of_other_services_leads_to_ours(name: str, name_here: str) -> None:
    """The known name is suggested if the model has it; otherwise similar spellings count."""
    assert arguments_hint(name, ["query", "where", "limit"]).startswith(f"did you mean {name_here!r}? There are: ")
    assert "where" not in arguments_hint("filter", ["file", "limit"])
