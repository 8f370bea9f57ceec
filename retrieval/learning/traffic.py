"""Recorded traffic as a target policy would have met it: impressions, grouped by retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.errors import InvalidRequestError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Impressions with what they earned, and what the target thinks of them.

    Raises ``InvalidRequestError`` for shapes that do not fit, a propensity outside 0 to 1 (0 excluded), a target
    probability outside 0 to 1, or a retrieval number without a place in ``expected``.
    """

    retrieval: Ints
    """Shape (impressions,): the number of its retrieval, from 0."""
    propensity: Floats
    """Shape (impressions,): the probability with which it was shown."""
    target: Floats
    """Shape (impressions,): the probability with which the target shows it; 0: never."""
    reward: Floats
    """Shape (impressions,): 0 to 1; NaN: nobody said, which is no failure."""
    expected: Floats
    """Shape (retrievals,): how many items the target shows, on average."""
    modelled: Floats
    """Shape (impressions,): a model's guess of the reward, made without looking at this retrieval."""
    direct: Floats
    """Shape (retrievals,): Σ over all the target may show of its probability × the modelled reward."""

    def __post_init__(self) -> None:
        each = (self.retrieval, self.propensity, self.target, self.reward, self.modelled)
        if any(one.shape != self.retrieval.shape or one.ndim != 1 for one in each):
            raise InvalidRequestError("traffic needs one retrieval, propensity, target, reward and model an impression")
        if self.expected.ndim != 1 or self.expected.shape != self.direct.shape:
            raise InvalidRequestError("traffic needs one expected slate size and one direct estimate a retrieval")
        if self.retrieval.size and not 0 <= self.retrieval.min() <= self.retrieval.max() < self.expected.size:
            raise InvalidRequestError(f"retrievals are numbered from 0 to {self.expected.size - 1}")
        if not ((self.propensity > 0) & (self.propensity <= 1)).all():
            raise InvalidRequestError("a propensity is not above 0 and at most 1; record it when the slate is drawn")
        if not ((self.target >= 0) & (self.target <= 1)).all():
            raise InvalidRequestError("a target probability is not within 0 to 1")

    @classmethod
    def of_rows(
        cls,
        *,
        propensity: Sequence[float] | Floats,
        target: Sequence[float] | Floats,
        reward: Sequence[float] | Floats,
        retrieval: Sequence[int] | Ints | None = None,
        expected: Sequence[float] | Floats | None = None,
        modelled: Sequence[float] | Floats | None = None,
        direct: Sequence[float] | Floats | None = None,
    ) -> Traffic:
        """The traffic in those columns; without ``retrieval``, each row is one of its own that shows one item.

        Without ``expected`` the target shows as many items as were shown; without a model, it guesses 0.
        """
        shown = np.asarray(propensity, dtype=np.float64)
        numbers = np.arange(shown.size) if retrieval is None else np.asarray(retrieval, dtype=np.int64)
        sizes = np.bincount(numbers).astype(np.float64) if expected is None else np.asarray(expected, dtype=np.float64)
        return cls(
            retrieval=numbers,
            propensity=shown,
            target=np.asarray(target, dtype=np.float64),
            reward=np.asarray(reward, dtype=np.float64),
            expected=sizes,
            modelled=np.zeros(shown.shape) if modelled is None else np.asarray(modelled, dtype=np.float64),
            direct=np.zeros(sizes.shape) if direct is None else np.asarray(direct, dtype=np.float64),
        )

    def with_default(self, reward: float | None) -> Traffic:
        """The same traffic, an impression that nobody rated counting as that reward; None: as nothing."""
        if reward is None:
            return self
        if not 0 <= reward <= 1:
            raise InvalidRequestError(f"the default reward is {reward}; it must be 0 to 1, or None for none")
        return replace(self, reward=np.where(self.is_rated, self.reward, reward))

    @property
    def weights(self) -> Floats:
        """Shape (impressions,): how much more often the target shows it."""
        return self.target / self.propensity

    @property
    def is_rated(self) -> NDArray[np.bool_]:
        """Shape (impressions,): whether there is a reward."""
        return ~np.isnan(self.reward)

    @property
    def shown(self) -> Floats:
        """Shape (retrievals,): how many impressions each has."""
        return self.by_retrieval(np.ones(self.retrieval.shape))

    @property
    def rated(self) -> Floats:
        """Shape (retrievals,): how many of them have a reward."""
        return self.by_retrieval(self.is_rated.astype(np.float64))

    def by_retrieval(self, values: Floats) -> Floats:
        """The sums of the impressions' values, shape (retrievals,)."""
        return np.bincount(self.retrieval, weights=values, minlength=self.expected.size).astype(np.float64)
