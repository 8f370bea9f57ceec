"""The request for candidates, which determines the text of a search's statement."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import datetime

from retrieval.domain.items.attribute import Filterable
from retrieval.domain.items.embedding import Vector
from retrieval.domain.search.filters import Field, Filter
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import Fusion, LegName
from retrieval.domain.search.signals import EntityKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalWeights:
    """The weights by which candidate memories are scored before their texts are read."""

    relevance: float = 0.0
    recency: float = 0.0
    decay_days: float = 14.0
    use: float = 0.0
    words: float = 0.0
    entities: float = 0.0
    vectors: float = 0.0
    stride: int = 1000
    """The number of rows that the leg of each stored signal reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyHits:
    """How the database guesses which candidates become hits, so that their columns come in the same round trip."""

    items: int
    """The number of candidates with the highest guessed scores whose columns are read."""
    weights: tuple[tuple[LegName, float], ...]
    fusion: Fusion


SMALL_COLLECTION = 10_000
"""Up to this many items, each is looked up if a condition is on another table: about 3 µs an item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRequest:
    """The requested candidates and the way to find them, without the query itself."""

    collection_id: int
    legs: tuple[LegName, ...]
    depth: int
    """The number of candidates per leg."""
    enough: int | None = None
    """With ``signal_weights``: the candidates of all legs to keep, and enough for one leg; None: ``depth``."""
    signal_weights: SignalWeights | None = None
    """Candidates are scored in the database, and only the best are sent; None: all candidates are sent."""
    condition: Filter | None = None
    filterable: Filterable = ()
    """The attributes that have an index."""
    path: Path = Path.EXACT
    """``EXACT`` compares every matching vector. ``APPROXIMATE`` walks the HNSW index, unless ``few`` items match."""
    space_id: int = 0
    dimensions: int = 0
    documents: int = 0
    """The number of items in the collection; an index that finds fewer, below the depth, fell short."""
    few: int = 0
    """With a filter: if at most this many items match, each is looked up, and no index is walked; -1: more match."""
    share: float = 0.0
    """With a filter: the least share of the items that match, from 0 to 1; 0: unknown."""
    reach: int = 0
    """With a filter: the most items that a walk reads; after it every matching item is looked up."""
    effort: int = 40
    """``hnsw.ef_search`` of a walk; with a quantised index also the number of rows compared by their vectors."""
    is_quantised: bool = False
    """Whether the HNSW index has one bit a dimension."""
    parts: int = 1
    """The number of HNSW indexes that the dense leg walks."""
    fields: tuple[Field, ...] = ()
    """Fields whose values are read with each candidate."""
    with_items: bool = False
    """Whether to read the columns of a hit with each candidate, for a search whose candidates are its hits."""
    likely: LikelyHits | None = None
    """The likely hits, whose columns are read too; None: no columns."""
    with_both_scores: bool = False
    """Whether to look up the score of dense candidates in the lexical leg, and the other way round."""
    ranks_both_scores: bool = True
    """Whether the scores that are looked up count in the legs' rankings; if not, they are kept beside them."""
    with_vectors: bool = False
    """Whether to look up the candidates' vectors."""
    checks_space: bool = False
    """Whether to raise ``SpaceMovedError`` if searches of the collection now use another space."""

    @property
    def least_depth(self) -> int:
        """The number of candidates to keep."""
        return self.depth if self.enough is None else self.enough

    @property
    def surely_walks(self) -> bool:
        """Whether so many items match that they are not counted."""
        return self.few < 0

    @property
    def is_small(self) -> bool:
        """Whether looking up each item costs little, although the planner may not know it yet."""
        return self.documents <= SMALL_COLLECTION

    def deeper(self, times: int, most: int) -> CandidateRequest:
        """The same request for ``times`` as many candidates, at most ``most``, with legs of that depth."""
        enough = min(times * self.least_depth, most)
        if self.signal_weights is None:
            return replace(self, depth=enough)
        weights = replace(self.signal_weights, stride=max(self.signal_weights.stride, enough))
        return replace(self, depth=max(self.depth, enough), enough=enough, signal_weights=weights)

    def shape(self) -> Hashable:
        """Apart from the filter, all that the statement's text depends on; numbers are parameters."""
        where = (self.collection_id, self.space_id, self.dimensions, self.filterable)
        return (
            self.legs, self.path, self.is_quantised, self.parts, where, self.fields, self.with_items,
            self.likely and self.likely.fusion.kind, self.with_both_scores, self.with_vectors, self.checks_space,
            self.signal_weights is not None, self.is_small, self.surely_walks,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """The query of one search."""

    words: str = ""
    vector: Vector | None = None
    """Shape (dimensions,), unit length; None: the dense leg does not run."""
    prefixes: tuple[str, ...] = ()
    """Beginnings of words, for the lexical leg."""
    entities: tuple[EntityKey, ...] = ()
    """The entities that the question is about, for the linked leg."""
    tags: tuple[str, ...] = ()
    """The tags that the question is about, for the tagged leg."""
    as_of: datetime | None = None
    """The time from which recency is measured; None: no signal is computed in the database."""
    now: datetime | None = None
    """The time by the clock: the popular and the relevant leg leave out items that have expired; None: keep them."""
