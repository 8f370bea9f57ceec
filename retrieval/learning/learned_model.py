"""What a published model holds: the learned reward, its stack with relevance, and which of the two ways may be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learned import LEARNED_SHARE, Combination, Learned
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
    share: float = LEARNED_SHARE
    """Of the learned reward in the sum that was tried."""
    space_id: int | None = None
    """The embedding space of the queries that items were rewarded for; None: none."""

    def serves(self, learned: Learned) -> bool:
        """Whether what a profile asks for is what was tried and passed, or is trusted without that."""
        return self.has_passed(learned) or self.is_trusted(learned)

    def has_passed(self, learned: Learned) -> bool:
        """Whether what a profile asks for is what was tried and passed."""
        is_tried = learned.combination is not Combination.SUM or learned.share == self.share
        return is_tried and learned.combination in self.passed

    def is_trusted(self, learned: Learned) -> bool:
        """Whether the profile uses a model of so many verdicts whatever its trial said."""
        if learned.trusted_from is None or self.reward.events < learned.trusted_from:
            return False
        # A stack that was fitted on no impression weighs nothing.
        return learned.combination is Combination.SUM or (
            learned.combination is Combination.LOGIT_STACK and any(self.stack.weights.values())
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "reward": self.reward.as_dict(),
            "by_item": self.by_item.as_dict(),
            "stack": self.stack.as_dict(),
            "passed": sorted(self.passed),
            "share": self.share,
            "space_id": self.space_id,
        }

    @classmethod
    def from_dict(cls, version: int, stored: Mapping[str, Any]) -> Self:
        """What ``as_dict`` gave, as that version. Raises ``InvalidRequestError`` for what another release stored."""
        try:
            return cls(
                version=version,
                reward=LearnedReward.from_dict(stored["reward"]),
                by_item=LearnedReward.from_dict(stored["by_item"]),
                stack=LogitStack.from_dict(stored["stack"]),
                passed=frozenset(map(Combination, stored["passed"])),
                share=stored["share"],
                space_id=stored["space_id"],
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise InvalidRequestError(
                f"model {version} is not one that this release reads ({error!r:.80}); learn it anew with: "
                "retrieval jobs run learn"
            ) from error
