"""Legs whose ranking is an order that an index keeps: the latest, the most used, the most relevant.

Under a filter that few items pass, those are looked up and sorted. Where many pass, the index is walked in its order
and what it brings is looked up, until there are enough; a walk that went as far as it may and met too few says so, and
every matching item is looked at after all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.candidate_request import CandidateRequest
from retrieval.adapters.store.statement_parts import (
    Matches,
    account,
    count_of,
    is_wanted,
    materialized,
    named,
    parameter,
)
from retrieval.domain.profile import LegName

ORDERED_LEGS = frozenset(LegName) - {LegName.DENSE, LegName.LEXICAL}
"""The legs that an order of an index ranks, not a distance from the query."""

MOST_OF_ONE = "0.999"
"""So much of a score that counts is the time's at the most: less than one more."""

Part = sa.Select[Any]

_EARLIEST, _SPAN = "62135596800", "315537897600"
"""Seconds from the year 1 to 1970, and to the year 9999."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order that an index keeps."""

    leg: str
    walk: Part
    """Rows of (item_id, score) in the index's order, whether archived or not."""
    score_of: Callable[[sa.ColumnElement[str]], Part]
    """The score of one item, at most one row."""


def ordered_leg(request: CandidateRequest, matches: Matches | None, order: Order) -> list[Part]:
    """Rows of (leg, item_id, score), and one that tells when a walk under a filter met too few."""
    depth = parameter("depth", sa.BigInteger)
    if matches is None:
        walk = order.walk.where(is_wanted(request, order.walk.selected_columns[0], is_active=True))
        return [_named(order.leg, materialized(walk.limit(depth), order.leg))]
    walked = order.walk.where(sa.not_(matches.are_few)).limit(parameter("reach", sa.BigInteger))
    met = materialized(walked, f"{order.leg}_walk")
    wanted = sa.select(met.c.item_id, met.c.score).where(is_wanted(request, met.c.item_id, is_active=True))
    kept = materialized(wanted.limit(depth), f"{order.leg}_of_walk")
    return [
        _named(order.leg, kept),
        _named(order.leg, materialized(_best_of_few(matches, order), f"{order.leg}_of_few")),
        _too_few_found(matches, kept, met),
    ]


def ordered_settings(request: CandidateRequest) -> Mapping[str, str]:
    """The settings of a search by such orders, or by words alone under a filter.

    Without sorting, only an index gives an order, whatever the planner knows of a table that has just grown. Matches
    are counted to a number only: a hash of all that one condition lets through would be made before the first is found.
    """
    if LegName.DENSE in request.legs and ORDERED_LEGS.isdisjoint(request.legs):
        return {}
    walks = {} if ORDERED_LEGS.isdisjoint(request.legs) else {"enable_sort": "off", "jit": "off"}
    return walks if request.condition is None else {**walks, "enable_hashjoin": "off"}


def _too_few_found(matches: Matches, kept: sa.CTE, met: sa.CTE) -> Part:
    """A row where a walk kept too few of the most that it may bring; it is gone to its end only to find that out."""
    enough = count_of(kept) >= parameter("depth", sa.BigInteger)
    all_met = count_of(met) >= parameter("reach", sa.BigInteger)
    is_short = sa.case((sa.or_(matches.are_few, enough), sa.false()), else_=all_met)
    return account("too_few_found", sa.literal_column("1"), is_short)


def share_of_time(moment: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """A number from 0 to 1 that rises with the moment, from the year 1 to 9999: what tells equals apart."""
    seconds = sa.extract("epoch", moment).cast(sa.Double)
    within = sa.func.least(sa.func.greatest(seconds + sa.literal_column(_EARLIEST), sa.literal_column("0")),
                           sa.literal_column(_SPAN))  # fmt: skip
    return within / sa.literal_column(_SPAN, sa.Double)


def _best_of_few(matches: Matches, order: Order) -> Part:
    """Each is looked up by its key, whatever the planner thinks of how many there are."""
    key = matches.keys.c.item_id
    one = order.score_of(key).limit(1).lateral(f"{order.leg}_score")
    rows = sa.select(key, one.c.score).select_from(matches.keys).join(one, sa.true()).where(matches.are_few)
    return rows.order_by(one.c.score.desc(), key).limit(parameter("depth", sa.BigInteger))


def _named(leg: str, rows: sa.CTE) -> Part:
    return sa.select(named(leg), rows.c.item_id, rows.c.score)
