"""Why a value of a user is refused, which name may be meant, and how times and ages are read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from retrieval.domain.checks import choices_hint, meant_argument
from retrieval.domain.errors import InvalidRequestError

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
"""The requirement on a value, by the type of pydantic's error."""

_OF_LENGTH = {
    "string_too_short": ("at least", "min_length", "character"),
    "string_too_long": ("at most", "max_length", "character"),
    "too_short": ("at least", "min_length", "member"),
    "too_long": ("at most", "max_length", "member"),
}
"""The wording of a length, the name of the bound, and the counted unit."""

_KINDS = ((bool, _TRUTH), (int, _NUMBER), (float, _NUMBER), (str, _TEXT), (Mapping, "an object"), (list, "a list"))


def refusal_of(entry: Mapping[str, Any]) -> str:
    """The fault of a value, from an entry of pydantic's ``errors()``, without the value itself."""
    kind = str(entry.get("type", ""))
    bounds = {name: _plain(bound) for name, bound in (entry.get("ctx") or {}).items()}
    if kind == "missing":
        return "is missing; it is needed"
    if kind in _OF_LENGTH:
        bound, name, counted = _OF_LENGTH[kind]
        return f"must have {bound} {bounds[name]} {counted}{'s' * (bounds[name] != 1)}"
    if kind not in _MUST_BE:
        return str(entry["msg"]).removeprefix("Value error, ")
    requirement = _MUST_BE[kind].format_map(bounds)
    # A parameter is always a text, and a bound applies only to a value of the right type.
    input_kind = _kind(entry.get("input")) if kind.endswith("_type") and "input" in entry else ""
    return f"must be {requirement}{f', not {input_kind}' if input_kind and input_kind != requirement else ''}"


def arguments_hint(name: object, arguments: Iterable[str]) -> str:
    """A hint at the known arguments, also by their names in other services; see ``choices_hint``."""
    known = list(arguments)
    return choices_hint(meant_argument(str(name), known) or name, known) if known else "none is taken"


def _plain(bound: object) -> object:
    """1.0 is 1."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _kind(value: object) -> str:
    if value is None:
        return "null"
    # A number that is too large is still a number.
    return next((kind for known, kind in _KINDS if isinstance(value, known)), "")


_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

_AGES = " or an age such as 7d or 24h"

_LONGEST = timedelta(days=36_500)
"""The longest age: a longer one is a mistake, and may lie before the first representable time."""


def since_of(text: str, now: datetime) -> datetime:
    """The time of ``7d``, ``24h``, ``2w`` or ``30m`` ago, or of an ISO 8601 text, in UTC if it has no zone.

    Raises ``InvalidRequestError`` for anything else.
    """
    begin = age_or_time(text)
    return now - begin if isinstance(begin, timedelta) else begin


def age_or_time(text: str, *, option: str = "--since") -> timedelta | datetime:
    """The length of time of an age, or a time. Raises ``InvalidRequestError``, which names the option."""
    match = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip())
    if match is None:
        return time_of(option, text)
    age = timedelta(**{_UNITS[match[2]]: int(match[1])})
    if age > _LONGEST:
        raise _time_error(option, text)
    return age


def time_of(option: str, text: str) -> datetime:
    """A date or time in ISO 8601, in UTC if it has no zone. Raises ``InvalidRequestError``."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _time_error(option, text) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _time_error(option: str, text: str) -> InvalidRequestError:
    ages = {"--since": _AGES, "since": _AGES, "--expires": " or a time from now such as 90d"}.get(option, "")
    return InvalidRequestError(f"cannot read {option} {text!r}: write a date such as 2026-03-01{ages}")
