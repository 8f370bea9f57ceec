"""JSON answers: parsed and checked, whatever the model did."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.adapters.llms.json_shape import JSONShape
from retrieval.adapters.llms.openai import Form, response_format
from retrieval.domain.errors import LLMRejectedError

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"type": {"type": "string"}, "number": {"$ref": "#/$defs/number"}},
    "required": ["type", "number"],
    "additionalProperties": False,
    "$defs": {"number": {"type": "integer"}},
}


def test_an_answer_that_fits_is_given_as_it_is() -> None:
    """References inside the schema are followed."""
    assert JSONShape(CLOSED).read('{"type": "a", "number": 3}') == {"type": "a", "number": 3}


def test_an_answer_that_does_not_fit_says_where() -> None:
    """In one line, however long the answer."""
    with pytest.raises(LLMRejectedError, match=r"at \$\.number: .*not of type 'integer'") as caught:
        JSONShape(CLOSED).read('{"type": "a", "number": "%s"}' % ("3" * 5))
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(LLMRejectedError) as caught:
        JSONShape({"type": "integer"}).checked("x\n" * 10_000)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "schema", [{"type": "colour"}, {"minimum": "one"}, {"type": {1, 2}}, {"properties": []}, {"required": "colour"}]
)
def test_an_invalid_schema_is_refused(schema: dict[str, Any]) -> None:
    """No answer can fit it, so none is asked for."""
    with pytest.raises(LLMRejectedError, match="the schema is not a JSON schema"):
        JSONShape(schema)


def test_a_schema_that_never_ends_is_refused() -> None:
    """An answer that it cannot be checked against is not given out."""
    endless = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    with pytest.raises(LLMRejectedError, match="cannot be followed"):
        JSONShape(endless).read("{}")


@pytest.mark.parametrize(
    ("changes", "strict"),
    [
        ({}, True),
        ({"additionalProperties": True}, False),
        ({"required": ["type"]}, False),
        ({"$defs": {"number": {"type": "object", "properties": {"a": {}}}}}, False),
        ({"properties": {"type": {"anyOf": [{"type": "object"}]}, "number": {}}}, False),
    ],
)
def test_only_closed_schemas_are_requested_strictly(changes: dict[str, Any], *, strict: bool) -> None:
    """Every object in them requires all it has and allows no more: the endpoint refuses others."""
    form = response_format(Form.SCHEMA, JSONShape({**CLOSED, **changes}))
    assert form is not None
    assert form["json_schema"]["strict"] is strict


def test_the_order_of_properties_is_kept() -> None:
    """A model writes them in that order: what comes first is thought of first."""
    instructions = JSONShape({"type": "object", "properties": {"why": {}, "answer": {}}}).instructions
    assert instructions.index("why") < instructions.index("answer")


@pytest.mark.parametrize(
    "around",
    [
        "```json\n{}\n```",
        "Sure!\n```json\n{}\n```",
        "Here [as asked] you go: {}",
        "{} Hope this helps",
        "```\n{}\n```\nHope it helps",
        "\ufeff{}",
    ],
)
def test_words_around_an_answer_are_left_out(around: str) -> None:
    """The first object or list in them is the answer."""
    assert JSONShape(CLOSED).read(around.replace("{}", '{"type": "a", "number": 3}')) == {"type": "a", "number": 3}


@pytest.mark.parametrize("text", ["[[1], [2", "words alone", "a {curly} word", '{"a": [1], "b'])
def test_no_part_of_a_broken_answer_is_the_answer(text: str) -> None:
    """Neither are words."""
    with pytest.raises(LLMRejectedError, match="not JSON"):
        JSONShape({"type": "array"}).read(text)
