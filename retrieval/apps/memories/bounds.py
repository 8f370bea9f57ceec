"""How long a text may be, in characters or in tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from retrieval.domain.errors import InvalidRequestError

CHARACTERS_A_TOKEN = 4

TokenCounter = Callable[[str], int]
"""Gives the number of tokens of a text."""


def estimated_tokens(text: str) -> int:
    """The tokens of a text where nobody counts them: one for four characters, rounded up."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a text has to keep to. Raises ``InvalidRequestError`` for a bound that is no whole number of at least 1."""

    max_characters: int | None = None
    """None: as many as it takes."""
    max_tokens: int | None = None
    """None: as many as it takes."""
    count_tokens: TokenCounter = estimated_tokens

    def __post_init__(self) -> None:
        for name in ("max_characters", "max_tokens"):
            bound = getattr(self, name)
            if bound is not None and not _is_length(bound):
                raise InvalidRequestError(f"{name} is {bound!r:.80}; it must be a whole number of at least 1, or None")
        if not callable(self.count_tokens):
            raise InvalidRequestError(f"count_tokens is {self.count_tokens!r:.80}; it must be a function of a text")

    def fits(self, text: str) -> bool:
        """Whether the text keeps to them."""
        if self.max_characters is not None and len(text) > self.max_characters:
            return False
        return self.max_tokens is None or self._tokens(text) <= self.max_tokens

    def _tokens(self, text: str) -> float:
        number: object = self.count_tokens(text)
        if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
            raise InvalidRequestError(f"count_tokens gave {number!r:.80}; it must give the number of tokens of a text")
        return number


def checked_length(name: str, length: object) -> int:
    """A length in characters. Raises ``InvalidRequestError`` for anything but a whole number of at least 1."""
    if not _is_length(length):
        raise InvalidRequestError(f"{name} is {length!r:.80}; it must be a whole number of at least 1")
    return length


def _is_length(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


UNBOUNDED = Bounds()
"""As long as it takes."""
