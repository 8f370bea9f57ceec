"""An off-policy estimate: what a policy would have earned, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

CLIP = 50.0
"""Clipped estimates count no weight above this: a little bias for much less variance."""

QUANTILE = 1.959963984540054
"""Of the standard normal distribution, for intervals of 95 %."""


class Estimator(StrEnum):
    """The ways to estimate."""

    IPS = "ips"
    SNIPS = "snips"
    DR = "dr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One value with its uncertainty; all are NaN where nothing could be estimated."""

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

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; None for what could not be estimated."""
        plain = {**asdict(self), "low": self.low, "high": self.high}
        return {name: value if math.isfinite(value) else None for name, value in plain.items()}
