"""What a profile says about exploration: which policy shows items to learn about them, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.profile_numbers import check_share, check_whole


class PolicyName(StrEnum):
    """The exploration policies."""

    OFF = "off"
    UNCERTAINTY_BONUS = "uncertainty_bonus"
    """The score is raised by ``rate`` × the uncertainty of the learned reward."""
    THOMPSON_SLOTS = "thompson_slots"
    """The last one or two places are drawn (Thompson), between who has them by score and what was hardly used."""


class Posterior(StrEnum):
    """What Thompson sampling draws from."""

    BETA = "beta"
    """Beta(successes + 1, failures + 1) of the raw counts."""
    SHRUNK = "shrunk"
    """The learned reward's own distribution, which knows what similar items earned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The exploration policy with its numbers. Raises ``InvalidProfileError`` for one outside its range."""

    policy: PolicyName = PolicyName.OFF
    rate: float = 0.1
    """Uncertainty bonus: added to the score for each unit of uncertainty, 0 to 1."""
    slots: int = 1
    """Thompson slots: places that items which were hardly used may win, 1 or 2."""
    posterior: Posterior = Posterior.SHRUNK
    floor: float = 0.1
    """The probability of a uniform choice, 0 to 1: no eligible item is ever impossible."""
    swaps: float = 0.0
    """The share of searches of which two neighbours change places, 0 to 1; 0.02 is enough to learn by."""
    fewer_uses_than: int = 5
    """An item with fewer uses is eligible."""
    younger_than_days: float = 7.0
    """And so is one that was stored so few days ago."""
    most_eligible: int = 30
    """The best so many by score are eligible, 1 to 300: it bounds the weights of off-policy estimates."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", _one_of(PolicyName, "exploration policy", self.policy))
        object.__setattr__(self, "posterior", _one_of(Posterior, "exploration posterior", self.posterior))
        for name in ("rate", "floor", "swaps"):
            check_share(f"exploration {name}", getattr(self, name))
        check_whole("exploration slots", self.slots, 1, 2)
        check_whole("exploration fewer_uses_than", self.fewer_uses_than, 0, 1_000_000)
        check_whole("exploration most_eligible", self.most_eligible, 1, 300)
        if not 0 <= self.younger_than_days < 100_000:
            raise InvalidProfileError(
                f"exploration younger_than_days is {self.younger_than_days}; it must be 0 or more"
            )

    @property
    def is_off(self) -> bool:
        """Whether every search shows what its scores say."""
        return self.policy is PolicyName.OFF and not self.swaps

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


def _one_of(kind: type[PolicyName | Posterior], name: str, value: str) -> PolicyName | Posterior:
    try:
        return kind(value)
    except ValueError:
        raise InvalidProfileError(f"{name} is {value!r:.80}; there are {', '.join(kind)}") from None
