"""Exact or approximate: how the dense leg goes about a search, by what each way costs. Pure.

With N vectors, m of them matching and d candidates wanted, comparing all matching ones costs m × r, with r the time of
one comparison; walking the index until d matching ones were met costs d × N / m × w, with w the time of a step. They
cost the same at m = sqrt(d × N × w / r). Up to that many matches a search is exact, which is also where a walk misses
most. r and w are measured on the machine when an index is made.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from retrieval.adapters.store.ann_indexes import AnnIndex
from retrieval.adapters.store.candidates import Found
from retrieval.adapters.store.collections import StoredCollection
from retrieval.adapters.store.dense_leg import MAX_EFFORT, SPARE
from retrieval.domain.hit import Path
from retrieval.domain.profile import LegName

_PATIENCE = 4
"""How many times the expected length a walk may take before every matching vector is compared instead."""


@dataclass(frozen=True, slots=True)
class Way:
    """How the dense leg starts; what it finds may still lead it to compare every matching vector."""

    path: Path
    few: int = 0
    """Up to so many matches are compared exactly."""
    reach: int = 0
    """The most rows that a filtered walk may take."""
    effort: int = 0
    """``hnsw.ef_search``."""


def choose_way(
    collection: StoredCollection, legs: Collection[LegName], *, depth: int, limit: int, is_filtered: bool
) -> Way:
    """The way for ``depth`` candidates of which the first ``limit`` count most."""
    index = collection.ann_index
    if index is None or (LegName.DENSE not in legs and not is_filtered):
        return Way(Path.EXACT)
    effort = effort_for(index, limit)
    if effort > MAX_EFFORT:
        return Way(Path.EXACT)
    if not is_filtered:
        return Way(Path.APPROXIMATE, effort=effort)
    few = few_matches(index, depth, collection.documents)
    reach = math.ceil(_PATIENCE * SPARE * depth * collection.documents / few)
    return Way(Path.APPROXIMATE, few=few, reach=reach, effort=effort)


def effort_for(index: AnnIndex, limit: int) -> int:
    """The search effort for that many hits: as measured for 10 and for 100, between and beyond them in proportion."""
    if limit <= 10:
        return index.effort_10
    step = max(index.effort_100 - index.effort_10, 90) / 90
    return math.ceil(index.effort_10 + step * (limit - 10))


def few_matches(index: AnnIndex, depth: int, documents: int) -> int:
    """Up to that many matches, comparing them all is as cheap as a walk."""
    ratio = index.walk_row_us / max(index.exact_row_us, 0.01)
    return min(math.ceil(math.sqrt(SPARE * depth * documents * ratio)), max(documents, 1))


def account(collection: StoredCollection, found: Found, *, is_filtered: bool) -> tuple[int, str]:
    """How many rows the dense leg weighed, and why it went the way it went, in words."""
    index, documents, weighed = collection.ann_index, collection.documents, found.weighed
    if found.path is Path.NONE:
        return 0, "no dense leg"
    if found.path is Path.APPROXIMATE:
        why = f"many of {documents} items match" if is_filtered else f"unfiltered among {documents} items"
        return weighed, f"{why}: the HNSW index was walked"
    if found.fell_short:
        return weighed, "the index brought too few that match: every matching vector was compared"
    if is_filtered and index is None:
        return weighed, f"no HNSW index: the {weighed} matching vectors were compared"
    if is_filtered:
        return (
            weighed,
            f"{weighed} of {documents} items match: comparing them all costs less than walking the HNSW index",
        )
    if index is None:
        return documents, f"no HNSW index: {documents} items are few enough to compare all"
    return documents, "so many hits are wanted that comparing all vectors is safer than walking the HNSW index"
