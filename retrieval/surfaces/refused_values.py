"""What pydantic refuses, said in the words of whoever sent it: what the value must be, and which name may be meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

_TEXT, _WHOLE, _NUMBER, _TRUTH = "a text", "a whole number", "a number", "true or false"
_TIME = "a time with a time zone, such as 2026-05-31T12:00:00Z"
_MUST_BE = {
    "string_type": _TEXT,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "a finite number",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "uuid_parsing": "a UUID",
    "uuid_type": "a UUID",
    "timezone_aware": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "enum": "{expected}",
    "literal_error": "{expected}",
}
"""What a value must be, by the type of pydantic's error."""

_OF_LENGTH = {
    "string_too_short": ("at least", "min_length", "character"),
    "string_too_long": ("at most", "max_length", "character"),
    "too_short": ("at least", "min_length", "member"),
    "too_long": ("at most", "max_length", "member"),
}
"""What is said of a length, the name of the bound, and what is counted."""

_ALSO_CALLED = {"filter": "where", "filters": "where", "k": "limit", "top_k": "limit", "text": "query", "q": "query"}
"""The names that other search services have for what is called otherwise here."""

_KINDS = ((bool, _TRUTH), (int, _NUMBER), (float, _NUMBER), (str, _TEXT), (Mapping, "an object"), (list, "a list"))


def refusal_of(found: Mapping[str, Any]) -> str:
    """The fault of a value, from an entry of pydantic's ``errors()``; its value itself is not repeated."""
    kind = str(found.get("type", ""))
    told = {name: _plain(bound) for name, bound in (found.get("ctx") or {}).items()}
    if kind == "missing":
        return "is missing; it is needed"
    if kind in _OF_LENGTH:
        bound, name, counted = _OF_LENGTH[kind]
        return f"must have {bound} {told[name]} {counted}{'s' * (told[name] != 1)}"
    if kind not in _MUST_BE:
        return str(found["msg"]).removeprefix("Value error, ")
    wanted = _MUST_BE[kind].format_map(told)
    # Of a parameter everything is a text, and a bound is about a value of the right kind.
    given = _kind(found.get("input")) if kind.endswith("_type") and "input" in found else ""
    return f"must be {wanted}{f', not {given}' if given and given != wanted else ''}"


def names_there_are(name: object, names: Iterable[str]) -> str:
    """The names that could have been meant, the nearest first: ``did you mean 'limit'? There are: query, limit``."""
    known = list(names)
    same = _ALSO_CALLED.get(str(name))
    near = [same] if same in known else difflib.get_close_matches(str(name), known, n=1)
    listed = f"here are: {', '.join(known)}"
    return (f"did you mean {near[0]!r}? T" if near else "t") + listed if known else "there is none"


def _plain(bound: object) -> object:
    """1.0 is 1."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _kind(value: object) -> str:
    if value is None:
        return "null"
    # A number that is too large is a number all the same.
    return next((kind for one, kind in _KINDS if isinstance(value, one)), "")
