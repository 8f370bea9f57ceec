"""The leg of the items with the best verdicts; items without any stand in the middle, the latest stored first.

Of all those with verdicts the rating is computed: an index of it would be changed by each verdict. Of the best, and of
those without in the order in which they were stored, so many are looked up as it takes to fill the leg. Under a filter
that few items pass, those are looked up instead.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.candidate_request import CandidateRequest
from retrieval.adapters.store.ordered_leg import share_of_time
from retrieval.adapters.store.ratings import UNRATED, anywhere, rating
from retrieval.adapters.store.statement_parts import (
    Matches,
    account,
    count_of,
    is_wanted,
    materialized,
    named,
    parameter,
)
from retrieval.adapters.store.stored_order import WALKED_AT_MOST, latest_stored, stored_item
from retrieval.adapters.store.tables import arms, items

_FIRST = 10
"""So many times what the leg brings are kept of the best at first; where they are too few, all are read once more."""
_LITTLE = "0.0001"
"""So much below the middle an item without verdicts stands at the most: the later it was stored, the less."""

Part = sa.Select[Any]
Conditions = list[sa.ColumnElement[bool]]


def rated_leg(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of ('rated', item_id, rating), of items without verdicts a little less than .5."""
    many: Conditions = [] if matches is None else [sa.not_(matches.are_few)]
    reach = sa.literal_column(str(WALKED_AT_MOST)) if matches is None else parameter("reach", sa.BigInteger)
    met = materialized(_by_rating(request, many, None if matches is None else reach), "rated_walk")
    kept = materialized(_kept(met, is_wanted(request, met.c.item_id, is_active=True)), "rated_of_walk")
    near = materialized(_by_arrival(request, [*many, _is_open(kept)]).limit(reach), "unrated_walk")
    is_unrated = sa.and_(_has_no_verdicts(request, near.c.item_id), is_wanted(request, near.c.item_id))
    unrated = materialized(_kept(near, is_unrated), "unrated_of_walk")
    best = materialized(_best(sa.union_all(_all(kept), _all(unrated))), "rated")
    if matches is None:
        return [_named(best)]
    few = materialized(_best(_of_few(request, matches)), "rated_of_few")
    is_short = _is_short(met, kept, near, best)
    return [_named(best), _named(few), account("too_few_found", sa.literal_column("1"), *many, is_short)]


def _by_rating(request: CandidateRequest, conditions: Conditions, reach: sa.ColumnElement[Any] | None) -> Part:
    """Rows of (item_id, score), the best first, ``reach`` of them at the most, whether archived or not.

    A part is computed when its first row is asked for: the rest is not, where the first were enough.
    """
    first = parameter("depth", sa.BigInteger) * sa.literal_column(str(_FIRST))
    ordered = _ordered_by_rating(request, conditions)
    best = materialized(ordered.limit(first if reach is None else sa.func.least(first, reach)), "best_rated")
    others = _ordered_by_rating(request, [count_of(best) >= first]).offset(first)
    left = None if reach is None else sa.func.greatest(reach - first, sa.literal_column("0"))
    either = sa.union_all(_all(best), _all(materialized(others.limit(left), "others_rated"))).subquery("either_rated")
    return sa.select(either.c.item_id, either.c.score)


def _ordered_by_rating(request: CandidateRequest, conditions: Conditions) -> Part:
    arm = arms.alias("rated_arm")
    of_collection = anywhere(request.collection_id, arm), *conditions
    # By key within: without sorting, an index gives that, whatever the planner knows of a table that has just grown.
    by_key = sa.select(arm.c.item_id, rating(arm).label("score")).where(*of_collection).order_by(arm.c.item_id)
    one = by_key.subquery("by_key")
    return sa.select(one.c.item_id, one.c.score).order_by(one.c.score.desc(), one.c.item_id)


def _by_arrival(request: CandidateRequest, conditions: Conditions) -> Part:
    """Rows of (item_id, score) of items that are not archived, as if none had verdicts."""
    return latest_stored(request, _unrated(items.c.created_at).label("score")).where(*conditions)


def _unrated(stored_at: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The score of an item without verdicts."""
    little = sa.literal_column(_LITTLE, sa.Double)
    return UNRATED - little * (sa.literal_column("1", sa.Double) - share_of_time(stored_at))


def _kept(walk: sa.CTE, wanted: sa.ColumnElement[bool]) -> Part:
    return sa.select(walk.c.item_id, walk.c.score).where(wanted).limit(parameter("depth", sa.BigInteger))


def _is_open(kept: sa.CTE) -> sa.ColumnElement[bool]:
    """Whether those above the middle leave room in the leg."""
    above = sa.select(sa.func.count()).select_from(kept).where(kept.c.score > UNRATED).scalar_subquery()
    return above < parameter("depth", sa.BigInteger)


def _arm_of(request: CandidateRequest, item_id: sa.ColumnElement[str], what: sa.ColumnElement[Any]) -> Any:
    """Something of the item's verdicts, looked up by its key; nothing where there are none."""
    mine = sa.select(what).where(anywhere(request.collection_id), arms.c.item_id == item_id).limit(1)
    return mine.correlate(*sa.select(item_id).get_final_froms()).scalar_subquery()


def _has_no_verdicts(request: CandidateRequest, item_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    # As a value, not as NOT EXISTS: that could become a join that reads all verdicts first.
    known: sa.ColumnElement[int] = _arm_of(request, item_id, sa.literal_column("1", sa.Integer))
    return known.is_(None)


def _of_few(request: CandidateRequest, matches: Matches) -> Part:
    """Each match with its score, looked up by its key."""
    key = matches.keys.c.item_id
    own = stored_item(request, key, items.c.created_at).lateral("match_item")
    known: sa.ColumnElement[float] = _arm_of(request, key, rating(arms))
    score = sa.func.coalesce(known, _unrated(own.c.created_at)).label("score")
    return sa.select(key, score).select_from(matches.keys).join(own, sa.true()).where(matches.are_few)


def _best(rows: sa.SelectBase) -> Part:
    one = rows.subquery("rated_candidate")
    ordered = sa.select(one.c.item_id, one.c.score).order_by(one.c.score.desc(), one.c.item_id)
    return ordered.limit(parameter("depth", sa.BigInteger))


def _is_short(met: sa.CTE, kept: sa.CTE, near: sa.CTE, best: sa.CTE) -> sa.ColumnElement[bool]:
    """Whether a walk went as far as it may and what it did not meet may belong to the best.

    One by rating that kept too few has to have come to the middle: those without verdicts stand there.
    """
    depth, reach = parameter("depth", sa.BigInteger), parameter("reach", sa.BigInteger)
    lowest = sa.select(sa.func.min(met.c.score)).scalar_subquery()
    is_above = sa.and_(count_of(met) >= reach, lowest > UNRATED)
    is_cut = sa.or_(count_of(met) >= reach, count_of(near) >= reach)
    return sa.case(
        (count_of(kept) >= depth, sa.false()), else_=sa.or_(is_above, sa.and_(count_of(best) < depth, is_cut))
    )


def _all(rows: sa.CTE) -> Part:
    return sa.select(rows.c.item_id, rows.c.score)


def _named(rows: sa.CTE) -> Part:
    return sa.select(named("rated"), rows.c.item_id, rows.c.score)
