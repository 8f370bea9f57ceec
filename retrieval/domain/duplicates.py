"""When two texts say nearly the same."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from retrieval.domain.memory_text import normalised, words
from retrieval.domain.signals.keyword import STOP_WORDS

THRESHOLD = 0.9
"""From this similarity on two memories are near-duplicates."""

NEGATIONS = frozenset("no not never none nobody nothing neither nor without cannot don doesn didn isn wasn won".split())  # noqa: SIM905
"""Words that turn a statement around; of a contraction, what stands before its apostrophe."""


def similarity(one: str, other: str, cosine: float | None = None) -> float:
    """How alike two texts are, 0 to 1: the overlap of their words, or the cosine of their vectors where it is greater.

    1 where the words are the same in the same order. 0 where their numbers differ, or one of them says no where the
    other does not: however alike their words and vectors are, they do not say the same.
    """
    if normalised(one) == normalised(other) and (normalised(one) or one.strip() == other.strip()):
        return 1.0
    mine, theirs = frozenset(words(one)), frozenset(words(other))
    if _facts(mine) != _facts(theirs):
        return 0.0
    return max(jaccard(mine, theirs), min(1.0, cosine or 0.0))


def jaccard(one: AbstractSet[str], other: AbstractSet[str]) -> float:
    """Words of both / words of either, stop words apart, 0 to 1 (Jaccard, 1901); 0 where there are none."""
    mine, theirs = one - STOP_WORDS, other - STOP_WORDS
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0


def _facts(found: AbstractSet[str]) -> frozenset[str]:
    negation = {"no"} if found & NEGATIONS else set()
    return frozenset(word for word in found if any(sign.isdigit() for sign in word)) | negation
