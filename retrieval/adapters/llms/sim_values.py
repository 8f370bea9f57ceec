"""Values that fit a JSON schema, made by rule."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

_DEEPEST = 8
_FORMATS = {
    "date-time": "2024-05-17T09:30:00+00:00",
    "date": "2024-05-17",
    "time": "09:30:00+00:00",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What values are made of."""

    rng: random.Random
    words: Sequence[str]
    """For texts; none gives texts of a general kind."""
    lists: Sequence[str] = ()
    """For lists of texts; none gives lists of words."""
    least: bool = False
    """Whether every value is the emptiest that fits."""
    root: Any = None
    depth: int = 0


def value_for(schema: Any, filling: Filling) -> Any:
    """A value for the schema. Keywords without a simple rule (``pattern``, ``not`` and the like) are not heeded."""
    if not isinstance(schema, dict):
        return None
    if filling.root is None:
        filling = replace(filling, root=schema)
    filling = replace(filling, depth=filling.depth + 1)
    schema = _resolved(schema, filling)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return filling.rng.choice(schema["enum"])
    return _MAKERS.get(_type(schema), _null)(schema, filling)


def _resolved(schema: dict[str, Any], filling: Filling) -> dict[str, Any]:
    """The schema with references followed and choices made: the first, or the last once it has become deep."""
    for _ in range(_DEEPEST):
        if "$ref" in schema:
            schema = {**_referred(schema["$ref"], filling.root), **_without(schema, "$ref")}
        elif choices := schema.get("anyOf") or schema.get("oneOf"):
            chosen = choices[-1 if filling.depth > _DEEPEST else 0]
            schema = {**_without(schema, "anyOf", "oneOf"), **(chosen if isinstance(chosen, dict) else {})}
        elif parts := schema.get("allOf"):
            schema = _together([_without(schema, "allOf"), *(part for part in parts if isinstance(part, dict))])
        else:
            break
    return schema


def _referred(reference: str, root: Any) -> dict[str, Any]:
    found = root
    for name in reference.removeprefix("#").strip("/").split("/"):
        if name:
            found = found.get(name.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}


def _together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Schemas that all hold, as one; their properties come together."""
    merged: dict[str, Any] = {}
    for part in parts:
        properties = {**merged.get("properties", {}), **part.get("properties", {})}
        required = [*merged.get("required", []), *part.get("required", [])]
        merged |= part
        if properties:
            merged |= {"properties": properties, "required": required}
    return merged


def _without(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name not in names}


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind is not None:
        return str(kind)
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else "string"


def _object(schema: dict[str, Any], filling: Filling) -> dict[str, Any]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    names = [*properties, *(name for name in required if name not in properties)]
    if filling.least or filling.depth > _DEEPEST:
        names = [name for name in names if name in required]
    return {name: value_for(properties.get(name, {"type": "string"}), filling) for name in names}


def _array(schema: dict[str, Any], filling: Filling) -> list[Any]:
    first, items = schema.get("prefixItems", []), schema.get("items", {"type": "string"})
    least = max(schema.get("minItems", 0), len(first))
    if items is False:
        return [value_for(one, filling) for one in first]
    texts = _texts_for(items, filling)
    wanted = least if filling.least or filling.depth > _DEEPEST else max(least, len(texts) or 2)
    number = min(wanted, schema.get("maxItems", wanted))
    made = [value_for(one, filling) for one in first[:number]]
    rest = [texts.pop(0) if texts else value_for(items, filling) for _ in range(number - len(made))]
    return [*made, *rest]


def _texts_for(items: Any, filling: Filling) -> list[str]:
    """The given texts, where the list is one of texts."""
    is_text = isinstance(items, dict) and _type(items) == "string" and not {"enum", "const", "format"} & set(items)
    longest = items.get("maxLength", math.inf) if is_text else 0
    return [text for text in filling.lists if len(text) <= longest] if is_text else []


def _string(schema: dict[str, Any], filling: Filling) -> str:
    if "format" in schema and schema["format"] in _FORMATS:
        return _FORMATS[schema["format"]]
    least = schema.get("minLength", 0)
    words = list(filling.words) or ["something"]
    text = "" if filling.least else " ".join(filling.rng.sample(words, min(3, len(words))))
    return text.ljust(least, "x")[: schema.get("maxLength", max(len(text), least))]


def _number(schema: dict[str, Any], filling: Filling) -> float:
    low, high = _bounds(schema)
    return low if filling.least else round(low + filling.rng.random() * (high - low) * 0.99, 6)


def _integer(schema: dict[str, Any], filling: Filling) -> int:
    step = schema.get("multipleOf", 1)
    low, high = _bounds(schema)
    first = math.ceil(low / step) + (schema.get("exclusiveMinimum") == math.ceil(low / step) * step)
    last = math.floor(high / step) - (schema.get("exclusiveMaximum") == math.floor(high / step) * step)
    return int(step * (first if filling.least or last <= first else filling.rng.randint(first, last)))


def _bounds(schema: dict[str, Any]) -> tuple[float, float]:
    """The lowest and the highest number; what is not given is as near as makes a sensible number."""
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        low = min(0, high - 1) if high is not None else 0
    if high is None:
        high = max(low + 1, 10 if schema.get("type") == "integer" else 1)
    if "exclusiveMinimum" in schema:
        low += (high - low) * 0.01 if schema.get("type") == "number" else 0
    return low, high


def _boolean(_: dict[str, Any], filling: Filling) -> bool:
    return not filling.least and filling.rng.random() < 0.5


def _null(_: dict[str, Any], __: Filling) -> None:
    return None


_MAKERS = {
    "object": _object,
    "array": _array,
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "null": _null,
}
