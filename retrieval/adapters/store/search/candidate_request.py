"""The request for candidates, which the text of a search's statement depends on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import datetime

from retrieval.domain.items.attribute import Filterable
from retrieval.domain.items.embedding import Vector
from retrieval.domain.search.filters import Field, Filter
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import LegName
from retrieval.domain.search.signals import Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingWeights:
    """The weights that score memories among the candidates before their texts are read."""

    relevance: float = 0.0
    recency: float = 0.0
    decay_days: float = 14.0
    use: float = 0.0
    words: float = 0.0
    entities: float = 0.0
    vectors: float = 0.0
    stride: int = 1000
    """The number of rows that each leg of a stored signal reads."""


SMALL_COLLECTION = 10_000
"""Up to so many items, each is looked up where a condition is on another table: about 3 µs an item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRequest:
    """The wanted candidates and the way to find them, apart from the query itself."""

    collection_id: int
    legs: tuple[LegName, ...]
    depth: int
    """Candidates a leg."""
    enough: int | None = None
    """Candidates that stay of all legs, of ``standing``; of a leg so many are enough. None: all, the depth."""
    standing: StandingWeights | None = None
    """Candidates are weighed before they are sent; None: each leg's are."""
    condition: Filter | None = None
    filterable: Filterable = ()
    """The attributes that have an index."""
    path: Path = Path.EXACT
    """``EXACT`` compares every matching vector. ``APPROXIMATE`` walks the HNSW index, unless ``few`` items match."""
    space_id: int = 0
    dimensions: int = 0
    documents: int = 0
    """Items that the collection has: an index that brings fewer than there are fell short."""
    few: int = 0
    """With a filter: if at most this many items match, each is looked up, whatever index there is."""
    reach: int = 0
    """With a filter: the most items that an index scan returns before every matching item is looked up instead."""
    effort: int = 40
    """``hnsw.ef_search`` of a walk; of a quantised index so many rows are compared by their vectors, too."""
    is_quantised: bool = False
    """Whether the HNSW index has one bit a dimension."""
    parts: int = 1
    """The number of HNSW indexes that the dense leg walks."""
    fields: tuple[Field, ...] = ()
    """Fields whose values come beside each candidate."""
    with_items: bool = False
    """Whether the columns of a hit come with each candidate: for a search whose candidates are its hits."""
    with_both_scores: bool = False
    """Whether candidates of the dense and the lexical leg get their score in the other leg, looked up by key."""
    with_vectors: bool = False
    """Whether the candidates' vectors come with them, looked up by key."""
    checks_space: bool = False
    """Whether to raise ``SpaceMovedError`` if searches of the collection use another space by now."""

    @property
    def least_depth(self) -> int:
        """Candidates that stay at least."""
        return self.depth if self.enough is None else self.enough

    @property
    def is_small(self) -> bool:
        """Whether the collection is small: looking up each item costs little, and the planner may not know it yet."""
        return self.documents <= SMALL_COLLECTION

    def deeper(self, times: int, most: int) -> CandidateRequest:
        """The same with so many times the candidates that stay, at most ``most``, and legs that are as deep as that."""
        enough = min(times * self.least_depth, most)
        if self.standing is None:
            return replace(self, depth=enough)
        standing = replace(self.standing, stride=max(self.standing.stride, enough))
        return replace(self, depth=max(self.depth, enough), enough=enough, standing=standing)

    def shape(self) -> Hashable:
        """The key of the statement's text beside the filter; numbers are parameters."""
        where = (self.collection_id, self.space_id, self.dimensions, self.filterable)
        return (
            self.legs,
            self.path,
            self.is_quantised,
            self.parts,
            where,
            self.fields,
            self.with_items,
            self.with_both_scores,
            self.with_vectors,
            self.checks_space,
            self.standing is not None,
            self.is_small,
        )


@dataclass(frozen=True, slots=True)
class Query:
    """The query of one search."""

    words: str = ""
    vector: Vector | None = None
    """Shape (dimensions,), unit length; None where the dense leg does not run."""
    prefixes: tuple[str, ...] = ()
    """Beginnings of words, for the lexical leg."""
    entities: tuple[Entity, ...] = ()
    """The entities that the question is about, for the linked leg."""
    tags: tuple[str, ...] = ()
    """The tags that the question is about, for the tagged leg."""
    as_of: datetime | None = None
    """The moment that recency goes by. None: nothing is weighed before it is sent."""
    now: datetime | None = None
    """The clock's: what has expired by then is not among the popular and the relevant. None: expiry does not count."""
