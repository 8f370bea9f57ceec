"""Refining: of the candidates that were fused, those that are like the best one gain on the others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.items.embedding import Vector
from retrieval.domain.search.profile_parts import check_share

REFINING = "refining"
"""The ranking of the candidates by their likeness, beside those of the legs."""

_STEPS = 32767
"""A likeness is a whole number of such parts of 1, so that a record keeps it exactly in two bytes."""

_NOT_KNOWN = -1

_NO_DIRECTION = 1e-5
"""A vector that lies so near to the middle of the pool points nowhere from there."""


@dataclass(frozen=True, slots=True)
class PoolVectors:
    """The vectors of items, in one array."""

    rows: NDArray[np.float32]
    """Shape (n, dimensions)."""
    places: Mapping[str, int]
    """The row of each item that has one, by item id."""

    @classmethod
    def of(cls, vectors: Mapping[str, Vector]) -> PoolVectors:
        """The vectors of a mapping by item id."""
        if not vectors:
            return NO_VECTORS
        rows = np.array(list(vectors.values()), dtype=np.float32)
        return cls(rows, {item_id: place for place, item_id in enumerate(vectors)})

    def of_items(self, item_ids: Sequence[str]) -> NDArray[np.float32]:
        """The rows of those items, each of which has one, in their order."""
        return self.rows[[self.places[item_id] for item_id in item_ids]]


NO_VECTORS = PoolVectors(np.zeros((0, 0), dtype=np.float32), MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refining:
    """The share of the likeness to the best candidate in a fused score. Raises ``InvalidProfileError``."""

    share: float = 0.0
    """The share of the likeness in the score, 0 to 1; 0: off."""

    def __post_init__(self) -> None:
        check_share("refining share", self.share)

    @property
    def is_off(self) -> bool:
        """True if fused scores stay as they are."""
        return self.share == 0


def likenesses(rows: NDArray[np.float32], pool: Sequence[int], best: int) -> list[float]:
    """The likeness of each row to the best one, from 0 (opposite) over 0.5 (unrelated) to 1 (the best itself).

    ``rows``: vectors, shape (n, dimensions); ``pool`` and ``best``: places in them. (1 + cos(v - m, b - m)) / 2 with b
    the best vector and m the mean of the pool's: what they have in common tells nothing. This is Rocchio's feedback
    (The SMART Retrieval System, 1971) with the best hit for the relevant and the pool for the other documents. Empty
    where the best lies in the middle of the pool.
    """
    shares = np.zeros(len(rows), dtype=np.float32)
    shares[pool] = 1 / len(pool)
    apart = rows - shares @ rows
    lengths = [math.sqrt(square) for square in np.vecdot(apart, apart).tolist()]
    if lengths[best] < _NO_DIRECTION:
        return []
    # Numbers of Python: for some fifty of them each call of NumPy costs more than all of the arithmetic.
    products = zip(np.vecdot(apart, apart[best]).tolist(), lengths, strict=True)
    cosines = [
        min(max(product / (length * lengths[best]), -1.0), 1.0) if length >= _NO_DIRECTION else 0.0
        for product, length in products
    ]
    cosines[best] = 1.0
    return [round((1.0 + cosine) * (_STEPS / 2)) / _STEPS for cosine in cosines]


def in_steps(values: Iterable[float | None]) -> list[int]:
    """The likenesses as whole numbers, of which ``from_steps`` makes them again; None: not known."""
    return [_NOT_KNOWN if value is None else round(value * _STEPS) for value in values]


def from_steps(steps: Iterable[int]) -> list[float | None]:
    """The likenesses that ``in_steps`` was given."""
    return [None if step == _NOT_KNOWN else step / _STEPS for step in steps]
