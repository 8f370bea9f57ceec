"""The parts of a profile about exploration, the learned reward and recording. Pure."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from retrieval.domain import checks
from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.serialization import Serializable

check_share = partial(checks.checked_number, error=InvalidProfileError)
check_weight = partial(checks.checked_number, high=sys.float_info.max, error=InvalidProfileError)
check_positive = partial(checks.checked_positive, high=sys.float_info.max, error=InvalidProfileError)
check_whole = partial(checks.checked_whole, error=InvalidProfileError)
check_choice = partial(checks.checked_choice, error=InvalidProfileError)
"""The checks of a profile's numbers and names: a share from 0 to 1, a finite weight of at least 0, and the others."""


class PolicyName(StrEnum):
    """The exploration policies."""

    OFF = "off"
    UNCERTAINTY_BONUS = "uncertainty_bonus"
    """The score is raised by ``rate`` × the uncertainty of the learned reward."""
    THOMPSON_SLOTS = "thompson_slots"
    """Thompson sampling draws the last one or two places, from the items next by score and those with few uses."""


class PosteriorKind(StrEnum):
    """The distribution that Thompson sampling draws from."""

    BETA = "beta"
    """Beta(successes + 1, failures + 1) of the raw counts."""
    SHRUNK = "shrunk"
    """The learned reward's own distribution, which includes the rewards of similar items."""


@checks.checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration(Serializable):
    """The exploration policy with its numbers. Raises ``InvalidProfileError`` for one outside its range."""

    policy: PolicyName = PolicyName.OFF
    rate: float = 0.1
    """Uncertainty bonus: added to the score for each unit of uncertainty, 0 to 1."""
    slots: int = 1
    """Thompson slots: places that items with few uses may win, 1 or 2."""
    posterior: PosteriorKind = PosteriorKind.SHRUNK
    floor: float = 0.1
    """The probability of a uniform choice, 0 to 1: no eligible item is ever impossible."""
    swaps: float = 0.0
    """The share of searches in which two neighbouring hits change places, 0 to 1; 0.02 is enough to learn from."""
    fewer_uses_than: int = 5
    """An item with fewer uses is eligible."""
    younger_than_days: float = 7.0
    """An item that was stored fewer days ago is eligible too."""
    most_eligible: int = 30
    """The most eligible items, the best by score, 1 to 300: it bounds the weights of off-policy estimates."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", check_choice("exploration policy", self.policy, PolicyName))
        object.__setattr__(self, "posterior", check_choice("exploration posterior", self.posterior, PosteriorKind))
        for name in ("rate", "floor", "swaps"):
            check_share(f"exploration {name}", getattr(self, name))
        check_whole("exploration slots", self.slots, 1, 2)
        check_whole("exploration fewer_uses_than", self.fewer_uses_than, 0, 1_000_000)
        check_whole("exploration most_eligible", self.most_eligible, 1, 300)
        check_share("exploration younger_than_days", self.younger_than_days, high=100_000)

    @property
    def is_off(self) -> bool:
        """True if every search shows its hits by score alone."""
        return self.policy is PolicyName.OFF and not self.swaps


LEARNED_SHARE = 0.6
"""0.4 relevance + 0.6 learned reward, once there is something learned."""


class Combination(StrEnum):
    """The method by which relevance and learned reward become one score."""

    OFF = "off"
    """The learned reward is left out."""
    SUM = "sum"
    """(1 - share) × relevance + share × learned reward, both from 0 to 1."""
    LOGIT_STACK = "logit_stack"
    """A logistic model over relevance and learned reward, with weights fitted to feedback."""


@checks.checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(Serializable):
    """The learned reward in a profile, once a model is published. Raises ``InvalidProfileError``."""

    combination: Combination = Combination.SUM
    share: float = LEARNED_SHARE
    """The share of the learned reward in the sum, 0 to 1; the logit stack does not use it."""
    trusted_from: int | None = None
    """A model fitted on at least this many verdicts is used without winning a trial; None: it must win."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "combination", check_choice("learned combination", self.combination, Combination))
        check_share("learned share", self.share)
        if self.trusted_from is not None:
            check_whole("learned trusted_from", self.trusted_from, 1, 1_000_000)

    @property
    def is_off(self) -> bool:
        """True if the learned reward never counts."""
        return self.combination is Combination.OFF


@checks.checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Recording(Serializable):
    """The recording of searches. Raises ``InvalidProfileError`` for a number outside its range."""

    rate: float = 1.0
    """The share of searches, 0 (none) to 1 (all)."""
    pool: int = 100
    """Candidates kept with each, 0 to 1000, for replay and off-policy evaluation."""
    wait: bool = False
    """True if a search answers only once its record is durable; otherwise the record is stored after the answer."""

    def __post_init__(self) -> None:
        check_share("recording rate", self.rate)
        check_whole("recording pool", self.pool, 0, 1000)
        if not isinstance(self.wait, bool):
            raise InvalidProfileError(f"recording wait is {checks.written(self.wait)}; it must be true or false")
