"""Scores memories by their stored signals, and keeps the candidates of all legs with the highest likely scores.

The best memories by a sum of signals need not be among the best by a single signal: the first hundred of the latest,
the most used and the most relevant miss more than half of the true ten best of 100,000 memories. So these legs are
walked further, and keep the best memories that they meet by the sum of the stored signals. Of the candidates of all
legs, the statement keeps those with the highest likely scores. Only these are sent, and have their texts read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, REGCONFIG

from retrieval.adapters.store.search import statement_pieces as pieces
from retrieval.adapters.store.search.candidate_request import CandidateRequest, SignalWeights
from retrieval.adapters.store.search.statement_pieces import Rows
from retrieval.adapters.store.tables import collections, item_terms, literal, memories
from retrieval.domain.search.profile import LegName

STORED_SIGNAL_LEGS = (LegName.RECENT, LegName.POPULAR, LegName.RELEVANT)
"""The legs that rank by one stored signal each."""

DROPPED_SCORE = "dropped_score"
"""The name of the row with the likely score of the best dropped candidate."""

_VALUE, _WORD_SHARE = "value", "word_share"
"""Names of the rows with the sum of an item's stored signals, and with its share of the question's words."""

Number = sa.ColumnElement[Any]

_SECONDS_A_DAY = 86_400.0

_KEPT = 2
"""The walks keep this many times ``enough`` items, because an item's words can still raise its score."""

_SHORTER = 5
"""The walk of the latest is this many times as long as the others, because recency varies most."""

_ZERO: Number = sa.literal_column("0")
_ONE: Number = sa.literal_column("1")

_LEAST_EXPONENT = "-700"
"""The least exponent: below, PostgreSQL's exp() raises an error."""


def stored_signal_legs(request: CandidateRequest, matches: pieces.Matches | None) -> list[Rows]:
    """Rows of (leg, item_id, score) of the best memories by stored signals, for each leg that met them."""
    legs = [leg for leg in STORED_SIGNAL_LEGS if leg in request.legs]
    walks = {leg: _walk(request, matches, leg) for leg in legs}
    kept = _best_met(request, walks.values())
    found = [_rows_of(leg, walk, kept) for leg, walk in walks.items()]
    found.append(sa.select(pieces.named(_VALUE), kept.c.item_id, kept.c.value))
    if matches is None:
        return found
    few = _best_of_few(request, matches)
    found += [_rows_of_few(leg, few) for leg in legs]
    all_met = sa.or_(*(pieces.count_of(walk) >= _stride(leg) for leg, walk in walks.items()))
    is_enough = sa.or_(matches.are_few, pieces.count_of(kept) >= pieces.ENOUGH)
    return [*found, pieces.too_few_found(sa.case((is_enough, sa.false()), else_=all_met))]


def best_candidates(legs: sa.CompoundSelect[Any], request: CandidateRequest) -> sa.CompoundSelect[Any]:
    """The rows of the items with the highest likely scores, rows of counts, and the score of the best dropped item.

    Words count by the share of the question's lexemes that an item has, by the lexical index.
    """
    rows = pieces.materialized(legs, "candidate")
    leg, item_id, score = rows.c
    likely = pieces.materialized(_likely(_signal_rows(request, rows)), "likely")
    best = likely.c.likely.desc(), likely.c.item_id
    kept = sa.select(likely.c.item_id).order_by(*best).limit(pieces.ENOUGH).subquery()
    dropped = sa.select(likely.c.likely).order_by(*best).limit(1).offset(pieces.ENOUGH).subquery("dropped")
    # Not a join, which the planner may do row by row, because it knows no sizes; a subplan is hashed.
    is_kept = sa.or_(item_id == pieces.quoted(""), item_id.in_(sa.select(kept.c.item_id)))
    dropped_score = sa.select(pieces.quoted(DROPPED_SCORE), pieces.quoted(""), dropped.c.likely)
    return sa.union_all(sa.select(leg, item_id, score).where(is_kept, leg != pieces.quoted(_VALUE)), dropped_score)


def _signal_rows(request: CandidateRequest, rows: sa.CTE) -> sa.Subquery:
    """The candidates' rows, the stored signals of candidates that no walk met, and each candidate's share of the words.

    Each is looked up by an array of keys in one scan, at half the cost of a look-up for each row.
    """
    leg, item_id, score = rows.c
    is_value = leg == pieces.quoted(_VALUE)
    met = sa.select(item_id).where(is_value)
    others = sa.select(item_id).where(item_id != pieces.quoted("")).except_(met).scalar_subquery()
    all_ids = sa.select(item_id).where(item_id != pieces.quoted("")).distinct().scalar_subquery()
    owner = literal(request.collection_id)
    stored = sa.select(pieces.named(_VALUE), memories.c.item_id, _value(memories)).where(
        memories.c.collection_id == owner, memories.c.item_id == sa.func.any(sa.func.array(others))
    )
    query = pieces.materialized(sa.select(_query_lexemes(request).label("lexemes")), "query_words")
    # The cast makes it an array; without it, ANY would take the subquery for rows.
    lexemes = sa.cast(sa.select(query.c.lexemes).scalar_subquery(), ARRAY(sa.Integer))
    # The question has few lexemes: each is looked up among the item's, not the other way round.
    lexeme = sa.func.unnest(lexemes).table_valued("lexeme", name="query_lexeme").render_derived()
    number = sa.select(sa.func.count()).where(lexeme.c.lexeme == sa.func.any(item_terms.c.lexemes))
    share = sa.cast(number.correlate(item_terms).scalar_subquery(), sa.Double) / sa.func.cardinality(lexemes)
    word_share = sa.select(pieces.named(_WORD_SHARE), item_terms.c.item_id, share).where(
        sa.func.cardinality(lexemes) > _ZERO,
        item_terms.c.collection_id == owner,
        item_terms.c.item_id == sa.func.any(sa.func.array(all_ids)),
    )
    return sa.union_all(sa.select(leg, item_id, score), stored, word_share).subquery("signals")


def _query_lexemes(request: CandidateRequest) -> sa.ScalarSelect[Any]:
    owner = literal(request.collection_id)
    config = sa.select(collections.c.text_search_config).where(collections.c.collection_id == owner).scalar_subquery()
    words = sa.func.analyze_text(owner, sa.cast(config, REGCONFIG), pieces.parameter("query", sa.Text), sa.false())
    lexemes = words.table_valued("lexeme", "frequency", "term", name="query_lexemes")
    return sa.select(sa.func.array_agg(lexemes.c.lexeme)).scalar_subquery()


def signal_values(weights: SignalWeights, entities: int) -> dict[str, Any]:
    """The parameters for the scores of candidates; ``entities``: the number of the question's entities."""
    return {
        "stride": weights.stride, "short_stride": max(weights.stride // _SHORTER, 1),
        "decay_seconds": weights.decay_days * _SECONDS_A_DAY, "entities": max(entities, 1),
        "weight_relevance": weights.relevance, "weight_recency": weights.recency, "weight_use": weights.use,
        "weight_words": weights.words, "weight_entities": weights.entities, "weight_vectors": weights.vectors,
    }  # fmt: skip


def _likely(signals: sa.Subquery) -> Rows:
    """Rows of (item_id, likely score); an item that is not a memory has the base relevance 1."""
    leg, item_id, score = signals.c

    def by(name: str, default: Number = _ZERO) -> Number:
        return sa.func.coalesce(sa.func.max(score).filter(leg == pieces.quoted(name)), default)

    entities = sa.func.least(sa.func.floor(by(LegName.LINKED)) / pieces.parameter("entities", sa.Double), _ONE)
    likely = (
        by(_VALUE, pieces.parameter("weight_relevance", sa.Double))
        + pieces.parameter("weight_words", sa.Double) * by(_WORD_SHARE)
        + pieces.parameter("weight_entities", sa.Double) * entities
        + pieces.parameter("weight_vectors", sa.Double) * sa.func.greatest(by(LegName.DENSE), _ZERO)
    )
    rows = sa.select(item_id, likely.label("likely"))
    return rows.where(item_id != pieces.quoted("")).group_by(item_id)


def _walk(request: CandidateRequest, matches: pieces.Matches | None, leg: LegName) -> sa.CTE:
    """The first rows of a leg in its order, unfiltered: the filter is applied to the best by stored signals."""
    table = memories.alias(f"{leg}_met")
    order: Sequence[Number] = {
        LegName.RECENT: [table.c.happened_at.desc()],
        LegName.POPULAR: [table.c.accesses.desc(), table.c.happened_at.desc()],
        LegName.RELEVANT: [table.c.base_relevance.desc(), table.c.happened_at.desc()],
    }[leg]
    rows = sa.select(table.c.item_id, _score(table, leg).label("score"), _value(table).label("value"))
    rows = rows.where(table.c.collection_id == literal(request.collection_id), pieces.is_unexpired(table))
    if leg is LegName.POPULAR:
        rows = rows.where(table.c.accesses > sa.literal_column("0"))
    if matches is not None:
        rows = rows.where(sa.not_(matches.are_few))
    return pieces.materialized(rows.order_by(*order, table.c.item_id).limit(_stride(leg)), f"{leg}_walk")


def _stride(leg: LegName) -> Number:
    return pieces.parameter("stride" if leg is LegName.RECENT else "short_stride", sa.BigInteger)


def _best_met(request: CandidateRequest, walks: Iterable[sa.CTE]) -> sa.CTE:
    """The best of the items that the walks met and that pass the filter."""
    met = sa.union(*(sa.select(walk.c.item_id, walk.c.value) for walk in walks)).subquery("walked")
    ordered = sa.select(met.c.item_id, met.c.value).order_by(met.c.value.desc(), met.c.item_id)
    best = pieces.materialized(ordered, "weighed_met")
    is_passing = pieces.passes_filter(request, best.c.item_id, is_active=True)
    passing = sa.select(best.c.item_id, best.c.value).where(is_passing)
    return pieces.materialized(passing.limit(_KEPT * pieces.ENOUGH), "weighed_passing")


def _best_of_few(request: CandidateRequest, matches: pieces.Matches) -> sa.CTE:
    """The best of few matching items; each is looked up by its key."""
    key = matches.keys.c.item_id
    scores = [_score(memories, leg).label(leg.value) for leg in STORED_SIGNAL_LEGS]
    memory = memories.c.collection_id == literal(request.collection_id), memories.c.item_id == key
    found = sa.select(_value(memories).label("value"), *scores).where(*memory, pieces.is_unexpired(memories))
    row = found.limit(1).lateral("match_memory")
    rows = sa.select(key, *(row.c[leg.value] for leg in STORED_SIGNAL_LEGS)).join_from(matches.keys, row, sa.true())
    best = rows.where(matches.are_few).order_by(row.c.value.desc(), key).limit(pieces.DEPTH)
    return pieces.materialized(best, "weighed_of_few")


def _rows_of(leg: LegName, walk: sa.CTE, kept: sa.CTE) -> Rows:
    # Not a join, which the planner may do row by row, because it knows no sizes; a subplan is hashed.
    is_kept = sa.func.coalesce(walk.c.item_id.in_(sa.select(kept.c.item_id)), sa.false())
    return pieces.rows_of(leg, walk).where(is_kept)


def _rows_of_few(leg: LegName, few: sa.CTE) -> Rows:
    rows = sa.select(pieces.named(leg), few.c.item_id, few.c[leg.value])
    return rows.where(few.c[leg.value] > sa.literal_column("0")) if leg is LegName.POPULAR else rows


def _score(table: sa.FromClause, leg: LegName) -> Number:
    column = {LegName.POPULAR: table.c.accesses, LegName.RELEVANT: table.c.base_relevance}.get(leg)
    return sa.cast(sa.extract("epoch", table.c.happened_at) if column is None else column, sa.Double)


def _value(table: sa.FromClause) -> Number:
    """The sum of the stored signals: base relevance, recency and use (``retrieval.domain.search.signals``)."""
    since = pieces.parameter("as_of", sa.DateTime(timezone=True)) - table.c.happened_at
    age = sa.extract("epoch", since).cast(sa.Double)
    exponent = -sa.func.greatest(age, _ZERO) / pieces.parameter("decay_seconds", sa.Double)
    use = sa.func.ln(table.c.accesses.cast(sa.Double) + _ONE) / sa.func.ln(sa.literal_column("101::double precision"))
    return (
        pieces.parameter("weight_relevance", sa.Double) * table.c.base_relevance
        + pieces.parameter("weight_recency", sa.Double)
        * sa.func.exp(sa.func.greatest(exponent, sa.literal_column(_LEAST_EXPONENT)))
        + pieces.parameter("weight_use", sa.Double) * sa.func.least(use, _ONE)
    )
