"""The legs of the items that have the tags of the question, and of those with the best verdicts.

The items of each tag come from the index of tags, so many of a tag at the most; of those that have most of the tags so
many are looked at. Where that leaves some out, the latest stored items with one of the tags are looked at as well.
Under a filter that few items pass, those are looked at instead.

Of all those with verdicts the rating is computed: an index of it would be changed by each verdict. Of the best, and of
those without in the order in which they were stored, so many are looked up as it takes to fill the leg. Under a filter
that few items pass, those are looked up instead.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from retrieval.adapters.store.learning.ratings import UNRATED, anywhere, rating
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.adapters.store.search.ordered_legs import MOST_OF_ONE, share_of_time
from retrieval.adapters.store.search.statement_parts import (
    Matches,
    account,
    count_of,
    is_wanted,
    literal,
    materialized,
    named,
    parameter,
)
from retrieval.adapters.store.tables import arms, item_tags, items

WALKED_AT_MOST = 10_000
"""Items of that order that a search looks at, where no filter says how many may be few."""

Part = sa.Select[Any]


def latest_stored(request: CandidateRequest, *columns: sa.ColumnElement[Any]) -> Part:
    """Rows of (item_id, those columns of ``items``) of the items that are not archived, the latest stored first."""
    return (
        sa.select(items.c.item_id, *columns)
        .where(
            items.c.collection_id == literal(request.collection_id),
            items.c.status != sa.literal_column("'archived'"),
        )
        .order_by(items.c.created_at.desc(), items.c.item_id)
    )


def stored_item(request: CandidateRequest, item_id: sa.ColumnElement[str], *columns: sa.ColumnElement[Any]) -> Part:
    """One row of those columns of ``items``, looked up by the item's key; none where it is archived."""
    return (
        sa.select(*columns)
        .where(
            items.c.collection_id == literal(request.collection_id),
            items.c.item_id == item_id,
            items.c.status != sa.literal_column("'archived'"),
        )
        .limit(1)
    )


_TEXTS = ARRAY(sa.Text)
_ROWS = 10_000
"""Rows of the index of tags that a question reads, shared out among its tags."""
_LOOKED_AT = 1000
"""Items with most of the tags that are looked at."""


def tag_values(tags: tuple[str, ...], depth: int) -> dict[str, Any]:
    """The parameters of the leg."""
    return {
        "tags": list(tags),
        "rows_of_tag": max(depth, _ROWS // max(len(tags), 1)),
        "most_tagged": max(depth, _LOOKED_AT),
    }


def tagged_leg(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of ('tagged', item_id, tags of the question and a fraction that the later stored of equals has more of)."""
    many = [] if matches is None else [sa.not_(matches.are_few)]
    rows = materialized(_rows(request, many), "tag_rows")
    sizes = materialized(_sizes(rows), "tag_sizes")
    most = materialized(_most(rows, sizes), "tagged_most")
    cut = materialized(sa.select(_is_cut(sizes, most).label("is_cut")), "tagged_cut")
    is_cut = sa.select(cut.c.is_cut).scalar_subquery()
    latest = materialized(_latest(request, [*many, is_cut]), "tagged_latest")
    either = sa.union(sa.select(most.c.item_id), sa.select(latest.c.item_id))
    kept = materialized(_ranked(request, either, is_filtered=matches is not None), "tagged")
    found = sa.select(named("tagged"), kept.c.item_id, kept.c.score)
    if matches is None:
        return [found]
    few = materialized(_ranked(request, sa.select(matches.keys.c.item_id).where(matches.are_few)), "tagged_of_few")
    is_short = sa.and_(is_cut, count_of(kept) < parameter("depth", sa.BigInteger))
    return [
        found,
        sa.select(named("tagged"), few.c.item_id, few.c.score),
        account("too_few_found", sa.literal_column("1"), *many, is_short),
    ]


def _asked() -> sa.TableValuedAlias:
    given = sa.func.unnest(parameter("tags", _TEXTS))
    return given.table_valued("tag", with_ordinality="place", name="asked_tag").render_derived()


def _rows(request: CandidateRequest, conditions: list[sa.ColumnElement[bool]]) -> Part:
    """Rows of (item_id, place of the tag) from the index of tags; archived items are not in it."""
    asked = _asked()
    table = item_tags.alias("tag_row")
    row = (
        sa.select(table.c.item_id)
        .where(table.c.collection_id == literal(request.collection_id), table.c.tag == asked.c.tag)
        .correlate(asked)
        .limit(parameter("rows_of_tag", sa.BigInteger))
        .lateral("row_of_tag")
    )
    return sa.select(row.c.item_id, asked.c.place).join_from(asked, row, sa.true()).where(*conditions)


def _sizes(rows: sa.CTE) -> Part:
    """Tell for each tag whether there may be more items than were read."""
    is_cut = sa.func.count() >= parameter("rows_of_tag", sa.BigInteger)
    return sa.select(rows.c.place, is_cut.label("is_cut")).group_by(rows.c.place)


def _most(rows: sa.CTE, sizes: sa.CTE) -> Part:
    """The items that may have most of the tags; tags whose items were not all read may belong to any item."""
    surely = sa.func.count().filter(sa.not_(sizes.c.is_cut))
    return (
        sa.select(rows.c.item_id)
        .join_from(rows, sizes, sizes.c.place == rows.c.place)
        .group_by(rows.c.item_id)
        .order_by(surely.desc(), sa.func.count().desc(), rows.c.item_id)
        .limit(parameter("most_tagged", sa.BigInteger))
    )


def _is_cut(sizes: sa.CTE, most: sa.CTE) -> sa.ColumnElement[bool]:
    """Whether the legs may have missed an item with one of the tags."""
    of_some_tag = sa.exists(sa.select(sizes.c.place).where(sizes.c.is_cut))
    return sa.or_(of_some_tag, count_of(most) >= parameter("most_tagged", sa.BigInteger))


def _latest(request: CandidateRequest, conditions: list[sa.ColumnElement[bool]]) -> Part:
    """The latest stored items with one of the tags, looked up in the index of tags one by one."""
    walk = latest_stored(request).where(*conditions).limit(sa.literal_column(str(WALKED_AT_MOST))).subquery("near")
    table = item_tags.alias("tag_of_near")
    has_one = (
        sa.select(sa.literal_column("1"))
        .where(
            table.c.collection_id == literal(request.collection_id),
            table.c.item_id == walk.c.item_id,
            table.c.tag == sa.func.any(parameter("tags", _TEXTS)),
        )
        .correlate(walk)
        .limit(1)
        .scalar_subquery()
    )
    wanted = sa.select(walk.c.item_id).where(has_one == sa.literal_column("1"), is_wanted(request, walk.c.item_id))
    return wanted.limit(parameter("depth", sa.BigInteger))


def _ranked(request: CandidateRequest, candidates: sa.SelectBase, *, is_filtered: bool = False) -> Part:
    """The candidates by how many of the tags they have, the latest stored first among equals."""
    candidate = candidates.subquery("tagged_candidate")
    own = stored_item(request, candidate.c.item_id, items.c.tags, items.c.created_at).lateral("tagged_item")
    tag = sa.func.unnest(own.c.tags).table_valued("tag", name="own_tag").render_derived()
    is_asked = tag.c.tag == sa.func.any(parameter("tags", _TEXTS))
    counted = sa.select(sa.func.count().label("number")).select_from(tag).where(is_asked).lateral("own_tags")
    share = share_of_time(own.c.created_at) * sa.literal_column(MOST_OF_ONE, sa.Double)
    score = (sa.cast(counted.c.number, sa.Double) + share).label("score")
    rows = (
        sa.select(candidate.c.item_id, score)
        .join_from(candidate, own, sa.true())
        .join(counted, counted.c.number > sa.literal_column("0"))
    )
    if is_filtered:
        rows = rows.where(is_wanted(request, candidate.c.item_id))
    return rows.order_by(score.desc(), candidate.c.item_id).limit(parameter("depth", sa.BigInteger))


_FIRST = 10
"""The multiple of the leg's depth that is kept of the best at first; where that is too few, all are read once more."""
_LITTLE = "0.0001"
"""The most that an item without verdicts ranks below the middle; the later it was stored, the less."""

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
    row = by_key.subquery("by_key")
    return sa.select(row.c.item_id, row.c.score).order_by(row.c.score.desc(), row.c.item_id)


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
    """Whether the items rated above the middle leave room in the leg."""
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
    candidate = rows.subquery("rated_candidate")
    ordered = sa.select(candidate.c.item_id, candidate.c.score).order_by(candidate.c.score.desc(), candidate.c.item_id)
    return ordered.limit(parameter("depth", sa.BigInteger))


def _is_short(met: sa.CTE, kept: sa.CTE, near: sa.CTE, best: sa.CTE) -> sa.ColumnElement[bool]:
    """Whether a walk reached its limit, so that items which it did not meet may belong to the best.

    A walk by rating that kept too few must have come to the middle, where the items without verdicts are.
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
