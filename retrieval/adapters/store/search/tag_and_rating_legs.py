"""The legs of the items with the tags of the question, and of the items with the best verdicts.

The tagged leg counts the tags of all items that the index of tags has for the question's tags, a
microsecond or two for each; if few items pass the filter, it counts their tags alone.

The rated leg computes the rating of every item with verdicts, because each verdict would change an index of ratings.
Then it looks up the best, and items without verdicts in the order of storing, until the leg is full. If few items pass
the filter, these are looked up instead.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.learning.ratings import UNRATED, anywhere, rating
from retrieval.adapters.store.search import statement_pieces as pieces
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.adapters.store.search.ordered_legs import MOST_OF_ONE, share_of_time
from retrieval.adapters.store.search.statement_pieces import Rows
from retrieval.adapters.store.tables import arms, is_searchable, item_tags, items, literal

_WALKED_AT_MOST = "10000"
"""The most items that a search reads in the order of storing, if no filter sets another limit."""


def tagged_leg(request: CandidateRequest, matches: pieces.Matches | None) -> list[Rows]:
    """Rows of ('tagged', item_id, number of the question's tags plus a fraction that rises with time)."""
    if matches is None:
        return [pieces.rows_of("tagged", pieces.materialized(_by_tags(request).limit(pieces.DEPTH), "tagged"))]
    ranked = pieces.materialized(_by_tags(request, sa.not_(matches.are_few)), "tagged_walk")
    kept = pieces.materialized(_kept(ranked, pieces.passes_filter(request, ranked.c.item_id)), "tagged")
    keys = sa.select(matches.keys.c.item_id).where(matches.are_few).scalar_subquery()
    few = _by_tags(request, item_tags.c.item_id == sa.func.any(sa.func.array(keys)))
    return [
        pieces.rows_of("tagged", kept),
        pieces.rows_of("tagged", pieces.materialized(few.limit(pieces.DEPTH), "tagged_of_few")),
    ]


def _by_tags(request: CandidateRequest, *conditions: sa.ColumnElement[bool]) -> Rows:
    """Rows of (item_id, score) of the items with a tag of the question, best first; the index has no archived items."""
    share = share_of_time(sa.func.max(item_tags.c.created_at)) * sa.literal_column(MOST_OF_ONE, sa.Double)
    score = (sa.cast(sa.func.count(), sa.Double) + share).label("score")
    own = item_tags.c.collection_id == literal(request.collection_id)
    is_asked = item_tags.c.tag == sa.func.any(pieces.parameter("tags", pieces.TEXTS))
    rows = sa.select(item_tags.c.item_id, score).where(own, is_asked, *conditions).group_by(item_tags.c.item_id)
    return rows.order_by(score.desc(), item_tags.c.item_id)


_LITTLE = "0.0001"
"""The most that an item without verdicts is rated below .5; later stored items are rated higher."""

Conditions = list[sa.ColumnElement[bool]]


def rated_leg(request: CandidateRequest, matches: pieces.Matches | None) -> list[Rows]:
    """Rows of ('rated', item_id, rating); the rating of an item without verdicts is a little below .5."""
    many: Conditions = [] if matches is None else [sa.not_(matches.are_few)]
    reach = sa.literal_column(_WALKED_AT_MOST) if matches is None else pieces.REACH
    by_rating = _by_rating(request, many)
    met = pieces.materialized(by_rating if matches is None else by_rating.limit(reach), "rated_walk")
    kept = pieces.materialized(
        _kept(met, pieces.passes_filter(request, met.c.item_id, is_active=True)), "rated_of_walk"
    )
    near = pieces.materialized(_by_arrival(request, [*many, _is_open(kept)]).limit(reach), "unrated_walk")
    is_unrated = sa.and_(_has_no_verdicts(request, near.c.item_id), pieces.passes_filter(request, near.c.item_id))
    unrated = pieces.materialized(_kept(near, is_unrated), "unrated_of_walk")
    both = (sa.select(rows.c.item_id, rows.c.score) for rows in (kept, unrated))
    best = pieces.materialized(_best(sa.union_all(*both)), "rated")
    if matches is None:
        return [pieces.rows_of("rated", best)]
    few = pieces.materialized(_best(_of_few(request, matches)), "rated_of_few")
    is_short = _is_short(met, kept, near, best)
    return [pieces.rows_of("rated", best), pieces.rows_of("rated", few), pieces.too_few_found(*many, is_short)]


def _by_rating(request: CandidateRequest, conditions: Conditions) -> Rows:
    """Rows of (item_id, score), the best first, including archived items."""
    arm = arms.alias("rated_arm")
    of_collection = anywhere(request.collection_id, arm), *conditions
    # Ordered by key inside, so that with sorting off the planner uses the index, even if the table has just grown.
    by_key = sa.select(arm.c.item_id, rating(arm).label("score")).where(*of_collection).order_by(arm.c.item_id)
    row = by_key.subquery("by_key")
    return sa.select(row.c.item_id, row.c.score).order_by(row.c.score.desc(), row.c.item_id)


def _by_arrival(request: CandidateRequest, conditions: Conditions) -> Rows:
    """Rows of (item_id, score of an item without verdicts) of items that are not archived, the latest stored first."""
    of_collection = items.c.collection_id == literal(request.collection_id), is_searchable, *conditions
    rows = sa.select(items.c.item_id, _unrated(items.c.created_at).label("score")).where(*of_collection)
    return rows.order_by(items.c.created_at.desc(), items.c.item_id)


def _unrated(stored_at: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The score of an item without verdicts."""
    little = sa.literal_column(_LITTLE, sa.Double)
    return UNRATED - little * (sa.literal_column("1", sa.Double) - share_of_time(stored_at))


def _kept(walk: sa.CTE, is_passing: sa.ColumnElement[bool]) -> Rows:
    return sa.select(walk.c.item_id, walk.c.score).where(is_passing).limit(pieces.DEPTH)


def _is_open(kept: sa.CTE) -> sa.ColumnElement[bool]:
    """Whether the items rated above .5 leave room in the leg."""
    above = sa.select(sa.func.count()).select_from(kept).where(kept.c.score > UNRATED).scalar_subquery()
    return above < pieces.DEPTH


def _arm_of(request: CandidateRequest, item_id: sa.ColumnElement[str], value: sa.ColumnElement[Any]) -> Any:
    """A value of the item's verdicts, looked up by its key; NULL without verdicts."""
    mine = sa.select(value).where(anywhere(request.collection_id), arms.c.item_id == item_id).limit(1)
    return mine.correlate(*sa.select(item_id).get_final_froms()).scalar_subquery()


def _has_no_verdicts(request: CandidateRequest, item_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    # Not NOT EXISTS, which could become a join that reads all verdicts first.
    marker: sa.ColumnElement[int] = _arm_of(request, item_id, sa.literal_column("1", sa.Integer))
    return marker.is_(None)


def _of_few(request: CandidateRequest, matches: pieces.Matches) -> Rows:
    """Each match with its score, looked up by its key."""
    key = matches.keys.c.item_id
    item = items.c.collection_id == literal(request.collection_id), items.c.item_id == key, is_searchable
    own = sa.select(items.c.created_at).where(*item).limit(1).lateral("match_item")
    rated: sa.ColumnElement[float] = _arm_of(request, key, rating(arms))
    score = sa.func.coalesce(rated, _unrated(own.c.created_at)).label("score")
    return sa.select(key, score).select_from(matches.keys).join(own, sa.true()).where(matches.are_few)


def _best(rows: sa.SelectBase) -> Rows:
    candidate = rows.subquery("rated_candidate")
    ordered = sa.select(candidate.c.item_id, candidate.c.score).order_by(candidate.c.score.desc(), candidate.c.item_id)
    return ordered.limit(pieces.DEPTH)


def _is_short(met: sa.CTE, kept: sa.CTE, near: sa.CTE, best: sa.CTE) -> sa.ColumnElement[bool]:
    """Whether a walk reached its limit, so that the best may include items that it did not meet.

    A walk by rating that kept too few must have gone down to .5, the rating of items without verdicts.
    """
    depth, reach = pieces.DEPTH, pieces.REACH
    lowest = sa.select(sa.func.min(met.c.score)).scalar_subquery()
    is_above = sa.and_(pieces.count_of(met) >= reach, lowest > UNRATED)
    is_cut = sa.or_(pieces.count_of(met) >= reach, pieces.count_of(near) >= reach)
    return sa.case(
        (pieces.count_of(kept) >= depth, sa.false()),
        else_=sa.or_(is_above, sa.and_(pieces.count_of(best) < depth, is_cut)),
    )
