"""Temporary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from retrieval.domain.arm import ItemArms
from retrieval.learning.arm_table import arm_table
from retrieval.learning.event import Event
from retrieval.learning.prediction import Prediction, predictions
from retrieval.learning.shrinkage import Shrinkage, posterior
from retrieval.learning.shrinkage_fit import fit_shrinkage


@dataclass(frozen=True, slots=True)
class LearnedReward:
    """Temporary."""

    shrinkage: Shrinkage
    kind: str = "shrinkage"

    def predict(
        self, buckets: Sequence[str], items: Sequence[ItemArms], relevance: Sequence[float] | None
    ) -> list[Prediction]:
        """Temporary."""
        return predictions([one.item_id for one in items], posterior(self.shrinkage, buckets, items))

    def as_dict(self) -> dict[str, Any]:
        """Temporary."""
        return self.shrinkage.as_dict()

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Temporary."""
        return cls(Shrinkage.from_dict(stored))


def learn(events: Sequence[Event], arms: Sequence[ItemArms]) -> LearnedReward:
    """Temporary."""
    return LearnedReward(fit_shrinkage(arm_table(arms)))
