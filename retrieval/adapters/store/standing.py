"""How memories stand by what is stored of them, and of all legs' candidates those that can score most.

The best by a sum of signals may be nobody's best by one of them: the first hundred of the latest, the most used and the
most relevant miss more than half of the true ten best of 100,000 memories. So these legs are walked further, and of all
that they meet the best stay by the sum of their signals. Of what all legs bring, those stay that can score most: what
is not stored, the share of the question's words, counts in full for whatever the words found. All of it happens in the
statement; only what stays is sent, and has its texts read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.candidate_request import CandidateRequest, Standing
from retrieval.adapters.store.statement_parts import (
    Matches,
    account,
    count_of,
    is_wanted,
    literal,
    materialized,
    named,
    parameter,
)
from retrieval.adapters.store.tables import memories
from retrieval.domain.profile import LegName

STANDING_LEGS = (LegName.RECENT, LegName.POPULAR, LegName.RELEVANT)
"""The legs that rank by one stored signal each."""

LEFT_OUT = "left_out"
"""The account of the most that an item which did not stay can score."""

Part = sa.Select[Any]
Number = sa.ColumnElement[Any]

_SECONDS_A_DAY = 86_400.0

_ZERO: Number = sa.literal_column("0")
_ONE: Number = sa.literal_column("1")

_LEAST_EXPONENT = "-700"
"""Where e to the power of less could not be told from 0, and is an error."""


@dataclass(frozen=True, slots=True)
class _Walk:
    leg: LegName
    rows: sa.CTE
    """Of (item_id, score, value), in the leg's order."""


def standing_legs(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of (leg, item_id, score) of the memories that stand best, for each of the legs that met them."""
    legs = [leg for leg in STANDING_LEGS if leg in request.legs]
    walks = [_Walk(leg, _walk(request, matches, leg)) for leg in legs]
    kept = _best_met(request, walks)
    parts = [_rows_of(walk.leg, walk.rows, kept) for walk in walks]
    if matches is None:
        return parts
    few = _best_of_few(request, matches)
    parts += [_rows_of_few(leg, few) for leg in legs]
    all_met = [count_of(walk.rows) >= parameter("stride", sa.BigInteger) for walk in walks]
    is_short = sa.case((sa.or_(matches.are_few, count_of(kept) >= parameter("enough", sa.BigInteger)), sa.false()),
                       else_=sa.or_(*all_met))  # fmt: skip
    return [*parts, account("too_few_found", sa.literal_column("1"), is_short)]


def sifted(legs: sa.CompoundSelect[Any], request: CandidateRequest) -> sa.CompoundSelect[Any]:
    """Of all legs, the rows of the items that can score most; accounts stay, and one tells what was left out."""
    rows = legs.cte("candidate").prefix_with("MATERIALIZED", dialect="postgresql")
    leg, item_id, score = rows.c
    by_item = (
        sa.select(
            item_id,
            sa.func.bool_or(leg == sa.literal_column("'lexical'")).label("by_words"),
            sa.func.max(score).filter(leg == sa.literal_column("'linked'")).label("linked"),
            sa.func.max(score).filter(leg == sa.literal_column("'dense'")).label("cosine"),
        )
        .where(item_id != sa.literal_column("''"))
        .group_by(item_id)
        .subquery("met")
    )
    stored = (
        sa.select(_value(memories).label("value"))
        .where(memories.c.collection_id == literal(request.collection_id), memories.c.item_id == by_item.c.item_id)
        .limit(1)
        .lateral("stored")
    )
    most, stands = _most(by_item, stored).label("most"), stored.c.value.label("value")
    ranked = sa.select(by_item.c.item_id, most, stands).join_from(by_item, stored, sa.true(), isouter=True)
    by_most = materialized(ranked.order_by(most.desc(), by_item.c.item_id), "by_most")
    enough = parameter("enough", sa.BigInteger)
    # What stands best may hold words that so many items hold that they did not bring it.
    by_value = sa.select(by_most.c.item_id).order_by(by_most.c.value.desc().nulls_last(), by_most.c.item_id)
    kept = [sa.select(by_most.c.item_id).limit(enough).subquery(), by_value.limit(2 * enough).subquery()]
    first_out = sa.select(by_most.c.most).limit(1).offset(enough).subquery("first_out")
    is_kept = sa.or_(item_id == sa.literal_column("''"), *(item_id.in_(sa.select(one.c.item_id)) for one in kept))
    left_out = sa.select(sa.literal_column(f"'{LEFT_OUT}'"), sa.literal_column("''"), first_out.c.most)
    return sa.union_all(sa.select(leg, item_id, score).where(is_kept), left_out)


def standing_values(standing: Standing, entities: int) -> dict[str, Any]:
    """The parameters that weigh candidates; ``entities``: how many the question is about."""
    return {
        "stride": standing.stride,
        "decay_seconds": standing.decay_days * _SECONDS_A_DAY,
        "entities": max(entities, 1),
        "weight_relevance": standing.relevance,
        "weight_recency": standing.recency,
        "weight_use": standing.use,
        "weight_words": standing.words,
        "weight_entities": standing.entities,
        "weight_vectors": standing.vectors,
    }


def _most(by_item: sa.FromClause, stored: sa.FromClause) -> Number:
    """The most that an item can score; an item that is no memory has the base relevance of 1."""
    words = sa.case((by_item.c.by_words, parameter("weight_words", sa.Double)), else_=_ZERO)
    entities = sa.func.least(
        sa.func.floor(sa.func.coalesce(by_item.c.linked, _ZERO)) / parameter("entities", sa.Double), _ONE
    )
    cosine = sa.func.greatest(sa.func.coalesce(by_item.c.cosine, _ZERO), _ZERO)
    return (
        sa.func.coalesce(stored.c.value, parameter("weight_relevance", sa.Double))
        + words
        + parameter("weight_entities", sa.Double) * entities
        + parameter("weight_vectors", sa.Double) * cosine
    )


def _walk(request: CandidateRequest, matches: Matches | None, leg: LegName) -> sa.CTE:
    """The first of a leg in its order, whether wanted or not: wanted is asked of those that stand best only."""
    table = memories.alias(f"{leg}_met")
    order: Sequence[Number] = {
        LegName.RECENT: [table.c.happened_at.desc()],
        LegName.POPULAR: [table.c.accesses.desc(), table.c.happened_at.desc()],
        LegName.RELEVANT: [table.c.base_relevance.desc(), table.c.happened_at.desc()],
    }[leg]
    rows = sa.select(table.c.item_id, _score(table, leg).label("score"), _value(table).label("value"))
    rows = rows.where(table.c.collection_id == literal(request.collection_id), _is_unexpired(table))
    if leg is LegName.POPULAR:
        rows = rows.where(table.c.accesses > sa.literal_column("0"))
    if matches is not None:
        rows = rows.where(sa.not_(matches.are_few))
    return materialized(rows.order_by(*order, table.c.item_id).limit(parameter("stride", sa.BigInteger)), f"{leg}_walk")


def _best_met(request: CandidateRequest, walks: Sequence[_Walk]) -> sa.CTE:
    """Of all that was met, what is wanted and stands best."""
    met = sa.union(*(sa.select(walk.rows.c.item_id, walk.rows.c.value) for walk in walks)).subquery("walked")
    best = materialized(sa.select(met.c.item_id, met.c.value).order_by(met.c.value.desc(), met.c.item_id), "standing")
    wanted = sa.select(best.c.item_id).where(is_wanted(request, best.c.item_id, is_active=True))
    return materialized(wanted.limit(parameter("depth", sa.BigInteger)), "standing_wanted")


def _best_of_few(request: CandidateRequest, matches: Matches) -> sa.CTE:
    """Of few that match, those that stand best; each is looked up by its key."""
    key = matches.keys.c.item_id
    scores = [_score(memories, leg).label(leg.value) for leg in STANDING_LEGS]
    one = (
        sa.select(_value(memories).label("value"), *scores)
        .where(
            memories.c.collection_id == literal(request.collection_id),
            memories.c.item_id == key,
            _is_unexpired(memories),
        )
        .limit(1)
        .lateral("one_of_few")
    )
    rows = sa.select(key, *(one.c[leg.value] for leg in STANDING_LEGS)).join_from(matches.keys, one, sa.true())
    best = rows.where(matches.are_few).order_by(one.c.value.desc(), key).limit(parameter("depth", sa.BigInteger))
    return materialized(best, "standing_of_few")


def _rows_of(leg: LegName, walk: sa.CTE, kept: sa.CTE) -> Part:
    # Not a join, which the planner, who knows no sizes here, may do row by row: a subplan is hashed.
    is_kept = sa.func.coalesce(walk.c.item_id.in_(sa.select(kept.c.item_id)), sa.false())
    return sa.select(named(leg), walk.c.item_id, walk.c.score).where(is_kept)


def _rows_of_few(leg: LegName, few: sa.CTE) -> Part:
    rows = sa.select(named(leg), few.c.item_id, few.c[leg.value])
    return rows.where(few.c[leg.value] > sa.literal_column("0")) if leg is LegName.POPULAR else rows


def _score(table: sa.FromClause, leg: LegName) -> Number:
    column = {LegName.POPULAR: table.c.accesses, LegName.RELEVANT: table.c.base_relevance}.get(leg)
    return sa.cast(sa.extract("epoch", table.c.happened_at) if column is None else column, sa.Double)


def _value(table: sa.FromClause) -> Number:
    """What the stored signals add to the score: base relevance, recency and use, as ``retrieval.domain.signals``."""
    age = sa.extract("epoch", parameter("as_of", sa.DateTime(timezone=True)) - table.c.happened_at).cast(sa.Double)
    exponent = -sa.func.greatest(age, _ZERO) / parameter("decay_seconds", sa.Double)
    use = sa.func.ln(table.c.accesses.cast(sa.Double) + _ONE) / sa.func.ln(sa.literal_column("101::double precision"))
    return (
        parameter("weight_relevance", sa.Double) * table.c.base_relevance
        + parameter("weight_recency", sa.Double)
        * sa.func.exp(sa.func.greatest(exponent, sa.literal_column(_LEAST_EXPONENT)))
        + parameter("weight_use", sa.Double) * sa.func.least(use, _ONE)
    )


def _is_unexpired(table: sa.FromClause) -> sa.ColumnElement[bool]:
    moment = parameter("as_of", sa.DateTime(timezone=True))
    return sa.or_(table.c.expires_at.is_(None), table.c.expires_at > moment)
