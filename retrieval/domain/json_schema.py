"""JSON Schema: the validator of a schema, and the schema of a collection's attributes. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from retrieval.domain.checks import shown_line, written
from retrieval.domain.errors import InvalidItemError, InvalidRequestError
from retrieval.domain.items.item import Item, refusal

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

MAX_SCHEMA_BYTES = 64 * 1024

_LISTED_VIOLATIONS = 3


@lru_cache(maxsize=128)
def validator_of(schema: str) -> Validator:
    """The validator of a schema in JSON, of draft 2020-12 unless it names one. Raises ``jsonschema.SchemaError``."""
    # The library takes 30 ms to load, so it is loaded only where there is a schema.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    parsed = json.loads(schema)
    kind = validator_for(parsed, default=Draft202012Validator)
    kind.check_schema(parsed)
    # With an empty registry nothing is fetched, whatever address a schema refers to.
    return kind(parsed, registry=Registry())


@dataclass(frozen=True, slots=True)
class AttributeSchema:
    """The schema that the attributes of a collection's items fit."""

    definition: Mapping[str, Any]
    text: str = field(compare=False, repr=False)
    """The same as JSON."""

    @classmethod
    def checked(cls, schema: object) -> Self | None:
        """The checked schema of a mapping; None for None. Raises ``InvalidRequestError``."""
        if schema is None:
            return None
        from jsonschema.exceptions import SchemaError

        example = '{"properties": {"priority": {"enum": ["High", "Low"]}}, "required": ["priority"]}'
        if not isinstance(schema, Mapping):
            raise InvalidRequestError(f"a schema is a JSON Schema of the attributes, such as {example}")
        try:
            text = json.dumps(dict(schema), sort_keys=True, allow_nan=False)
            validator_of(text)
        except (SchemaError, TypeError, ValueError, RecursionError) as wrong:
            reason = wrong.message if isinstance(wrong, SchemaError) else str(wrong)
            message = f"the schema is not a JSON Schema: {shown_line(reason, 200)}; an example: {example}"
            raise InvalidRequestError(message) from None
        if len(text.encode()) > MAX_SCHEMA_BYTES or "\\u0000" in text:
            raise InvalidRequestError(f"a schema has at most {MAX_SCHEMA_BYTES:,} bytes, and no NUL")
        keywords = list(_keywords(schema))
        references = [value for name, value in keywords if name in _REFERRING and isinstance(value, str)]
        if foreign := next((ref for ref in references if not ref.startswith("#")), None):
            raise InvalidRequestError(f"the schema refers to {written(foreign, 100)}; put that into its $defs")
        if any(name in _UNBOUNDED for name, _ in keywords):
            raise InvalidRequestError(
                "a schema has no 'pattern' and no 'patternProperties': one value can keep a regular expression busy "
                "forever; use enum, const, minLength and maxLength"
            )
        if schema.get("type", "object") != "object":
            raise InvalidRequestError(f"attributes are an object; the schema's type is {written(schema['type'])}")
        _check_followed(schema, references, validator_of(text))
        return cls(json.loads(text), text)

    @classmethod
    def stored(cls, definition: Mapping[str, Any]) -> Self:
        """The schema that was checked before it was stored."""
        return cls(definition, json.dumps(definition, sort_keys=True))

    def check(self, item: Item) -> None:
        """Raise ``InvalidItemError`` for an item whose attributes do not fit; the message names them and the reason."""
        from referencing.exceptions import Unresolvable

        try:
            errors = validator_of(self.text).iter_errors(dict(item.attributes))
            violations = sorted(errors, key=lambda error: [str(step) for step in error.absolute_path])
        except (Unresolvable, RecursionError) as unusable:
            reason = f"the collection's schema cannot be followed: {shown_line(str(unusable), 200)}"
            raise refusal(item.item_id, reason) from None
        if violations:
            others = len(violations) - _LISTED_VIOLATIONS
            more = f"; and {others} more" if others > 0 else ""
            listed = "; ".join(map(_violation, violations[:_LISTED_VIOLATIONS]))
            raise InvalidItemError(
                f"item {written(item.item_id)} does not fit the collection's schema: {listed}{more}",
                item_id=item.item_id,
            )

    def check_each(self, items: Iterable[Item]) -> None:
        """Raise ``InvalidItemError`` for the first item that does not fit."""
        for item in items:
            self.check(item)


def _violation(error: ValidationError) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    where = f"attribute {written(path.removeprefix('.'))}" if path else "attributes"
    return f"{where}: {shown_line(error.message, 200)}"


_UNBOUNDED = frozenset({"pattern", "patternProperties"})
_OF_NAMES = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_OF_VALUES = frozenset({"enum", "const", "default", "examples"})


_REFERRING = frozenset({"$ref", "$dynamicRef"})


def _keywords(schema: object) -> Iterable[tuple[str, object]]:
    """The keywords of a schema and of the schemas in it, with their values."""
    if isinstance(schema, Mapping):
        for name, value in schema.items():
            yield name, value
            if name not in _OF_VALUES:
                inner = value.values() if name in _OF_NAMES and isinstance(value, Mapping) else [value]
                for part in inner:
                    yield from _keywords(part)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from _keywords(value)


def _check_followed(schema: Mapping[str, Any], references: Iterable[str], validator: Validator) -> None:
    """Raise ``InvalidRequestError`` for a reference that leads nowhere, or in a circle."""
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    whole = Resource.from_contents(schema, default_specification=DRAFT202012)
    resolver = Registry().with_resource("", whole).resolver()
    for reference in references:
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise InvalidRequestError(f"the schema refers to {written(reference, 100)}, which is not in it") from None
    try:
        list(validator.iter_errors({}))
    except RecursionError:
        raise InvalidRequestError("the schema refers to itself endlessly; remove a $ref") from None
