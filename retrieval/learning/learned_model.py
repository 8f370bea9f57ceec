"""What a published model holds: the learned reward, its stack with relevance, and which of the two ways may be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from retrieval.domain.learned import Combination
from retrieval.learning.learned_reward import LearnedReward
from retrieval.learning.stack import LogitStack


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedModel:
    """A version of what was learned from a collection's feedback; never changed."""

    version: int
    reward: LearnedReward
    """What the sum adds to relevance; it knows of relevance, where that predicts better."""
    by_item: LearnedReward
    """What the stack weighs beside relevance: the item and its like alone."""
    stack: LogitStack
    passed: frozenset[Combination]
    """The combinations that were better than what they replace, on searches that they were not fitted on."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "reward": self.reward.as_dict(),
            "by_item": self.by_item.as_dict(),
            "stack": self.stack.as_dict(),
            "passed": sorted(self.passed),
        }

    @classmethod
    def from_dict(cls, version: int, stored: Mapping[str, Any]) -> Self:
        """What ``as_dict`` gave, as that version."""
        return cls(
            version=version,
            reward=LearnedReward.from_dict(stored["reward"]),
            by_item=LearnedReward.from_dict(stored["by_item"]),
            stack=LogitStack.from_dict(stored["stack"]),
            passed=frozenset(map(Combination, stored["passed"])),
        )
