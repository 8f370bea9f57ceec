"""The expected reward of an item, its uncertainty, and the part of each level.

The reward of an item is believed to be Beta(m n, (1 - m) n), with the mean m and the effective sample size n. So its
standard deviation is √(m (1 - m) / (n + 1)), which is never more than its mean allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from retrieval.domain.learning.arm import uncertainty_of
from retrieval.learning.logit import sigmoid
from retrieval.learning.shrinkage import Posterior


class LevelPart(NamedTuple):
    """The part of one level in the logit of the mean."""

    level: str
    """``collection``, ``item cluster``, ``item``, ``domain=physics``, ``item in domain=physics`` and the like."""
    logit: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The reward of one item in one context."""

    item_id: str
    mean: float
    """The expected reward, 0 to 1."""
    sd: float
    """Its standard deviation: how far the true rate may lie from the mean, 0 to 0.5."""
    effective_sample_size: float
    """Events of the item itself, in just this context, that would leave the same uncertainty, above 0."""
    logit_mean: float
    """ln(mean / (1 - mean))."""
    levels: tuple[str, ...]
    logits: tuple[float, ...]
    """The parts of the levels; they add up to ``logit_mean``."""

    @property
    def uncertainty(self) -> float:
        """The largest standard deviation that so many events leave, 0 to 0.5: no further event raises it."""
        return uncertainty_of(self.effective_sample_size)

    @property
    def parts(self) -> tuple[LevelPart, ...]:
        """The part of each level; the parts add up to ``logit_mean``."""
        return tuple(LevelPart(level, logit) for level, logit in zip(self.levels, self.logits, strict=True))

    @property
    def explanation(self) -> str:
        """One line: mean, uncertainty, and the levels that moved the mean, the strongest first."""
        moved = sorted((part for part in self.parts if abs(part.logit) >= 0.005), key=lambda part: -abs(part.logit))
        said = ", ".join(f"{part.level} {part.logit:+.2f}" for part in moved) or "nothing learned yet"
        return f"{self.mean:.2f} ± {self.sd:.2f}, as after {self.effective_sample_size:.0f} events: {said}"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "item_id": self.item_id,
            "mean": self.mean,
            "sd": self.sd,
            "effective_sample_size": self.effective_sample_size,
            "logit_mean": self.logit_mean,
            "parts": {part.level: part.logit for part in self.parts},
        }


def predictions(item_ids: Sequence[str], found: Posterior) -> list[Prediction]:
    """One prediction an item, in order."""
    mean, size = sigmoid(found.logit_mean), found.effective_sample_size
    sd = np.sqrt(mean * (1.0 - mean) / (size + 1.0))
    levels = tuple(level for level, _ in found.parts)
    logits = np.column_stack([added for _, added in found.parts]).tolist()
    rows = zip(item_ids, mean.tolist(), sd.tolist(), size.tolist(), found.logit_mean.tolist(), strict=True)
    return [Prediction(*row, levels, tuple(parts)) for row, parts in zip(rows, logits, strict=True)]
