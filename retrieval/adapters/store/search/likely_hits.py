"""The columns of the likely hits, read in the round trip that finds the candidates of several legs.

The rankings are fused in Python, which is exact and explains each score. The database guesses which candidates become
hits: it fuses the same scores without refining. A hit that it did not guess is read in a second round trip.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.items.items import hit_columns
from retrieval.adapters.store.search.candidate_request import CandidateRequest, LikelyHits
from retrieval.adapters.store.search.statement_pieces import materialized, named, parameter, quoted
from retrieval.adapters.store.tables import items, literal
from retrieval.domain.search.profile import FusionKind, LegName

LIKELY = "likely"
"""The name, instead of a leg's, of a row with the columns of a likely hit."""

LOOKED_UP = "+"
"""The suffix of a leg's name in the rows of candidates that another leg found."""

_ZERO: sa.ColumnElement[float] = sa.literal_column("0::double precision")


def likely_values(likely: LikelyHits | None) -> dict[str, Any]:
    """The parameters of the guess."""
    if likely is None:
        return {}
    weights = {_weight_of(leg): weight for leg, weight in likely.weights}
    return {"likely": likely.items, "rrf_k": likely.fusion.k, **weights}


def with_likely_hits(scored: sa.CTE, request: CandidateRequest, likely: LikelyHits) -> list[sa.Select[Any]]:
    """A row for each likely hit, and the rows (leg, item_id, score); all end with the columns of a hit.

    The likely hits come first, so that their columns give the NULLs of the other rows their types.
    """
    guessed = _guessed(scored, likely)
    item_id = guessed.c.item_id
    owner = literal(request.collection_id)
    space_id = request.space_id if LegName.DENSE in request.legs else 0
    columns = hit_columns(owner, space_id, request.dimensions)
    # The limit prevents a join, for which the planner would read the whole collection.
    found = sa.select(*(column.label(f"hit_{index}") for index, column in enumerate(columns)))
    row = found.where(items.c.collection_id == owner, items.c.item_id == item_id).limit(1).lateral("hit")
    read = sa.select(named(LIKELY), item_id, _ZERO.label("score"), *row.c).select_from(guessed.join(row, sa.true()))
    return [read, sa.select(scored, *(sa.null() for _ in columns))]


def _guessed(scored: sa.CTE, likely: LikelyHits) -> sa.CTE:
    """The items with the highest sums of their legs' parts, as ``fuse`` computes them."""
    item_id = scored.c.item_id
    part_of = _share if likely.fusion.kind is FusionKind.WEIGHTED_SUM else _by_rank
    parts = sa.select(item_id, part_of(scored, likely).label("part")).where(item_id != quoted("")).subquery("parts")
    best = sa.select(parts.c.item_id).group_by(parts.c.item_id)
    best = best.order_by(sa.func.sum(parts.c.part).desc(), parts.c.item_id)
    return materialized(best.limit(parameter("likely", sa.BigInteger)), "guessed")


def _share(scored: sa.CTE, likely: LikelyHits) -> sa.ColumnElement[float]:
    """The score's share of the leg's best, times the leg's weight; a score that was looked up counts too."""
    leg, _, score = scored.c
    cases = []
    for name, _ in likely.weights:
        names = [quoted(name), quoted(f"{name}{LOOKED_UP}")]
        own = scored.alias().c  # a name of its own could be that of a part of a leg
        best = sa.select(sa.func.max(own.score)).where(own.leg.in_(names)).scalar_subquery()
        share = parameter(_weight_of(name), sa.Double) * score / best
        cases.append((sa.and_(leg.in_(names), score > _ZERO), share))
    return sa.case(*cases, else_=_ZERO)


def _by_rank(scored: sa.CTE, likely: LikelyHits) -> sa.ColumnElement[float]:
    """The leg's part by reciprocal rank; ranks count only what the leg itself found."""
    leg, item_id, score = scored.c
    rank = sa.func.row_number().over(partition_by=leg, order_by=(score.desc(), item_id))
    weights = ((leg == quoted(name), parameter(_weight_of(name), sa.Double)) for name, _ in likely.weights)
    part: sa.ColumnElement[Any] = sa.case(*weights, else_=_ZERO) / (parameter("rrf_k", sa.Double) + rank)
    return part


def _weight_of(leg: LegName) -> str:
    return f"weight_of_{leg}"
