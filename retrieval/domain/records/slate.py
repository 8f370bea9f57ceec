"""A slate: the items that a search or an application shows, with the reason and the probability of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from retrieval.domain.checks import checks_argument_names, is_finite, is_storable
from retrieval.domain.errors import InvalidRequestError


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


_NONE: Mapping[str, float] = MappingProxyType({})


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """One item of the answer, with what the application knows of its score.

    Raises ``InvalidRequestError`` for what cannot be stored, a score or signal that is not a finite number, or a
    propensity outside 0 to 1.
    """

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
    """The probability that it was shown at this rank, above 0 and at most ``propensity``.

    None: equal to ``propensity``, for an item that has no other rank if it is shown.
    """

    def __post_init__(self) -> None:
        if not is_storable(self.item_id) or not self.item_id:
            raise InvalidRequestError(f"{self.item_id!r:.80} is not an item id; ids are texts without NUL")
        _check_number(self.item_id, "score", self.score)
        object.__setattr__(self, "signals", _checked_signals(self.item_id, self.signals))
        _check_number(self.item_id, "propensity", self.propensity)
        if not 0 < self.propensity <= 1:
            raise InvalidRequestError(
                f"{self.item_id!r:.80}: propensity is {self.propensity}; it is above 0 and at most 1"
            )
        if self.rank_propensity is not None:
            self._check_rank_propensity(self.rank_propensity)
        try:
            object.__setattr__(self, "slot", Slot(self.slot))
        except ValueError:
            slots = ", ".join(Slot)
            raise InvalidRequestError(f"{self.item_id!r:.80}: slot is {self.slot!r:.40}; there are {slots}") from None

    def _check_rank_propensity(self, value: float) -> None:
        _check_number(self.item_id, "rank_propensity", value)
        if not 0 < value <= self.propensity:
            raise InvalidRequestError(
                f"{self.item_id!r:.80}: rank_propensity is {value}; it is above 0 and at most the propensity,"
                f" {self.propensity}"
            )

    @property
    def relevance(self) -> float:
        """The item's own relevance, 0 to 1: its signal of that name, else its score, clipped."""
        return min(1.0, max(0.0, self.signals.get("relevance", self.score)))


def _checked_signals(item_id: str, signals: object) -> Mapping[str, float]:
    """The signals, in a mapping that cannot be changed."""
    if not isinstance(signals, Mapping):
        raise InvalidRequestError(f"{item_id!r:.80}: signals are {signals!r:.80}; they must be numbers by name")
    for name, value in signals.items():
        if not is_storable(name):
            raise InvalidRequestError(f"{item_id!r:.80}: a signal is called {name!r:.40}; names are texts without NUL")
        _check_number(item_id, f"signal {name!r:.40}", value)
    return MappingProxyType(dict(signals))


def _check_number(item_id: str, name: str, value: object) -> None:
    if not is_finite(value):
        raise InvalidRequestError(f"{item_id!r:.80}: {name} is {value!r:.80}; it must be a finite number")
