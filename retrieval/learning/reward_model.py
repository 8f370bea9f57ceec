"""A model of the reward for doubly robust estimates: what an item earned elsewhere, shrunk to what all earned.

It only has to be independent of the retrieval it speaks of, so each retrieval's own rewards are left out of it
(cross-fitting, leave one out: Chernozhukov and others, "Double/debiased machine learning", 2018). The better it
guesses, the narrower the estimates become; a bad one costs width and no bias.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

PSEUDO_USES = 10.0
"""How many rewards of its own an item needs to count as much as all items together."""

UNKNOWN = 0.5
"""What is expected where nothing was rated."""


class _Sum(NamedTuple):
    rewards: float = 0.0
    uses: int = 0

    def without(self, other: _Sum) -> _Sum:
        return _Sum(self.rewards - other.rewards, self.uses - other.uses)

    def and_one(self, reward: float) -> _Sum:
        return _Sum(self.rewards + reward, self.uses + 1)


_NONE = _Sum()


@dataclass(slots=True)
class RewardModel:
    """What items earned, remembered by retrieval, so that each retrieval can be left out."""

    _items: dict[str, _Sum] = field(default_factory=dict)
    _retrievals: dict[Hashable, Mapping[str, float]] = field(default_factory=dict)
    _all: _Sum = _NONE

    def add(self, retrieval_id: Hashable, rewards: Mapping[str, float]) -> None:
        """The rewards of one retrieval's items, 0 to 1; each retrieval comes once."""
        if not rewards:
            return
        self._retrievals[retrieval_id] = rewards
        for item_id, reward in rewards.items():
            self._items[item_id] = self._items.get(item_id, _NONE).and_one(reward)
            self._all = self._all.and_one(reward)

    def predict(self, retrieval_id: Hashable, item_id: str) -> float:
        """What the item is expected to earn in that retrieval, 0 to 1, by all the others."""
        own = self._retrievals.get(retrieval_id, {})
        others = self._all.without(_Sum(sum(own.values()), len(own)))
        mean = others.rewards / others.uses if others.uses else UNKNOWN
        item = self._items.get(item_id, _NONE)
        if item_id in own:
            item = item.without(_Sum(own[item_id], 1))
        expected = (item.rewards + PSEUDO_USES * mean) / (item.uses + PSEUDO_USES)
        return min(1.0, max(0.0, expected))
