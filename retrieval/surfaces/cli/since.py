"""``--since``: a moment, or how long ago it was."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from retrieval.domain.errors import InvalidRequestError

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def since_of(text: str, now: datetime) -> datetime:
    """The moment that ``7d``, ``24h``, ``2w``, ``30m`` or an ISO 8601 time means; one without a zone is UTC's.

    Raises ``InvalidRequestError`` for anything else.
    """
    ago = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip())
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise InvalidRequestError(f"cannot read --since {text!r}: write 7d, 24h or 2026-03-01") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
