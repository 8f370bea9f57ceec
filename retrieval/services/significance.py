"""Tests whether a difference between two systems on the same queries can be chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.serialization import Serializable

SIGNIFICANT = 0.05
"""Differences with a p-value below this are called significant."""

EXACT_PAIRS = 12
"""Up to this many differing pairs every sign pattern is tried (4,096), and the p-value is exact."""

_BATCH_CELLS = 1_000_000

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Serializable):
    """System A against system B on the same queries."""

    serialized_properties = ("significant",)

    name_a: str
    name_b: str
    mean_a: float
    mean_b: float
    difference: float
    """Mean of A minus mean of B: above 0, A is better."""
    low: float
    high: float
    """Ends of the difference's 95 % bootstrap confidence interval."""
    p_value: float
    """Two-sided, in (0, 1]: how often chance alone gives a difference this large."""
    queries: int

    @property
    def significant(self) -> bool:
        """Whether the p-value is below ``SIGNIFICANT``."""
        return self.p_value < SIGNIFICANT


def compare(
    a: Sequence[float] | _Floats,
    b: Sequence[float] | _Floats,
    *,
    names: tuple[str, str] = ("A", "B"),
    permutations: int = 10_000,
    rng: np.random.Generator | None = None,
) -> Comparison:
    """Compare two systems by their finite scores on the same queries, at least one, pair by pair.

    The p-value is that of the two-sided paired randomisation test on the mean difference: under the null
    hypothesis the two systems are the same, so each pair's difference might as well have the other sign. See
    Smucker, Allan and Carterette, "A comparison of statistical significance tests for information retrieval
    evaluation", CIKM 2007. Sampled p-values count the observed pattern itself, so they are never 0 (Phipson
    and Smyth, 2010). The interval is the bootstrap's percentile interval over queries, with as many resamples
    as permutations. Without ``rng`` the seed is fixed, so that equal input gives equal output.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    generator = np.random.default_rng(0) if rng is None else rng
    differences = first - second
    p_value = _p_value(differences, permutations, generator)
    low, high = _interval(differences, permutations, generator)
    return Comparison(
        name_a=names[0],
        name_b=names[1],
        mean_a=float(first.mean()),
        mean_b=float(second.mean()),
        difference=float(differences.mean()),
        low=low,
        high=high,
        p_value=p_value,
        queries=first.size,
    )


def _p_value(differences: _Floats, permutations: int, rng: np.random.Generator) -> float:
    # A pair without a difference adds 0 under either sign, so leaving it out changes no pattern's sum.
    differing = differences[differences != 0]
    # Sums of the same numbers in another order differ in their last bits and must still count as equal.
    threshold = abs(float(differing.sum())) - 1e-12 * float(np.abs(differing).sum())
    if differing.size <= EXACT_PAIRS:
        patterns = np.arange(2**differing.size)[:, None] >> np.arange(differing.size) & 1
        return float(np.mean(np.abs((patterns * 2.0 - 1.0) @ differing) >= threshold))
    as_large = 0
    for rows in _batches(permutations, differing.size):
        signs = rng.integers(0, 2, size=(rows, differing.size), dtype=np.int8) * 2.0 - 1.0
        as_large += int(np.count_nonzero(np.abs(signs @ differing) >= threshold))
    return (as_large + 1) / (permutations + 1)


def _interval(differences: _Floats, resamples: int, rng: np.random.Generator) -> tuple[float, float]:
    means = [
        differences[rng.integers(0, differences.size, size=(rows, differences.size))].mean(axis=1)
        for rows in _batches(resamples, differences.size)
    ]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return float(low), float(high)


def _batches(rows: int, columns: int) -> Iterator[int]:
    """Sizes that add up to ``rows``, each small enough for a matrix of a few megabytes."""
    step = max(1, _BATCH_CELLS // columns)
    for start in range(0, rows, step):
        yield min(step, rows - start)
