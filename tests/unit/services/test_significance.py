"""The paired randomisation test against counts made by hand and by brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.services.significance import EXACT_PAIRS, compare


def test_the_exact_p_value_is_the_share_of_sign_patterns() -> None:
    """With differences 1, 1, 1, 1 two of sixteen patterns are as extreme: all plus and all minus."""
    comparison = compare([2, 2, 2, 2], [1, 1, 1, 1])

    assert (comparison.p_value, comparison.difference, comparison.queries) == (2 / 16, 1.0, 4)


def test_one_pair_can_never_be_significant() -> None:
    """Both signs are as extreme, so p is 1."""
    comparison = compare([0.9], [0.1])

    assert comparison.p_value == 1.0
    assert not comparison.significant


def test_equal_systems_have_no_difference() -> None:
    """Nothing differs: p is 1 and the interval is a point."""
    comparison = compare([0.1, 0.5, 0.7], [0.1, 0.5, 0.7])

    assert (comparison.difference, comparison.p_value, comparison.low, comparison.high) == (0.0, 1.0, 0.0, 0.0)


scores = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.3, 0.6, 1.0]), st.sampled_from([0.0, 0.1, 0.3, 0.6, 1.0])),
    min_size=1,
    max_size=8,
)


@given(scores)
@settings(max_examples=50, deadline=None)
def test_small_samples_agree_with_brute_force(pairs: list[tuple[float, float]]) -> None:
    """The p-value is that of trying every assignment of signs over all pairs, ties included."""
    a, b = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    differences = [round(10 * (x - y)) for x, y in pairs]
    observed = abs(sum(differences))
    patterns = list(product((-1, 1), repeat=len(pairs)))
    extreme = sum(abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= observed for signs in patterns)

    assert compare(a, b, permutations=20).p_value == pytest.approx(extreme / len(patterns))


@given(scores)
@settings(max_examples=30, deadline=None)
def test_the_order_of_the_systems_only_turns_the_sign(pairs: list[tuple[float, float]]) -> None:
    """A against B has the p-value of B against A and the opposite difference."""
    a, b = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    forward, backward = compare(a, b, permutations=50), compare(b, a, permutations=50)

    assert forward.p_value == backward.p_value
    assert forward.difference == -backward.difference
    assert (-backward.high, -backward.low) == pytest.approx((forward.low, forward.high))


def test_sampling_agrees_with_the_normal_approximation() -> None:
    """For many pairs the p-value is near that of a z-test on the flipped signs."""
    rng = np.random.default_rng(5)
    b = rng.random(400)
    a = b + rng.normal(0.02, 0.2, 400)
    differences = a - b
    z = abs(differences.sum()) / np.sqrt((differences**2).sum())
    normal = 2 * (1 - _standard_normal_cdf(z))

    assert compare(a, b).p_value == pytest.approx(normal, abs=0.02)


def _standard_normal_cdf(z: float) -> float:
    grid = np.linspace(-8, z, 100_001)
    density = np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi)
    return float(np.sum((density[1:] + density[:-1]) / 2) * (grid[1] - grid[0]))


def test_a_sampled_p_value_is_never_zero() -> None:
    """The observed pattern is one of the patterns: the least is 1 / (permutations + 1)."""
    assert compare([1.0] * 50, [0.0] * 50, permutations=1000).p_value == pytest.approx(1 / 1001)


def test_chance_is_found_significant_as_often_as_promised() -> None:
    """Between equal systems about 1 in 20 comparisons has p < 0.05, not many more."""
    rng = np.random.default_rng(11)
    count = sum(compare(rng.random(30), rng.random(30), permutations=300).significant for _ in range(400))

    assert 6 <= count <= 38


def test_exact_and_sampled_p_values_agree_at_the_border() -> None:
    """One pair more than is enumerated gives nearly the same answer by sampling."""
    differences = list(np.random.default_rng(2).normal(0.4, 1.0, EXACT_PAIRS))
    exact = compare(differences, [0.0] * EXACT_PAIRS).p_value
    sampled = compare([*differences, 1e-9], [0.0] * (EXACT_PAIRS + 1)).p_value

    assert sampled == pytest.approx(exact, abs=0.02)


def test_pairs_without_a_difference_do_not_change_the_p_value() -> None:
    """Ties say nothing about the better system, and the test stays exact."""
    few = compare([1.0, 0.8, 0.9, 0.7, 1.0, 0.6], [0.0] * 6)
    padded = compare([1.0, 0.8, 0.9, 0.7, 1.0, 0.6] + [0.5] * 100, [0.0] * 6 + [0.5] * 100)

    assert few.p_value == padded.p_value == 2 / 64


def test_the_interval_covers_the_true_difference_as_often_as_promised() -> None:
    """About 95 in 100 intervals hold the true mean difference."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(200):
        comparison = compare(rng.normal(0.1, 0.3, 60), np.zeros(60), permutations=400)
        covered += comparison.low <= 0.1 <= comparison.high

    assert 178 <= covered <= 198


def test_equal_input_gives_equal_output() -> None:
    """Without a generator the seed is fixed; a given generator is used."""
    rng = np.random.default_rng(1)
    a, b = rng.random(40), rng.random(40)

    assert compare(a, b) == compare(a, b)
    assert compare(a, b, rng=np.random.default_rng(7)) == compare(a, b, rng=np.random.default_rng(7))
    assert compare(a, b).low != compare(a, b, rng=np.random.default_rng(7)).low


def test_a_comparison_has_plain_values() -> None:
    """Programs see its numbers, and whether they are significant."""
    comparison = compare([0.5] * 6, [0.25] * 6, names=("fused", "dense"))

    assert {"name_a": "fused", "p_value": 2 / 64, "significant": True}.items() <= comparison.as_dict().items()
