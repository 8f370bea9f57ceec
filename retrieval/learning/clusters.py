"""Clusters of an embedding space: the coarse subjects of items and questions."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.items.embedding import Vectors

LEAST_ITEMS = 24

MOST_CLUSTERS = 64
_ROUNDS = 25


def number_of_clusters(items: int) -> int:
    """The number of clusters for a number of items: √(items / 2), 2 to 64."""
    return max(2, min(MOST_CLUSTERS, round(math.sqrt(items / 2))))


def centroids(vectors: Vectors, number: int, *, seed: int, start: Vectors | None = None) -> Vectors:
    """The centroids, shape (number, dimensions), each of length 1, of unit vectors of shape (n, dimensions).

    Lloyd's k-means with k-means++ (Arthur and Vassilvitskii, SODA 2007). ``start``: earlier centroids, which keep their
    numbers; further ones are added where vectors are far from these.
    """
    from scipy.cluster.vq import kmeans2

    rows = np.asarray(vectors, dtype=np.float64)
    chance = np.random.default_rng(seed)
    # Seeding by distance divides by zero once every vector has a centroid.
    most = number if start is not None else min(number, len({row.tobytes() for row in rows}))
    seeds: Any = most if start is None else _extend(rows, np.asarray(start, dtype=np.float64), number, chance)
    with warnings.catch_warnings():
        # A cluster that loses all items keeps its centroid and its number.
        warnings.filterwarnings("ignore", message="One of the clusters is empty")
        centres, _ = kmeans2(rows, seeds, iter=_ROUNDS, minit="++" if start is None else "matrix", rng=chance)
    return _unit(centres)


def nearest(vectors: Vectors, of: Vectors) -> NDArray[np.int64]:
    """The number of each vector's nearest centroid, shape (n,), by inner product."""
    similarities = np.asarray(vectors, dtype=np.float32) @ np.asarray(of, dtype=np.float32).T
    return np.asarray(similarities.argmax(axis=1), dtype=np.int64)


def _extend(
    rows: NDArray[np.float64], centres: NDArray[np.float64], number: int, chance: np.random.Generator
) -> NDArray[np.float64]:
    """The centroids with further ones up to ``number``, drawn as in k-means++: by squared distance."""
    while len(centres) < number:
        distance = np.maximum(0.0, 2.0 - 2.0 * (rows @ centres.T).max(axis=1))
        if not distance.sum() > 0:
            break
        centres = np.vstack([centres, rows[chance.choice(len(rows), p=distance / distance.sum())]])
    return centres


def _unit(rows: NDArray[np.float64]) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = (rows / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    return unit
