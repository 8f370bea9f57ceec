"""The ages, dates and times that a user writes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from retrieval.domain.errors import InvalidRequestError

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

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
    age = None if match is None else timedelta(**{_UNITS[match[2]]: int(match[1])})
    if age is not None and age <= _LONGEST:
        return age
    ages = "a time from now such as 90d" if option == "--expires" else "an age such as 7d or 24h"
    return time_of(option, text, f" or {ages}")


def time_of(option: str, text: str, ages: str = "") -> datetime:
    """A date or time in ISO 8601, UTC without a zone. Raises ``InvalidRequestError``, which ends with ``ages``."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidRequestError(f"cannot read {option} {text!r}: write a date such as 2026-03-01{ages}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def moment_of(option: str, text: str | None) -> datetime | None:
    """The time of an option; None without it. Raises ``InvalidRequestError``."""
    return None if text is None else time_of(option, text)
