"""Off-policy estimates as values: the target policy, its importance weights, and its estimated reward. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from retrieval.domain.serialization import SerializableFigures


@dataclass(frozen=True, slots=True)
class TargetPolicy:
    """Columns of equal length, an entry for each item that the target might show for a retrieval."""

    retrieval_ids: list[UUID] = field(default_factory=list)
    item_ids: list[str] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    """The probability of each item to be in the slate, 0 to 1."""
    modelled: list[float] = field(default_factory=list)
    """The reward that a model expects of each item, 0 to 1, without this retrieval's feedback."""

    def add(self, retrieval_id: UUID, slate: Mapping[str, float]) -> None:
        """Adds the target's slate for one retrieval, as probabilities by item; nothing is modelled yet."""
        for item_id, probability in slate.items():
            self.retrieval_ids.append(retrieval_id)
            self.item_ids.append(item_id)
            self.probabilities.append(probability)
            self.modelled.append(0.0)


LEAST_SAMPLE = 200.0

TOLERATED_ERRORS = 3.0
"""Standard errors by which the mean weight may miss the target's expected slate size."""

TOLERATED_SHARE = 0.01
"""The share of that size by which it may miss in any case: a value moves by no more than this share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing(SerializableFigures):
    """The weights of one target on some traffic. Figures are NaN where there is no traffic."""

    serialized_properties = ("unsupported",)

    retrievals: int
    impressions: int
    rated: int
    """Impressions that have a reward, their own or the default."""
    effective_sample_size: float
    """(Σ W)² / Σ W² over retrievals, with the weights W of the rated impressions (Kish)."""
    mean_weight: float
    """Mean over retrievals of the sum of the weights of the shown impressions."""
    expected_weight: float
    """The mean weight expected if the recorded policy can show all that the target shows: its mean slate size."""
    weight_error: float
    max_weight: float
    clipped: int
    """Impressions with a weight above ``CLIP``."""

    @property
    def unsupported(self) -> float:
        """The estimated share of the target's impressions that the recorded policy could never show, 0 to 1."""
        if not self.expected_weight > 0:
            return math.nan
        return min(1.0, max(0.0, 1 - self.mean_weight / self.expected_weight))

    @property
    def is_balanced(self) -> bool:
        """True if the mean weight equals the expected one within its error."""
        # One retrieval alone has no standard error.
        error = 0.0 if math.isnan(self.weight_error) else self.weight_error
        tolerated = max(TOLERATED_ERRORS * error, TOLERATED_SHARE * self.expected_weight)
        return abs(self.mean_weight - self.expected_weight) <= tolerated

    def objections(self) -> tuple[str, ...]:
        """The reasons why nothing can be concluded about the target, a sentence each; none: it can be judged."""
        if not self.retrievals:
            return ("no recorded search can be ranked again: record searches, or see why those were left out",)
        if not self.rated:
            return ("no impression of it has a reward: give feedback, or count what is unrated with a default reward",)
        objections = []
        if not self.effective_sample_size >= LEAST_SAMPLE:
            size = self.effective_sample_size
            objections.append(f"its effective sample size is {size:.0f}, below {LEAST_SAMPLE:.0f}: record more traffic")
        if not self.is_balanced and self.mean_weight < self.expected_weight:
            objections.append(
                f"{self.unsupported:.0%} of what it shows was never possible under the recorded policies: "
                "explore more, or interleave (see docs/how-to/compare-profiles.md)"
            )
        elif not self.is_balanced:
            objections.append(
                f"its weights add up to {self.mean_weight:.3g} a retrieval and not to {self.expected_weight:.3g}: "
                "the recorded propensities cannot be right"
            )
        return tuple(objections)


CLIP = 50.0
"""Clipped estimates count no weight above this: a little bias for much less variance."""

QUANTILE = 1.959963984540054
"""The quantile of the standard normal distribution for intervals of 95 %."""


class Estimator(StrEnum):
    """The ways to estimate."""

    IPS = "ips"
    SNIPS = "snips"
    DR = "dr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(SerializableFigures):
    """One value with its uncertainty; all are NaN where nothing could be estimated."""

    serialized_properties = ("low", "high")

    value: float
    """The mean reward of an impression under the target."""
    standard_error: float

    @property
    def low(self) -> float:
        """The lower end of the 95 % confidence interval."""
        return self.value - QUANTILE * self.standard_error

    @property
    def high(self) -> float:
        """The upper end of the 95 % confidence interval."""
        return self.value + QUANTILE * self.standard_error

    def text(self, sign: str = "") -> str:
        """The value with its interval; a dash where there is none. ``sign`` is ``+`` where each number has one."""
        if math.isnan(self.value):
            return "–"
        if math.isnan(self.standard_error):
            return f"{self.value:{sign}.4f}"
        return f"{self.value:{sign}.4f} ({self.low:{sign}.4f} to {self.high:{sign}.4f})"
