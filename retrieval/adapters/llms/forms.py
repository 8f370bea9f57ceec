"""The forms in which an endpoint can be asked for JSON, the most exact first."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from retrieval.adapters.llms.json_shape import JSONShape


class Form(StrEnum):
    """How ``response_format`` says what the answer is to be."""

    SCHEMA = "json_schema"
    """The schema itself, which the server holds the model to."""
    OBJECT = "json_object"
    """Any JSON object."""
    WORDS = "text"
    """Nothing: the instructions alone say it."""


def forms_of(shape: JSONShape) -> list[Form]:
    """The forms that an answer of that shape can be asked for in; only objects have a form of their own."""
    return list(Form) if shape.is_object else [Form.WORDS]


def response_format(form: Form, shape: JSONShape) -> dict[str, Any] | None:
    """The parameter of the request; None for an answer in words."""
    if form is Form.WORDS:
        return None
    if form is Form.OBJECT:
        return {"type": form.value}
    return {
        "type": form.value,
        "json_schema": {"name": "answer", "schema": shape.schema, "strict": shape.is_strict},
    }
