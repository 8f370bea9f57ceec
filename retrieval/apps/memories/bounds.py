"""How long a text may be, in characters or in tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 1):
                raise InvalidRequestError(f"{name} is {bound!r:.80}; it must be a whole number of at least 1, or None")

    def fits(self, text: str) -> bool:
        """Whether the text keeps to them."""
        if self.max_characters is not None and len(text) > self.max_characters:
            return False
        return self.max_tokens is None or self.count_tokens(text) <= self.max_tokens


UNBOUNDED = Bounds()
"""As long as it takes."""
