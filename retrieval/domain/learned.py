"""What a profile says about the learned reward: how much of a score it is, and how the two are combined."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.profile_numbers import check_share, check_whole

LEARNED_SHARE = 0.6
"""0.4 relevance + 0.6 learned reward, once there is something learned."""


MOST_TRUSTED_FROM = 1_000_000
"""The most verdicts that a profile can ask for."""


class Combination(StrEnum):
    """How relevance and learned reward become one score."""

    OFF = "off"
    """The learned reward is left out."""
    SUM = "sum"
    """(1 - share) × relevance + share × learned reward, both from 0 to 1."""
    LOGIT_STACK = "logit_stack"
    """A logistic model over relevance and learned reward, with weights found in the feedback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The learned reward in a profile. Until a model is published, relevance alone makes the score.

    Raises ``InvalidProfileError`` for an unknown combination, a share outside 0 to 1, or a number of verdicts below 1.
    """

    combination: Combination = Combination.SUM
    share: float = LEARNED_SHARE
    """Of the learned reward in the sum, 0 to 1; the logit stack does not use it."""
    trusted_from: int | None = None
    """A model that was fitted on so many verdicts is used without winning a trial; None: it must win."""

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "combination", Combination(self.combination))
        except ValueError:
            known = ", ".join(Combination)
            raise InvalidProfileError(f"learned combination is {self.combination!r:.80}; there are {known}") from None
        check_share("learned share", self.share)
        if self.trusted_from is not None:
            check_whole("learned trusted_from", self.trusted_from, 1, MOST_TRUSTED_FROM)

    @property
    def is_off(self) -> bool:
        """Whether the learned reward never counts."""
        return self.combination is Combination.OFF

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"combination": self.combination.value, "share": self.share, "trusted_from": self.trusted_from}
