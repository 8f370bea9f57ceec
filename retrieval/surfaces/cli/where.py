"""Conditions as people type them, ``priority=High`` or ``hours>=24``, as a mapping that filters."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from retrieval.domain.errors import InvalidFilterError
from retrieval.domain.filters import FIELDS, NUMBER_FIELDS, parse_where
from retrieval.domain.json_text import JSONTextError, json_of

_CONDITION = re.compile(r"([^=<>!]+)(==|=|!=|>=|<=|>|<)(.*)", re.DOTALL)
_OPERATOR = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 300
_TEXTS = FIELDS - NUMBER_FIELDS
"""The fields whose values are what was typed."""


def where_of(conditions: Sequence[str]) -> dict[str, Any] | None:
    """All the conditions together, as a mapping that ``Collection.search`` takes; None without any.

    A condition is ``FIELD=VALUE``, or with ``!=``, ``>``, ``>=``, ``<``, ``<=``; or a whole mapping of
    ``retrieval.domain.filters`` as a JSON object. A value that reads as a JSON number, ``true`` or ``false``
    is ordered as that, and equals both that and the same text: ``year=2024`` finds 2024 and "2024". Spaces
    around the field and the value do not count. Raises ``InvalidFilterError`` for anything else.
    """
    parsed = [condition_of(text) for text in conditions]
    where = {"and": parsed} if len(parsed) > 1 else parsed[0] if parsed else None
    parse_where(where)
    return where


def condition_of(text: str) -> dict[str, Any]:
    """One condition as a mapping. Raises ``InvalidFilterError``."""
    if "\x00" in text or not _is_unicode(text):
        raise InvalidFilterError(f"cannot read the condition {text!r}: it holds bytes that no item can have")
    if text.lstrip().startswith("{"):
        return _json_mapping(text)
    match = _CONDITION.fullmatch(text)
    field, operator, value = (part.strip() for part in match.groups()) if match else ("", "", "")
    if not field:
        raise InvalidFilterError(
            f"cannot read the condition {text!r}: write FIELD=VALUE, with = != > >= < or <=, "
            """such as priority=High, or a JSON object such as '{"priority": ["High", "Low"]}'"""
        )
    if operator in _OPERATOR:
        return {field: {_OPERATOR[operator]: _typed(value) if field not in _TEXTS else value}}
    values = _spellings(field, value)
    if operator == "!=":
        return {field: {"nin": values}}
    return {field: {"in": values}} if len(values) > 1 else {field: values[0]}


def _spellings(field: str, value: str) -> list[Any]:
    """What equals the value: an attribute may hold ``26`` as a number or as a text."""
    typed = value if field in _TEXTS else _typed(value)
    return [typed] if typed is value or field in FIELDS else [typed, value]


def _typed(value: str) -> str | int | float | bool:
    if value in ("true", "false"):
        return value == "true"
    match = _JSON_NUMBER.fullmatch(value) if len(value) <= _LONGEST_NUMBER else None
    if match is None:
        return value
    number = int(value) if match[1] is None and match[2] is None else float(value)
    return number if math.isfinite(number) else value


def _json_mapping(text: str) -> dict[str, Any]:
    try:
        value = json_of(text)
    except JSONTextError as error:
        raise InvalidFilterError(f"cannot read the condition {text[:60]!r}: {error}") from None
    if not isinstance(value, dict) or not _has_unicode_names(value):
        raise InvalidFilterError(f"the condition {text!r} holds half of a surrogate pair in a field's name")
    return value


def _has_unicode_names(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_unicode(name) and _has_unicode_names(inner) for name, inner in value.items())
    if isinstance(value, list):
        return all(map(_has_unicode_names, value))
    return True


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
