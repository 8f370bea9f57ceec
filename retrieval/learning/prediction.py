"""What is expected of an item, how sure that is, and which level said how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from retrieval.learning.arm_table import Floats
from retrieval.learning.logit import sigmoid
from retrieval.learning.shrinkage import Posterior


class Part(NamedTuple):
    """What one level added to the logit of the mean."""

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
    """Events of the item itself, in just this context, that would leave the same uncertainty."""
    logit_mean: float
    """ln(mean / (1 - mean)); with ``logit_sd`` the normal distribution that Thompson sampling draws from."""
    logit_sd: float
    levels: tuple[str, ...]
    logits: tuple[float, ...]
    """By level; they add up to ``logit_mean``."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Which level gave how much; they add up to ``logit_mean``."""
        return tuple(Part(level, logit) for level, logit in zip(self.levels, self.logits, strict=True))

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
            "logit_sd": self.logit_sd,
            "parts": {part.level: part.logit for part in self.parts},
        }


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def predictions(item_ids: Sequence[str], found: Posterior) -> list[Prediction]:
    """One prediction an item, in order."""
    mean = sigmoid(found.logit_mean)
    logit_sd = np.sqrt(found.logit_variance)
    sd = _reward_sd(found.logit_mean, logit_sd)
    worth = 1.0 / (mean * (1.0 - mean) * found.logit_variance)
    levels = tuple(level for level, _ in found.parts)
    logits = np.column_stack([added for _, added in found.parts]).tolist()
    rows = zip(item_ids, mean.tolist(), sd.tolist(), worth.tolist(), strict=True)
    logit_rows = zip(found.logit_mean.tolist(), logit_sd.tolist(), logits, strict=True)
    return [
        Prediction(*row, centre, spread, levels, tuple(parts))
        for row, (centre, spread, parts) in zip(rows, logit_rows, strict=True)
    ]


def _reward_sd(logit_mean: Floats, logit_sd: Floats) -> Floats:
    """The standard deviation of the sigmoid of a normal variable, by Gauss-Hermite quadrature."""
    values = sigmoid(logit_mean[:, None] + logit_sd[:, None] * _NODES)
    centre = values @ _WEIGHTS
    return np.sqrt((values - centre[:, None]) ** 2 @ _WEIGHTS)
