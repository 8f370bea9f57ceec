"""The lexical leg: BM25, by the index of words or over the matching items."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.search import statement_pieces as pieces
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.adapters.store.search.statement_pieces import Rows
from retrieval.adapters.store.tables import item_terms, literal
from retrieval.domain.search.hit import Path

_FOUND_FIRST, _FOUND_FOR_A_FILTER = 4, 20
"""If many items match: the numbers of items to find by words before filtering, as multiples of ``enough``; the second
number if too few of the first match. The cost is about proportional."""

_SPARE_FOUND = 1.5
"""With a known share of matches, the first stage finds 1.5 times the items of which enough are expected to match."""


def lexical_leg(request: CandidateRequest, matches: pieces.Matches | sa.CTE) -> list[Rows]:
    """Rows of ('lexical', item_id, BM25), and a marker row if too few of the found items pass the filter.

    ``matches``: those of the filter; without a filter ``found_by_words``.
    """
    if isinstance(matches, sa.CTE):
        return [pieces.rows_of("lexical", matches)]
    if request.path is not Path.APPROXIMATE:
        return [sa.select(pieces.materialized(_score_matches(request, matches), "lexical"))]
    return _few_or_stages(request, matches)


def words_values(request: CandidateRequest) -> dict[str, int]:
    """The numbers of items that the stages of a filtered leg find."""
    enough = request.least_depth
    expected = _SPARE_FOUND / request.share if request.share else 0.0
    first = min(max(math.ceil(expected), _FOUND_FIRST), _FOUND_FOR_A_FILTER)
    return {"found_first": first * enough, "found_more": _FOUND_FOR_A_FILTER * enough}


def _few_or_stages(request: CandidateRequest, matches: pieces.Matches) -> list[Rows]:
    """Rank all matches if they are few; else filter the items found by words, and find more if too few pass."""
    first = _Stage.of(request, "first_by_words", "found_first", sa.not_(matches.are_few))
    more = _Stage.of(request, "more_by_words", "found_more", first.is_short)
    return [
        sa.select(first.passing).where(sa.not_(first.is_short)),
        sa.select(more.passing),
        sa.select(pieces.materialized(_score_matches(request, matches, matches.are_few), "lexical_of_few")),
        pieces.too_few_found(more.is_short),
    ]


@dataclass(frozen=True, slots=True)
class _Stage:
    """The items found by words, up to a number, and those of them that pass the filter."""

    passing: sa.CTE
    is_short: sa.ColumnElement[bool]
    """Whether the words may find more items, and too few of the found items pass the filter."""

    @classmethod
    def of(cls, request: CandidateRequest, name: str, number: str, only_if: sa.ColumnElement[bool]) -> _Stage:
        """A stage that finds as many items as the parameter ``number`` says, if ``only_if`` holds."""
        most = pieces.parameter(number, sa.Integer)
        # Half of them are enough: finding the last of many takes several times as long as finding the first.
        least = most // sa.literal_column("2", sa.Integer)
        hits = _search_by_words(request, most, least)
        rows = pieces.materialized(sa.select(hits.c.item_id, hits.c.score).where(only_if), name)
        passing = pieces.materialized(_passing(request, rows), f"lexical_of_{name}")
        return cls(passing, sa.and_(pieces.count_of(rows) >= least, pieces.count_of(passing) < pieces.ENOUGH))


def found_by_words(request: CandidateRequest) -> sa.CTE:
    """The items found by words, with the query's weights for BM25; a single CTE for all readers."""
    hits = _search_by_words(request, pieces.parameter("depth", sa.Integer))
    return pieces.materialized(sa.select(hits.c.item_id, hits.c.score, hits.c.weights), "lexical")


def _search_by_words(
    request: CandidateRequest, limit: sa.ColumnElement[int], least: sa.ColumnElement[int] | None = None
) -> sa.TableValuedAlias:
    """The best items by words, at most ``limit``; fewer than ``least`` (None: ``limit``) only if there are no more."""
    return sa.func.lexical_search(
        literal(request.collection_id),
        pieces.parameter("query", sa.Text),
        pieces.parameter("prefixes", pieces.TEXTS),
        limit,
        *(() if least is None else (least,)),
    ).table_valued("item_id", "score", "weights", name="found")


def _passing(request: CandidateRequest, by_words: sa.CTE) -> Rows:
    """The best items that pass the filter, looked up until there are enough.

    The function returns the best first, and a scan of its rows keeps that order.
    """
    passing = pieces.rows_of("lexical", by_words).where(pieces.passes_filter(request, by_words.c.item_id))
    return passing.limit(pieces.DEPTH)


def query_weights(request: CandidateRequest, name: str = "words", hits: sa.CTE | None = None) -> sa.CTE:
    """The query's weights for BM25 as a CTE of that name; taken from ``hits`` if that has a row."""
    weights: sa.ColumnElement[Any] = sa.func.lexical_query(
        literal(request.collection_id),
        pieces.parameter("query", sa.Text),
        pieces.parameter("prefixes", pieces.TEXTS),
        type_=sa.types.NullType(),
    )
    if hits is not None:
        weights = sa.func.coalesce(sa.select(hits.c.weights).limit(sa.literal_column("1")).scalar_subquery(), weights)
    return pieces.materialized(sa.select(weights.label("weights")), name)


def weighed_by_key(
    request: CandidateRequest, ids: sa.Select[Any] | sa.CompoundSelect[Any], words: sa.CTE
) -> sa.Select[Any]:
    """Rows of (item_id, BM25) of the items, by one scan of their keys; ``words``: the query's weights."""
    weights = sa.select(words.c.weights).scalar_subquery()
    score = -item_terms.c.weights.op("<#>", return_type=sa.Float())(weights)
    return sa.select(item_terms.c.item_id, score.label("score")).where(
        item_terms.c.collection_id == literal(request.collection_id),
        item_terms.c.item_id == sa.func.any(sa.func.array(ids.scalar_subquery())),
    )


def _score_matches(
    request: CandidateRequest, matches: pieces.Matches, only_if: sa.ColumnElement[bool] | None = None
) -> Rows:
    """The best of the matching items by one scan of their keys, if ``only_if`` holds."""
    keys = sa.select(matches.keys.c.item_id)
    weighed = weighed_by_key(
        request, keys if only_if is None else keys.where(only_if), query_weights(request)
    ).subquery("weighed")
    best = pieces.rows_of("lexical", weighed).where(weighed.c.score > 0)
    return best.order_by(weighed.c.score.desc(), weighed.c.item_id).limit(pieces.DEPTH)
