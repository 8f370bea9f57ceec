"""The base classes of the models: only known names, strict JSON types, and a description of each field."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache, reduce
from itertools import pairwise
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin
from uuid import UUID

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainValidator,
    WithJsonSchema,
    create_model,
)

from retrieval.domain.checks import iso_time
from retrieval.domain.items.embedding import MAX_DIMENSIONS
from retrieval.domain.items.item import Item, StoredItem
from retrieval.domain.learning.context import MAX_BACKTRACKS, MAX_NAME_LENGTH, Context
from retrieval.domain.search.profile import Profile
from retrieval.domain.serialization import json_names
from retrieval.engine.request import MAX_PREFERRED


class _Described(BaseModel):
    """A part of a request or a response; ``examples`` are those of its schema."""

    model_config = ConfigDict(frozen=True)

    def __init_subclass__(cls, examples: Sequence[JsonValue] = (), **options: Any) -> None:
        super().__init_subclass__(**options)
        if examples:
            cls.model_config["json_schema_extra"] = {"examples": list(examples)}


class Sent(_Described, extra="forbid", strict=True, use_attribute_docstrings=True):
    """A part of a request; unknown names are refused, and so are texts in place of numbers.

    ``of``: a domain class whose fields the model gets, all of them optional. Fields that the model declares itself
    replace them.
    """

    def __init_subclass__(cls, of: type | None = None, **options: Any) -> None:
        # Called before pydantic collects the fields from the annotations.
        super().__init_subclass__(**options)
        if of is not None:
            own = inspect.get_annotations(cls)
            derived = {name: kind for name, kind in _json_fields(of, may_be_null=True) if name not in own}
            cls.__annotations__ = derived | own
            for name in derived:
                setattr(cls, name, None)


class AnswerPart(_Described, use_attribute_docstrings=True):
    """A part of a response, for the OpenAPI description; responses are not validated against it.

    A domain class in an annotation stands for its ``model_of``.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        # Called before pydantic collects the fields from the annotations.
        super().__init_subclass__(**options)
        annotations = inspect.get_annotations(cls, eval_str=True)
        cls.__annotations__ = {name: _json_type(kind) for name, kind in annotations.items()}


_MAY_BE_MISSING = frozenset({"explanation"})
"""Fields that a request may exclude from its response."""

_ENCLOSED: dict[type, type] = {StoredItem: Item}
"""Classes whose JSON begins with the fields of another class."""


@cache
def model_of(kind: type) -> type[BaseModel]:
    """The model of what ``as_dict`` of a domain class returns, with the docstrings of the class and its fields."""
    fields: dict[str, Any] = {}
    enclosed = _json_fields(_ENCLOSED[kind]) if kind in _ENCLOSED else ()
    for name, json_type in (*enclosed, *_json_fields(kind)):
        default = None if name in _MAY_BE_MISSING else ...
        # A field needs another Python name if pydantic has a method of its name.
        is_taken = hasattr(BaseModel, name)
        fields[f"{name}_field" if is_taken else name] = json_type, Field(default, alias=name if is_taken else None)
    about = _in_json(str(inspect.getdoc(kind)).partition("\n\n")[0])
    return create_model(kind.__name__, __base__=_Described, __doc__=about, **fields)


def listed(name: str, about: str, next_page: str | None = None, /, **parts: type) -> type[BaseModel]:
    """The model of a response with a list of a domain class, by the list's name.

    ``next_page``: the description of the member ``next``, of a response that may have a next page.
    """
    fields: dict[str, Any] = {part: list[model_of(kind)] for part, kind in parts.items()}  # type: ignore[misc]
    if next_page is not None:
        fields["next"] = Annotated[str | None, Field(description=next_page)]
    return create_model(name, __base__=_Described, __doc__=about, **fields)


AFTER = "The value of `after` for the next page; null: there is none."


def _json_fields(kind: type, *, may_be_null: bool = False) -> Iterator[tuple[str, Any]]:
    """The name and the annotated type of each field that ``as_dict`` of that class returns."""
    types: dict[str, Any] = {}
    documented: dict[str, str] = {}
    for base in [base for base in reversed(kind.__mro__) if is_dataclass(base)] or [kind]:
        # ``__module__`` of a public class is ``retrieval``; the globals of its methods name its source file.
        home = inspect.unwrap(base.__init__).__globals__ if is_dataclass(base) else vars(sys.modules[base.__module__])
        types |= inspect.get_annotations(base, globals=home, eval_str=True)
        documented |= _docstrings(base.__name__, home["__file__"])
    for part, name in json_names(kind).items():
        found = types.get(part) or inspect.get_annotations(getattr(kind, part).fget, eval_str=True)["return"]
        sent, about = _json_type(found | None if may_be_null else found), documented.get(part)
        yield name, Annotated[sent, Field(description=about)] if about else sent


def _json_type(kind: Any) -> Any:
    """The JSON type of the values that ``plain`` returns for values of that type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return reduce(or_, map(_json_type, inner))
    base = origin or kind
    if not isinstance(base, type) or issubclass(base, str | float | int | bool | Enum | BaseModel):
        return kind
    if issubclass(base, datetime | UUID):
        return str
    if base is Profile:
        return dict[str, Any]
    if is_dataclass(base) or hasattr(base, "_fields"):
        return model_of(base)  # type: ignore[arg-type]
    if issubclass(base, Mapping):
        return dict[str, _json_type(inner[1])]  # type: ignore[misc]
    return list[_json_type(inner[0])] if issubclass(base, Sequence | AbstractSet) else kind  # type: ignore[misc]


@cache
def _module_of(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def _docstrings(name: str, file: str) -> dict[str, str]:
    """The docstrings of the attributes and properties of a class, with ``null`` in place of ``None``."""
    classes = [node for node in _module_of(file).body if isinstance(node, ast.ClassDef)]
    parts = next(node.body for node in classes if node.name == name)
    docstrings = {node.name: ast.get_docstring(node) or "" for node in parts if isinstance(node, ast.FunctionDef)}
    for node, after in pairwise(parts):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(after, ast.Expr):
            docstrings[node.target.id] = inspect.cleandoc(str(ast.literal_eval(after.value)))
    return {name: _in_json(text) for name, text in docstrings.items()}


def _in_json(text: str) -> str:
    return re.sub(r"\bNone\b", "null", text).replace("``", "`")


Moment = Annotated[AwareDatetime, BeforeValidator(iso_time), Field(examples=["2026-05-31T12:00:00Z"])]
"""ISO 8601 with a time zone."""

Where = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": 'A filter, such as {"priority": "High"}: see docs/concepts/filters.md.',
            "examples": [{"priority": ["High", "Critical"], "hours": {"gte": 1, "lt": 24}}],
        }
    ),
]
"""A filter as the mapping that ``retrieval.domain.search.filters`` reads."""


def _preferences(value: Any) -> Any:
    """Check for one filter or a list; a union type would report an error for each alternative."""
    if not all(isinstance(part, dict) for part in (value if isinstance(value, list) else [value])):
        raise ValueError('give a filter such as {"priority": "High"}, or a list of filters')
    return value


Preferences = Annotated[
    dict[str, Any] | list[dict[str, Any]],
    PlainValidator(_preferences),
    WithJsonSchema(
        {
            "anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}, "maxItems": MAX_PREFERRED}],
            "description": "A filter, or several, the most preferred first: see docs/concepts/filters.md.",
            "examples": [{"priority": "High"}, [{"priority": "Critical"}, {"priority": "High"}]],
        }
    ),
]
"""The preferences, as ``Collection.search`` accepts them."""

InlineProfile = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": "A profile: see docs/reference/profiles.md.",
            "examples": [{"legs": {"dense": 0.6, "lexical": 0.4}, "fusion": {"kind": "weighted_sum"}}],
        }
    ),
]
"""A profile as ``Profile.from_dict`` reads it."""

Vector = Annotated[list[float], Field(max_length=MAX_DIMENSIONS, fail_fast=True)]
"""Shape (dimensions of the collection's embedding space,)."""

A_RETRIEVAL = "01a2014b-b29b-73d6-8b76-213aa0d89193"

RetrievalId = Annotated[str, Field(json_schema_extra={"format": "uuid"}, examples=[A_RETRIEVAL])]
"""The identifier of a search, from its result."""

Name = Annotated[str, Field(max_length=MAX_NAME_LENGTH)]


class SentSituation(Sent):
    """The caller and the situation. Everything is optional."""

    domain: Name = ""
    """The subject of the question, named by the application."""
    complexity: Annotated[float, Field(ge=0, le=1)] | None = None
    """The difficulty of the problem, 0 to 1."""
    actor: Name = ""
    """The user or agent that asks."""
    session: Name = ""
    """The conversation or run that the searches belong to."""
    backtracks: Annotated[int, Field(ge=0, le=MAX_BACKTRACKS)] = 0
    """The number of times that the caller has come back for another answer to the same problem."""
    generated: bool = False
    """Whether a model has already made candidates for this problem."""

    def context(self) -> Context:
        """The context for the platform. Raises ``InvalidRequestError``."""
        return Context(**self.model_dump())
