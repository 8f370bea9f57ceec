"""``--since``, ``--until`` and ``--expires``: a moment, or how far from now it is."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from retrieval.domain.errors import InvalidRequestError

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

_AGES = " or an age such as 7d or 24h"

_LONGEST = timedelta(days=36_500)
"""An age beyond a century is a slip, and may lie before all times that can be told."""


def since_of(text: str, now: datetime) -> datetime:
    """The moment that ``7d``, ``24h``, ``2w``, ``30m`` or an ISO 8601 time means; one without a zone is UTC's.

    Raises ``InvalidRequestError`` for anything else.
    """
    begin = age_or_time(text)
    return now - begin if isinstance(begin, timedelta) else begin


def age_or_time(text: str, *, option: str = "--since") -> timedelta | datetime:
    """The same with an age as a length of time. Raises ``InvalidRequestError``, which names the option."""
    ago = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip())
    if ago is None:
        return time_of(option, text)
    age = timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    if age > _LONGEST:
        raise _unreadable(option, text)
    return age


def time_of(option: str, text: str) -> datetime:
    """A date or time in ISO 8601, in UTC where it names no zone. Raises ``InvalidRequestError``."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise _unreadable(option, text) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _unreadable(option: str, text: str) -> InvalidRequestError:
    ages = {"--since": _AGES, "since": _AGES, "--expires": " or a time from now such as 90d"}.get(option, "")
    return InvalidRequestError(f"cannot read {option} {text!r}: write a date such as 2026-03-01{ages}")
