"""Checks of the numbers in a profile."""

from __future__ import annotations

import sys

from retrieval.domain.errors import InvalidProfileError


def check_share(name: str, value: object) -> None:
    """Raise ``InvalidProfileError`` unless the value is a number from 0 to 1."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:  # type: ignore[operator]
        raise InvalidProfileError(f"{name} is {value!r:.80}; it must be a number from 0 to 1")


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Raise ``InvalidProfileError`` unless the value is a whole number in the range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidProfileError(f"{name} is {value!r:.80}; it must be a whole number from {least} to {most}")


def check_weight(name: str, value: object) -> float:
    """The number. Raises ``InvalidProfileError`` unless it is finite and at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise InvalidProfileError(f"{name} is {value!r:.80}; it must be a number of at least 0")
    return float(value)
