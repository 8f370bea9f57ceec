"""What a comparison of two policies comes to, or why it comes to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from retrieval.domain.estimate import Estimate
from retrieval.domain.weighing import Weighing
from retrieval.learning.interleaving import Preference

LEAST_DECIDED = 6
"""Below so many decided searches a sign test cannot come out below .05, however they went."""

SIGNIFICANT = 0.05
"""The p-value below which one is called better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A conclusion in one sentence."""

    is_conclusive: bool
    """Whether the traffic can tell at all; a difference that can be chance is a conclusion too."""
    better: str | None
    """The name of the better one; None: neither is shown to be, or nothing can be concluded."""
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def judge(names: tuple[str, str], weighings: tuple[Weighing, Weighing], difference: Estimate) -> Verdict:
    """The verdict on the first against the second, by the 95 % interval of the difference of their values.

    Nothing is concluded where the traffic cannot speak for one of the two.
    """
    objections = [
        f"{name}: {objection}"
        for name, weighing in zip(names, weighings, strict=True)
        for objection in weighing.objections()
    ]
    # A profile compared with itself would object twice.
    return refused(list(dict.fromkeys(objections))) if objections else by_interval(names, difference)


def refused(objections: Sequence[str]) -> Verdict:
    """No conclusion, and why."""
    return Verdict(is_conclusive=False, better=None, text=f"no conclusion: {'; '.join(objections)}")


def by_interval(names: tuple[str, str], difference: Estimate) -> Verdict:
    """Better where the interval leaves 0 out; NaN compares as neither."""
    first, second = names
    shown = f"{difference.value:+.4f} (95 % interval {difference.low:+.4f} to {difference.high:+.4f})"
    if difference.low > 0:
        return Verdict(is_conclusive=True, better=first, text=f"{first} is better than {second}: {shown}")
    if difference.high < 0:
        return Verdict(is_conclusive=True, better=second, text=f"{second} is better than {first}: {shown}")
    return Verdict(is_conclusive=True, better=None, text=f"no difference is shown between the two: {shown}")


def by_preference(names: tuple[str, str], won: Preference) -> Verdict:
    """Better where the sign test says that a fair coin would hardly decide so unevenly."""
    first, second = names
    if won.decided < LEAST_DECIDED:
        return refused([f"{won.decided} interleaved searches were decided, below {LEAST_DECIDED}: show more of them"])
    shown = f"{won.first} searches against {won.second}, {won.even} even, p = {won.p_value:.4f}"
    if won.p_value >= SIGNIFICANT:
        return Verdict(is_conclusive=True, better=None, text=f"no difference is shown between the two: {shown}")
    better, other = (first, second) if won.first > won.second else (second, first)
    return Verdict(is_conclusive=True, better=better, text=f"{better} is better than {other}: {shown}")
