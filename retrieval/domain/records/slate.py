"""A slate: the items that a search or an application shows, with the reason and the probability of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from retrieval.domain.checks import checked_choice, checks_argument_names, is_finite, is_storable, written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.frozen import Frozen


class Slot(StrEnum):
    """The reason for an item's place."""

    EXPLOIT = "exploit"
    """Its score brought it there."""
    EXPLORE = "explore"
    """The exploration policy picked it: its score alone would not have shown it."""
    SWAP = "swap"
    """It changed places with its neighbour, to learn what a place alone is worth."""


class Placed(NamedTuple):
    """An item at its place in a slate."""

    item_id: str
    slot: Slot = Slot.EXPLOIT
    propensity: float = 1.0
    """The probability that the item was in the slate at all, above 0 and at most 1; known when it was drawn."""
    rank_propensity: float = 1.0
    """The probability that it stood at this very rank, above 0 and at most ``propensity``."""


BY_SCORE = Placed("")
"""The place of any hit that follows from its score alone."""

_NONE: Mapping[str, float] = Frozen()


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """One item of the answer. Raises ``InvalidRequestError`` for what cannot be stored, or a number out of range."""

    item_id: str
    score: float
    """Higher is better; comparable within one answer only."""
    signals: Mapping[str, float] = field(default_factory=lambda: _NONE)
    """The parts of the score, by name. ``relevance``, 0 to 1, is the item's own fit as a model knows it."""
    slot: Slot = Slot.EXPLOIT
    """The reason for its place: its score, or to learn about it."""
    propensity: float = 1.0
    """The probability that it was shown at all, above 0 and at most 1."""
    rank_propensity: float | None = None
    """The probability that it was shown at this rank, above 0 and at most ``propensity``; None: equal to it."""

    def __post_init__(self) -> None:
        if not is_storable(self.item_id) or not self.item_id:
            raise InvalidRequestError(f"{written(self.item_id)} is not an item id; ids are texts without NUL")
        if not isinstance(self.signals, Mapping) or not all(map(is_storable, self.signals)):
            raise InvalidRequestError(
                f"{written(self.item_id)}: signals are {written(self.signals)}; give numbers by name"
            )
        for name, value in [("score", self.score), *self.signals.items()]:
            if not is_finite(value):
                raise InvalidRequestError(
                    f"{written(self.item_id)}: {name} is {written(value)}; it must be a finite number"
                )
        self._check_share("propensity", self.propensity, 1)
        if self.rank_propensity is not None:
            self._check_share("rank_propensity", self.rank_propensity, self.propensity)
        object.__setattr__(self, "signals", Frozen(self.signals))
        object.__setattr__(self, "slot", checked_choice("slot", self.slot, Slot))

    def _check_share(self, name: str, value: object, most: float) -> None:
        if not is_finite(value) or not 0 < value <= most:
            raise InvalidRequestError(
                f"{written(self.item_id)}: {name} is {written(value)}; it is above 0, at most {most}"
            )

    @property
    def relevance(self) -> float:
        """The item's own relevance, 0 to 1: its signal of that name, else its score, clipped."""
        return min(1.0, max(0.0, self.signals.get("relevance", self.score)))
