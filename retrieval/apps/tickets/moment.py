"""The moment that a question is asked as of."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator

_NUMBER = re.compile(r"\s*[+-]?[0-9]*\.?[0-9]*\s*")


def _no_number(value: Any) -> Any:
    """A number, or a text of digits, would be taken for seconds since 1970: "2024" for half past midnight of then."""
    if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        raise ValueError("give a time with a time zone, such as 2024-05-31T12:00:00Z")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_no_number)]
"""A time with a zone, or ISO 8601 text; never a number."""
