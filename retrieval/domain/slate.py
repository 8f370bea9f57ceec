"""A slate: the items that a search shows, each with why it is there and how probable that was."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Slot(StrEnum):
    """Why an item stands where it stands."""

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
