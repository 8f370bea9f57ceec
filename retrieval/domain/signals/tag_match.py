"""How many of an item's tags the question is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.signals.signal import Asked, Facts, Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class TagMatch(Signal):
    """Tags of the question that the item has, at most ``most``, / ``most``: each adds weight / ``most`` to a score.

    As it stands, .1 for each of up to ten. Tags are compared as they are stored, case and all. Raises
    ``InvalidProfileError`` for a ``most`` that is no whole number of at least 1.
    """

    name: ClassVar[str] = "tag_match"
    reads: ClassVar[frozenset[str]] = frozenset({"tags"})
    weight: float = 1.0
    most: int = 10

    def __post_init__(self) -> None:
        Signal.__post_init__(self)
        if isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < 1:
            raise InvalidProfileError(f"most of signal 'tag_match' is {self.most!r:.80}; give a whole number from 1 on")

    def value(self, facts: Facts, asked: Asked) -> float:
        """The share, 0 to 1."""
        return min(len(asked.tags & facts.tags), self.most) / self.most
