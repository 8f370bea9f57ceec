"""How many requests are being answered, and how many were turned away because of that."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from starlette.types import Scope

_PLACE = "place"


@dataclass(slots=True, eq=False)
class Load:
    """Counted by the service for itself: one process, one loop."""

    limit: int
    """Requests that are answered at the same time, at most."""
    in_flight: int = 0
    shed: int = 0
    """Turned away for want of room."""
    shares: Counter[str] = field(default_factory=Counter)
    """Of those in flight, by key; no key that has none."""

    def enter(self) -> Place | None:
        """Room for one request, if there is; who got in has to leave it."""
        if self.in_flight >= self.limit:
            self.shed += 1
            return None
        self.in_flight += 1
        return Place(self)


class Place:
    """The room of one request."""

    __slots__ = ("_key_id", "_load")

    def __init__(self, load: Load) -> None:
        self._load: Load | None = load
        self._key_id = ""

    def belongs_to(self, key_id: str) -> bool:
        """Whether the key may have it too: one, and more as long as it has fewer than are free.

        So a key alone gets half of the room, of two that want all each gets a third, and there is always some left.
        """
        load = self._load
        if load is None or not key_id:
            return True
        share = load.shares[key_id]
        if share and share >= load.limit - load.in_flight:
            load.shed += 1
            return False
        load.shares[key_id] = share + 1
        self._key_id = key_id
        return True

    def leave(self) -> None:
        """Make room; it may be left again, and is not counted twice."""
        load, self._load = self._load, None
        if load is None:
            return
        load.in_flight -= 1
        if self._key_id:
            load.shares[self._key_id] -= 1
            if not load.shares[self._key_id]:
                del load.shares[self._key_id]


def take_place(scope: Scope, place: Place) -> None:
    """Note the request's place with it."""
    scope.setdefault("state", {})[_PLACE] = place


def place_of(scope: Scope) -> Place | None:
    """The request's place; None: it needs none."""
    place: Place | None = scope.get("state", {}).get(_PLACE)
    return place
