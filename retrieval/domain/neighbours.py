"""Neighbours: what stands before and after an item in a sequence, and is indexed together with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from retrieval.domain.attribute import checked_name
from retrieval.domain.errors import InvalidRequestError

OCCURRED_AT = "occurred_at"
"""The order of time: the item's own field."""

MAX_NEIGHBOURS = 20
"""The most on each side."""

MAX_OWN_WEIGHT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """How the items of a collection are indexed together with those next to them.

    Words: an item is found by its own, each counted ``own_weight`` times, and by those of its neighbours' bodies; a
    title belongs to its item alone. Vectors: the mean of its own, weighing ``own_weight``, and its neighbours', each of
    length 1. Raises ``InvalidRequestError`` for a name that no attribute can have, or a number out of its range.
    """

    sequence: str
    """The attribute whose value (text, number or boolean) is the same for all items of a sequence. An item without it
    has no neighbours."""
    order: str = OCCURRED_AT
    """What orders a sequence: ``occurred_at``, or an attribute that is a number or an ISO 8601 time. Items without it
    come last; equals are in order of their keys."""
    before: int = 2
    """How many items before it an item is indexed with, 0 to 20."""
    after: int = 2
    """How many after it, 0 to 20."""
    own_weight: int = 2
    """How much the item itself weighs against one neighbour, 1 to 100."""

    def __post_init__(self) -> None:
        checked_name(self.sequence)
        if self.order != OCCURRED_AT:
            checked_name(self.order)
        _check("before", self.before, 0, MAX_NEIGHBOURS)
        _check("after", self.after, 0, MAX_NEIGHBOURS)
        _check("own_weight", self.own_weight, 1, MAX_OWN_WEIGHT)
        if not self.before and not self.after:
            raise InvalidRequestError("neighbours need before or after above 0; use None for a collection without them")

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, as the database keeps them."""
        return {name: getattr(self, name) for name in Neighbours.__slots__}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What ``as_dict`` gave."""
        return cls(**values)


def checked_neighbours(neighbours: object) -> Neighbours | None:
    """The setting, or None for a collection whose items stand alone. Raises ``InvalidRequestError``."""
    if neighbours is None or isinstance(neighbours, Neighbours):
        return neighbours
    raise InvalidRequestError(f'neighbours are Neighbours(sequence="an attribute") or None, not {neighbours!r:.80}')


def _check(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidRequestError(f"{name} is a whole number from {least} to {most}, not {value!r:.80}")
