"""Clusters of vectors: repeatable, of unit length, and keeping their numbers."""

from __future__ import annotations

import numpy as np
import pytest

from retrieval.domain.items.embedding import Vectors
from retrieval.learning.clusters import MOST_CLUSTERS, centroids, nearest, number_of_clusters


def _groups(seed: int, groups: int = 4, each: int = 30) -> Vectors:
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.eye(groups, 8), each, axis=0) + rng.normal(scale=0.05, size=(groups * each, 8))
    vectors: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return vectors


def test_groups_that_lie_apart_are_found() -> None:
    """Each centroid has unit length and lies in the middle of one group."""
    rows = _groups(1)
    centres = centroids(rows, 4, seed=1)
    assert np.linalg.norm(centres, axis=1) == pytest.approx(1)
    numbers = nearest(rows, centres)
    assert [len(set(numbers[start : start + 30])) for start in range(0, 120, 30)] == [1] * 4
    assert len(set(numbers)) == 4


def test_going_on_from_earlier_centroids_keeps_their_numbers() -> None:
    """A cluster keeps its learned data when items are added; a cluster without items keeps its place."""
    before = centroids(_groups(1), 4, seed=1)
    after = centroids(_groups(2)[:90], 4, seed=2, start=before)
    assert nearest(after, before).tolist() == [0, 1, 2, 3]


def test_the_same_seed_gives_the_same_centroids() -> None:
    """A repeated job then changes nothing."""
    rows = _groups(1)
    assert np.array_equal(centroids(rows, 5, seed=3), centroids(rows, 5, seed=3))


@pytest.mark.parametrize("different", [1, 2, 3])
def test_there_are_no_more_clusters_than_different_vectors(different: int) -> None:
    """A small collection may hold the same text many times."""
    rows = np.eye(8, dtype=np.float32)[np.arange(24) % different]
    centres = centroids(rows, number_of_clusters(24), seed=1)
    assert centres.shape == (different, 8)
    assert len(set(nearest(rows, centres))) == different


@pytest.mark.parametrize(("items", "clusters"), [(2, 2), (48, 5), (100, 7), (1000, 22), (1_000_000, MOST_CLUSTERS)])
def test_more_items_make_more_clusters_up_to_a_limit(items: int, clusters: int) -> None:
    """By the square root, so that each has enough items to be learned by."""
    assert number_of_clusters(items) == clusters


def test_more_clusters_are_added_where_the_known_ones_are_far() -> None:
    """The old ones keep their numbers."""
    before = centroids(_groups(1)[:60], 2, seed=1)
    after = centroids(_groups(2), 4, seed=2, start=before)
    assert len(after) == 4
    assert nearest(before, after).tolist() == [0, 1]
    assert len(set(nearest(_groups(2), after))) == 4
