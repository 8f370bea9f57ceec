"""Candidates that are alike: refining raises those like the best one, diversity leaves near-duplicates out. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.checks import checks_argument_names
from retrieval.domain.items.embedding import Vector
from retrieval.domain.search.profile_parts import check_positive, check_share
from retrieval.domain.search.signals import STOP_WORDS
from retrieval.domain.words import apart, lowered, symbols, terms, words

REFINING = "refining"
"""The ranking of the candidates by their likeness, beside those of the legs."""

_STEPS = 32767
"""A likeness is a multiple of 1 / 32767, so that a record keeps it exactly in two bytes."""

LEAST_DIFFERENCE = 1.5 / _STEPS
"""Likenesses that differ by less follow from the same vectors: a sum in another order may round to the next step."""

_NOT_KNOWN = -1

_NO_DIRECTION = 1e-5
"""A vector nearer than this to the pool's mean has no direction from it."""


@dataclass(frozen=True, slots=True)
class PoolVectors:
    """The vectors of items, in one array."""

    rows: NDArray[np.float32]
    """Shape (n, dimensions)."""
    row_of: Mapping[str, int]
    """The row of each item that has one, by item id."""

    @classmethod
    def of(cls, vectors: Mapping[str, Vector]) -> PoolVectors:
        """The vectors of a mapping by item id."""
        if not vectors:
            return NO_VECTORS
        rows = np.array(list(vectors.values()), dtype=np.float32)
        return cls(rows, {item_id: row for row, item_id in enumerate(vectors)})


NO_VECTORS = PoolVectors(np.zeros((0, 0), dtype=np.float32), MappingProxyType({}))


@checks_argument_names
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

    ``rows``: vectors, shape (n, dimensions); ``pool`` and ``best``: indexes of rows. (1 + cos(v - m, b - m)) / 2 with b
    the best vector and m the mean of the pool's (Rocchio, The SMART Retrieval System, 1971). Empty where b is m.
    """
    shares = np.zeros(len(rows), dtype=np.float32)
    shares[pool] = 1 / len(pool)
    apart = rows - shares @ rows
    lengths = [math.sqrt(square) for square in np.vecdot(apart, apart).tolist()]
    if lengths[best] < _NO_DIRECTION:
        return []
    # Python floats: for about fifty numbers, each NumPy call costs more than all of the arithmetic.
    products = zip(np.vecdot(apart, apart[best]).tolist(), lengths, strict=True)
    cosines = [
        min(max(product / (length * lengths[best]), -1.0), 1.0) if length >= _NO_DIRECTION else 0.0
        for product, length in products
    ]
    cosines[best] = 1.0
    return [round((1.0 + cosine) * (_STEPS / 2)) / _STEPS for cosine in cosines]


def in_steps(values: Iterable[float | None]) -> list[int]:
    """The likenesses as whole numbers, which ``from_steps`` converts back; None: not known."""
    return [_NOT_KNOWN if value is None else round(value * _STEPS) for value in values]


def from_steps(steps: Iterable[int]) -> list[float | None]:
    """The likenesses from the whole numbers of ``in_steps``."""
    return [None if step == _NOT_KNOWN else step / _STEPS for step in steps]


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """A profile's last step. Raises ``InvalidProfileError`` for a number outside its range."""

    collapse_above: float | None = None
    """Cosine similarity, above 0 and up to 1, from which a candidate is a near-duplicate of a better one and left
    out; None: all stay."""
    relevance_share: float | None = None
    """λ of maximal marginal relevance, 0 to 1: 1 ranks by relevance alone, 0 by difference alone; None: not done."""

    def __post_init__(self) -> None:
        above, share = self.collapse_above, self.relevance_share
        if above is not None:
            check_positive("collapse_above", above, "0.95", high=1)
        if share is not None:
            check_share("relevance_share", share)

    @property
    def is_off(self) -> bool:
        """True if the page needs no changes."""
        return self.collapse_above is None and self.relevance_share is None


SimilaritiesTo = Callable[[int], NDArray[np.float32]]
"""The cosine similarities of all candidates to the one at that index, shape (n,)."""


def similarities_of(item_ids: Sequence[str], vectors: PoolVectors) -> SimilaritiesTo:
    """Similarities that are computed on demand; 0 to an item without a vector."""
    known = [index for index, item_id in enumerate(item_ids) if item_id in vectors.row_of]
    rows = np.zeros((len(item_ids), vectors.rows.shape[1]), dtype=np.float32)
    rows[known] = vectors.rows[[vectors.row_of[item_ids[index]] for index in known]]
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= np.where(lengths > 0, lengths, 1)[:, np.newaxis]
    return lambda index: rows @ rows[index]


def diversified(
    scores: Sequence[float], similarities: SimilaritiesTo, diversity: Diversity, limit: int, first: int = 0
) -> list[int]:
    """The indexes of the candidates to show, best first, at most ``limit``; ``scores`` are the candidates'.

    Maximal marginal relevance (Carbonell, Goldstein, SIGIR 1998) takes next the candidate with the highest λ ×
    relevance − (1 − λ) × its greatest similarity to the ones taken; relevance is the score from lowest 0 to highest 1.
    The ``first`` candidates are taken before all others.
    """
    share = 1.0 if diversity.relevance_share is None else diversity.relevance_share
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    relevance = np.ones(len(scores)) if high <= low else (np.asarray(scores, dtype=np.float64) - low) / (high - low)
    nearest = np.full(len(scores), -1.0)
    is_candidate = np.ones(len(scores), dtype=bool)
    taken: list[int] = []
    while len(taken) < limit and is_candidate.any():
        worth = np.where(is_candidate, share * relevance - (1 - share) * nearest, -np.inf)
        best = len(taken) if len(taken) < first else int(np.argmax(worth))
        taken.append(best)
        is_candidate[best] = False
        similar = similarities(best)
        nearest = np.maximum(nearest, similar)
        if diversity.collapse_above is not None:
            is_candidate &= similar < diversity.collapse_above
    return taken


THRESHOLD = 0.9
"""The similarity from which two memories are near-duplicates."""

NEGATIONS = frozenset("no not never none nobody nothing neither nor without cannot don doesn didn isn wasn won".split())  # noqa: SIM905
"""Words that negate a statement; of a contraction, the part before its apostrophe."""


def similarity(first: str, second: str, cosine: float | None = None) -> float:
    """The similarity of two texts, 0 to 1, by words or, if greater, vectors; 0 if numbers, symbols or negation differ.

    Texts without words are alike only if they are equal: to a model, all emoji may be one unknown word.
    """
    if _facts(first) != _facts(second):
        return 0.0
    mine, theirs = words(first), words(second)
    if mine == theirs:
        return float(bool(mine) or first.strip() == second.strip())
    return max(jaccard(terms(first), terms(second)), min(1.0, cosine or 0.0))


def jaccard(first: AbstractSet[str], second: AbstractSet[str]) -> float:
    """Words of both / words of either, stop words apart, 0 to 1 (Jaccard, 1901); 0 where there are none."""
    mine, theirs = first - STOP_WORDS, second - STOP_WORDS
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0


def _facts(text: str) -> tuple[bool, list[str], list[str]]:
    """Whether the text negates; its numbers and its names with signs, and its symbols, each in their order."""
    each = words(apart(lowered(text))[0])
    unlike = [word for word in each if not word.isalpha()]
    facts = [word for word in unlike if word[-1] in "+#" or any(sign.isdigit() for sign in word)]
    return not NEGATIONS.isdisjoint(each), facts, symbols(text)
