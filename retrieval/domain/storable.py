"""What PostgreSQL can store of the texts and numbers that callers give."""

from __future__ import annotations

import math
from typing import TypeGuard


def is_storable(text: object) -> TypeGuard[str]:
    """Whether it is text without NUL and without half of a surrogate pair, which has no UTF-8."""
    return isinstance(text, str) and "\x00" not in text and text.encode(errors="replace").decode() == text


def is_finite(value: object) -> TypeGuard[int | float]:
    """Whether it is a number, no boolean, that a float of 64 bits can hold: within ±1.8e308."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False
