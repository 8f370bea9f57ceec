"""The expected rewards of items, and the verdict on two policies or profiles. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from retrieval.domain.learning.off_policy import Estimate, Weighing
from retrieval.domain.serialization import Serializable
from retrieval.learning.interleaving import Preference

PSEUDO_USES = 10.0
"""The number of own rewards at which an item counts as much as all items together."""

UNKNOWN = 0.5
"""The expected reward without any rating."""


@dataclass(slots=True)
class RewardModel:
    """The rewards of items by retrieval, so that each retrieval can be left out."""

    _retrievals: dict[Hashable, Mapping[str, float]] = field(default_factory=dict)
    _items: dict[str, tuple[float, int]] = field(default_factory=dict)
    _total: float = 0.0
    _number: int = 0

    def add(self, retrieval_id: Hashable, rewards: Mapping[str, float]) -> None:
        """Add the rewards of one retrieval's items, 0 to 1; each retrieval is added once."""
        self._retrievals[retrieval_id] = rewards
        for item_id, reward in rewards.items():
            earned, uses = self._items.get(item_id, (0.0, 0))
            self._items[item_id] = earned + reward, uses + 1
            self._total += reward
            self._number += 1

    def predict(self, retrieval_id: Hashable, item_id: str) -> float:
        """The item's expected reward in that retrieval, 0 to 1, from all other retrievals."""
        own = self._retrievals.get(retrieval_id, {})
        others = self._number - len(own)
        mean = (self._total - sum(own.values())) / others if others else UNKNOWN
        earned, uses = self._items.get(item_id, (0.0, 0))
        if item_id in own:
            earned, uses = earned - own[item_id], uses - 1
        expected = (earned + PSEUDO_USES * mean) / (uses + PSEUDO_USES)
        return min(1.0, max(0.0, expected))


LEAST_DECIDED = 6
"""With fewer decided searches a sign test cannot give a p-value below .05."""

SIGNIFICANT = 0.05
"""The p-value below which one profile counts as better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Serializable):
    """A conclusion in one sentence."""

    is_conclusive: bool
    """True if the recorded traffic can decide; 'no difference' is a conclusion too."""
    better: str | None
    """The name of the better profile; None: no difference is shown, or there is no conclusion."""
    text: str


def judge(names: tuple[str, str], weighings: tuple[Weighing, Weighing], difference: Estimate) -> Verdict:
    """The verdict on the first against the second, by the 95 % interval of the difference of their values."""
    objections = [
        f"{name}: {objection}"
        for name, weighing in zip(names, weighings, strict=True)
        for objection in weighing.objections()
    ]
    if objections:
        # A profile that is compared with itself has each objection twice.
        return _no_conclusion("; ".join(dict.fromkeys(objections)))
    first, second = names
    value, low, high = difference.value, difference.low, difference.high
    if high < 0:  # the better one is first, and its gain is positive
        first, second, value, low, high = second, first, -value, -high, -low
    return _conclusion(first, second, f"{value:+.4f} (95 % interval {low:+.4f} to {high:+.4f})", is_shown=low > 0)


def by_preference(names: tuple[str, str], result: Preference) -> Verdict:
    """The verdict by the sign test: one is better if fair coins would hardly be as uneven."""
    first, second = names
    if result.decided < LEAST_DECIDED:
        return _no_conclusion(
            f"{result.decided} interleaved searches were decided, below {LEAST_DECIDED}: show more of them"
        )
    won, lost = result.first, result.second
    is_shown = result.p_value < SIGNIFICANT
    if is_shown and won < lost:  # the better one is first
        first, second, won, lost = second, first, lost, won
    shown = f"{won} searches against {lost}, {result.even} even, p = {result.p_value:.4f}"
    return _conclusion(first, second, shown, is_shown=is_shown)


def _conclusion(better: str, other: str, shown: str, *, is_shown: bool) -> Verdict:
    if is_shown:
        return Verdict(is_conclusive=True, better=better, text=f"{better} is better than {other}: {shown}")
    return Verdict(is_conclusive=True, better=None, text=f"no difference is shown between the two: {shown}")


def _no_conclusion(reasons: str) -> Verdict:
    return Verdict(is_conclusive=False, better=None, text=f"no conclusion: {reasons}")
