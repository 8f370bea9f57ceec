"""Checks of texts that are given from outside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

from retrieval.domain.errors import InvalidRequestError


def checked_text(name: str, value: object, *, is_needed: bool = False) -> str:
    """The text. Raises ``InvalidRequestError`` for anything else, and for an empty one that is needed."""
    if not isinstance(value, str) or "\x00" in value:
        raise InvalidRequestError(f"{name} is {value!r:.80}; it must be a text without NUL")
    if is_needed and not value.strip():
        raise InvalidRequestError(f"{name} is empty; give one")
    return value


def checked_texts(name: str, values: object) -> tuple[str, ...]:
    """The texts. Raises ``InvalidRequestError`` for anything else than a list of them."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidRequestError(f"{name} are {values!r:.80}; give a list of texts")
    return tuple(checked_text(f"one of {name}", value) for value in values)


def checked_numbers(name: str, values: object) -> tuple[float, ...] | None:
    """The numbers; None for None. Raises ``InvalidRequestError`` for anything else than a list of finite ones."""
    if values is None:
        return None
    try:
        numbers = () if isinstance(values, str | bytes) else tuple(map(float, cast("Iterable[float]", values)))
    except (TypeError, ValueError, OverflowError):
        numbers = ()
    if not numbers or not all(map(math.isfinite, numbers)):
        raise InvalidRequestError(f"{name} is {values!r:.80}; give a list of finite numbers, or None")
    return numbers
