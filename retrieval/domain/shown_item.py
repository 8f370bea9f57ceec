"""An item in an answer that an application put together itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.slate import Slot

_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """One item of the answer, with what the application knows of its score.

    Raises ``InvalidRequestError`` for a score or signal that is no finite number, or a propensity outside 0 to 1.
    """

    item_id: str
    score: float
    """Higher is better; comparable within one answer only."""
    signals: Mapping[str, float] = field(default_factory=lambda: _NONE)
    """What made the score, by name. ``relevance``, 0 to 1, is what a model knows of how well the item fits."""
    slot: Slot = Slot.EXPLOIT
    """Why it is there: for its score, or to learn about it."""
    propensity: float = 1.0
    """The probability that it was shown at all, above 0 and at most 1."""

    def __post_init__(self) -> None:
        if not isinstance(self.item_id, str) or not self.item_id or "\x00" in self.item_id:
            raise InvalidRequestError(f"{self.item_id!r:.80} is no item id; ids are texts without NUL")
        _check_number(self.item_id, "score", self.score)
        for name, value in self.signals.items():
            _check_number(self.item_id, f"signal {name!r:.40}", value)
        _check_number(self.item_id, "propensity", self.propensity)
        if not 0 < self.propensity <= 1:
            raise InvalidRequestError(f"{self.item_id!r}: propensity is {self.propensity}; it is above 0 and at most 1")
        try:
            object.__setattr__(self, "slot", Slot(self.slot))
        except ValueError:
            there_are = ", ".join(Slot)
            raise InvalidRequestError(f"{self.item_id!r}: slot is {self.slot!r:.40}; there are {there_are}") from None

    @property
    def relevance(self) -> float:
        """How well the item fits by itself, 0 to 1: its signal of that name, else its score, clipped."""
        return min(1.0, max(0.0, self.signals.get("relevance", self.score)))


def _check_number(item_id: str, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidRequestError(f"{item_id!r}: {name} is {value!r:.80}; it must be a finite number")
