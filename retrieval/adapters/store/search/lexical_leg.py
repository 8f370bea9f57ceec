"""The lexical leg: BM25, by the index of words or over the matching items."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from retrieval.adapters.store.search import statement_parts as parts
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.adapters.store.tables import item_terms, literal
from retrieval.domain.search.hit import Path

_FOUND_FIRST, _FOUND_FOR_A_FILTER = 4, 20
"""If many items match: the number of items to find by words before filtering, in multiples of ``enough``; the second
if the first left too few. The cost is about proportional."""

_SPARE_FOUND = 1.5
"""With a known share of matches, so many times the items are found first of which enough are expected to match."""

_TEXTS = ARRAY(sa.Text)

Part = sa.Select[Any]


def lexical_leg(request: CandidateRequest, matches: parts.Matches | sa.CTE) -> list[Part]:
    """Rows of ('lexical', item_id, BM25), and a marker row if too few of the found items pass the filter.

    ``matches``: those of the filter; without a filter ``found_by_words``.
    """
    if isinstance(matches, sa.CTE):
        return [parts.rows_of("lexical", matches)]
    if request.path is not Path.APPROXIMATE:
        return [sa.select(parts.materialized(_score_matches(request, matches), "lexical"))]
    return _few_or_stages(request, matches)


def words_values(request: CandidateRequest) -> dict[str, int]:
    """The numbers of items that the stages of a filtered leg find."""
    enough = request.least_depth
    expected = _SPARE_FOUND / request.share if request.share else 0.0
    first = min(max(math.ceil(expected), _FOUND_FIRST), _FOUND_FOR_A_FILTER)
    return {"found_first": first * enough, "found_more": _FOUND_FOR_A_FILTER * enough}


def _few_or_stages(request: CandidateRequest, matches: parts.Matches) -> list[Part]:
    """Rank all matches if they are few; else filter the items found by words, and find more if too few pass."""
    first = _Stage.of(request, "first_by_words", "found_first", sa.not_(matches.are_few))
    more = _Stage.of(request, "more_by_words", "found_more", first.is_short)
    return [
        sa.select(first.passing).where(sa.not_(first.is_short)),
        sa.select(more.passing),
        sa.select(parts.materialized(_score_matches(request, matches, matches.are_few), "lexical_of_few")),
        parts.too_few_found(more.is_short),
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
        most = parts.parameter(number, sa.Integer)
        # Half of them are enough: finding the last of many takes several times as long as finding the first.
        least = most // sa.literal_column("2", sa.Integer)
        hits = _search_by_words(request, most, least)
        rows = parts.materialized(sa.select(hits.c.item_id, hits.c.score).where(only_if), name)
        passing = parts.materialized(_passing(request, rows), f"lexical_of_{name}")
        return cls(passing, sa.and_(parts.count_of(rows) >= least, parts.count_of(passing) < parts.ENOUGH))


def found_by_words(request: CandidateRequest) -> sa.CTE:
    """The items found by words, with the query's weights for BM25; a single CTE for all readers."""
    hits = _search_by_words(request, parts.parameter("depth", sa.Integer))
    return parts.materialized(sa.select(hits.c.item_id, hits.c.score, hits.c.weights), "lexical")


def _search_by_words(
    request: CandidateRequest, limit: sa.ColumnElement[int], least: sa.ColumnElement[int] | None = None
) -> sa.TableValuedAlias:
    """The best items by words, at most ``limit``; fewer than ``least`` (None: ``limit``) only if there are no more."""
    return sa.func.lexical_search(
        literal(request.collection_id),
        parts.parameter("query", sa.Text),
        parts.parameter("prefixes", _TEXTS),
        limit,
        *(() if least is None else (least,)),
    ).table_valued("item_id", "score", "weights", name="found")


def _passing(request: CandidateRequest, by_words: sa.CTE) -> Part:
    """The best items that pass the filter, looked up until there are enough.

    The function returns the best first, and a scan of its rows keeps that order.
    """
    passing = parts.rows_of("lexical", by_words).where(parts.passes_filter(request, by_words.c.item_id))
    return passing.limit(parts.DEPTH)


def query_weights(request: CandidateRequest, name: str = "words", hits: sa.CTE | None = None) -> sa.CTE:
    """The query's weights for BM25 as a CTE of that name; taken from ``hits`` if that has a row."""
    weights: sa.ColumnElement[Any] = sa.func.lexical_query(
        literal(request.collection_id),
        parts.parameter("query", sa.Text),
        parts.parameter("prefixes", _TEXTS),
        type_=sa.types.NullType(),
    )
    if hits is not None:
        weights = sa.func.coalesce(sa.select(hits.c.weights).limit(sa.literal_column("1")).scalar_subquery(), weights)
    return parts.materialized(sa.select(weights.label("weights")), name)


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
    request: CandidateRequest, matches: parts.Matches, only_if: sa.ColumnElement[bool] | None = None
) -> Part:
    """The best of the matching items by one scan of their keys, if ``only_if`` holds."""
    keys = sa.select(matches.keys.c.item_id)
    weighed = weighed_by_key(
        request, keys if only_if is None else keys.where(only_if), query_weights(request)
    ).subquery("weighed")
    best = parts.rows_of("lexical", weighed).where(weighed.c.score > 0)
    return best.order_by(weighed.c.score.desc(), weighed.c.item_id).limit(parts.DEPTH)
