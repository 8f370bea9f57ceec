"""The legs of the items with the tags of the question, and of the items with the best verdicts.

The tagged leg reads a limited number of rows of each tag from the index of tags, and looks up a limited number of items
with the most tags. If a limit leaves items out, the latest stored items with one of the tags are looked up as well. If
few items pass the filter, these are looked up instead.

The rated leg computes the rating of every item with verdicts, because each verdict would change an index of ratings.
Then it looks up the best, and items without verdicts in the order of storing, until the leg is full. If few items pass
the filter, these are looked up instead.
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
    count_of,
    count_row,
    materialized,
    named,
    parameter,
    passes_filter,
)
from retrieval.adapters.store.tables import arms, item_tags, items, literal

WALKED_AT_MOST = 10_000
"""The most items that a search reads in the order of storing, if no filter sets another limit."""

Part = sa.Select[Any]


def latest_stored(request: CandidateRequest, *columns: sa.ColumnElement[Any]) -> Part:
    """Rows of (item_id, the given columns) of the items that are not archived, the latest stored first."""
    return (
        sa.select(items.c.item_id, *columns)
        .where(
            items.c.collection_id == literal(request.collection_id),
            items.c.status != sa.literal_column("'archived'"),
        )
        .order_by(items.c.created_at.desc(), items.c.item_id)
    )


def stored_item(request: CandidateRequest, item_id: sa.ColumnElement[str], *columns: sa.ColumnElement[Any]) -> Part:
    """One row of the given columns, looked up by the item's key; no row if the item is archived."""
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
"""The most rows of the index of tags that a question reads, divided among its tags."""
_MOST_TAGGED = 1000
"""The most items that are looked up, those with the most tags."""


def tag_values(tags: tuple[str, ...], depth: int) -> dict[str, Any]:
    """The parameters of the leg."""
    return {
        "tags": list(tags),
        "rows_of_tag": max(depth, _ROWS // max(len(tags), 1)),
        "most_tagged": max(depth, _MOST_TAGGED),
    }


def tagged_leg(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of ('tagged', item_id, number of the question's tags plus a fraction that rises with time)."""
    many = [] if matches is None else [sa.not_(matches.are_few)]
    rows = materialized(_rows(request, many), "tag_rows")
    sizes = materialized(_sizes(rows), "tag_sizes")
    most = materialized(_most(rows, sizes), "tagged_most")
    cut = materialized(sa.select(_is_cut(sizes, most).label("is_cut")), "tagged_cut")
    is_cut = sa.select(cut.c.is_cut).scalar_subquery()
    latest = materialized(_latest(request, [*many, is_cut]), "tagged_latest")
    either = sa.union(sa.select(most.c.item_id), sa.select(latest.c.item_id))
    kept = materialized(_ranked(request, either, is_filtered=matches is not None), "tagged")
    best = sa.select(named("tagged"), kept.c.item_id, kept.c.score)
    if matches is None:
        return [best]
    few = materialized(_ranked(request, sa.select(matches.keys.c.item_id).where(matches.are_few)), "tagged_of_few")
    is_short = sa.and_(is_cut, count_of(kept) < parameter("depth", sa.BigInteger))
    return [
        best,
        sa.select(named("tagged"), few.c.item_id, few.c.score),
        count_row("too_few_found", sa.literal_column("1"), *many, is_short),
    ]


def _query_tags() -> sa.TableValuedAlias:
    tags = sa.func.unnest(parameter("tags", _TEXTS))
    return tags.table_valued("tag", with_ordinality="place", name="query_tag").render_derived()


def _rows(request: CandidateRequest, conditions: list[sa.ColumnElement[bool]]) -> Part:
    """Rows of (item_id, place of the tag) from the index of tags; archived items are not in it."""
    query = _query_tags()
    table = item_tags.alias("tag_row")
    row = (
        sa.select(table.c.item_id)
        .where(table.c.collection_id == literal(request.collection_id), table.c.tag == query.c.tag)
        .correlate(query)
        .limit(parameter("rows_of_tag", sa.BigInteger))
        .lateral("row_of_tag")
    )
    return sa.select(row.c.item_id, query.c.place).join_from(query, row, sa.true()).where(*conditions)


def _sizes(rows: sa.CTE) -> Part:
    """Rows of (place of the tag, whether there may be more items than were read)."""
    is_cut = sa.func.count() >= parameter("rows_of_tag", sa.BigInteger)
    return sa.select(rows.c.place, is_cut.label("is_cut")).group_by(rows.c.place)


def _most(rows: sa.CTE, sizes: sa.CTE) -> Part:
    """The items with the most tags; first by the tags whose items were all read, then by all tags."""
    certain = sa.func.count().filter(sa.not_(sizes.c.is_cut))
    return (
        sa.select(rows.c.item_id)
        .join_from(rows, sizes, sizes.c.place == rows.c.place)
        .group_by(rows.c.item_id)
        .order_by(certain.desc(), sa.func.count().desc(), rows.c.item_id)
        .limit(parameter("most_tagged", sa.BigInteger))
    )


def _is_cut(sizes: sa.CTE, most: sa.CTE) -> sa.ColumnElement[bool]:
    """Whether the leg may have missed an item with one of the tags."""
    of_some_tag = sa.exists(sa.select(sizes.c.place).where(sizes.c.is_cut))
    return sa.or_(of_some_tag, count_of(most) >= parameter("most_tagged", sa.BigInteger))


def _latest(request: CandidateRequest, conditions: list[sa.ColumnElement[bool]]) -> Part:
    """The latest stored items with one of the tags, each looked up in the index of tags."""
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
    passing = sa.select(walk.c.item_id).where(has_one == sa.literal_column("1"), passes_filter(request, walk.c.item_id))
    return passing.limit(parameter("depth", sa.BigInteger))


def _ranked(request: CandidateRequest, candidates: sa.SelectBase, *, is_filtered: bool = False) -> Part:
    """The candidates by the number of their tags, the latest stored first among equals."""
    candidate = candidates.subquery("tagged_candidate")
    own = stored_item(request, candidate.c.item_id, items.c.tags, items.c.created_at).lateral("tagged_item")
    tag = sa.func.unnest(own.c.tags).table_valued("tag", name="own_tag").render_derived()
    is_of_query = tag.c.tag == sa.func.any(parameter("tags", _TEXTS))
    counted = sa.select(sa.func.count().label("number")).select_from(tag).where(is_of_query).lateral("own_tags")
    share = share_of_time(own.c.created_at) * sa.literal_column(MOST_OF_ONE, sa.Double)
    score = (sa.cast(counted.c.number, sa.Double) + share).label("score")
    rows = (
        sa.select(candidate.c.item_id, score)
        .join_from(candidate, own, sa.true())
        .join(counted, counted.c.number > sa.literal_column("0"))
    )
    if is_filtered:
        rows = rows.where(passes_filter(request, candidate.c.item_id))
    return rows.order_by(score.desc(), candidate.c.item_id).limit(parameter("depth", sa.BigInteger))


_FIRST = 10
"""The best rated items that are kept at first, in multiples of the depth; if they are too few, all are read again."""
_LITTLE = "0.0001"
"""The most that an item without verdicts is rated below .5; later stored items are rated higher."""

Conditions = list[sa.ColumnElement[bool]]


def rated_leg(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of ('rated', item_id, rating); the rating of an item without verdicts is a little below .5."""
    many: Conditions = [] if matches is None else [sa.not_(matches.are_few)]
    reach = sa.literal_column(str(WALKED_AT_MOST)) if matches is None else parameter("reach", sa.BigInteger)
    met = materialized(_by_rating(request, many, None if matches is None else reach), "rated_walk")
    kept = materialized(_kept(met, passes_filter(request, met.c.item_id, is_active=True)), "rated_of_walk")
    near = materialized(_by_arrival(request, [*many, _is_open(kept)]).limit(reach), "unrated_walk")
    is_unrated = sa.and_(_has_no_verdicts(request, near.c.item_id), passes_filter(request, near.c.item_id))
    unrated = materialized(_kept(near, is_unrated), "unrated_of_walk")
    best = materialized(_best(sa.union_all(_all(kept), _all(unrated))), "rated")
    if matches is None:
        return [_named(best)]
    few = materialized(_best(_of_few(request, matches)), "rated_of_few")
    is_short = _is_short(met, kept, near, best)
    return [_named(best), _named(few), count_row("too_few_found", sa.literal_column("1"), *many, is_short)]


def _by_rating(request: CandidateRequest, conditions: Conditions, reach: sa.ColumnElement[Any] | None) -> Part:
    """Rows of (item_id, score), the best first, at most ``reach``, including archived items.

    A CTE is computed when its first row is requested, so the second one costs nothing if the first has enough rows.
    """
    first = parameter("depth", sa.BigInteger) * sa.literal_column(str(_FIRST))
    ordered = _ordered_by_rating(request, conditions)
    best = materialized(ordered.limit(first if reach is None else sa.func.least(first, reach)), "best_rated")
    others = _ordered_by_rating(request, [count_of(best) >= first]).offset(first)
    rest = None if reach is None else sa.func.greatest(reach - first, sa.literal_column("0"))
    either = sa.union_all(_all(best), _all(materialized(others.limit(rest), "others_rated"))).subquery("either_rated")
    return sa.select(either.c.item_id, either.c.score)


def _ordered_by_rating(request: CandidateRequest, conditions: Conditions) -> Part:
    arm = arms.alias("rated_arm")
    of_collection = anywhere(request.collection_id, arm), *conditions
    # Ordered by key inside, so that with sorting off the planner uses the index, even if the table has just grown.
    by_key = sa.select(arm.c.item_id, rating(arm).label("score")).where(*of_collection).order_by(arm.c.item_id)
    row = by_key.subquery("by_key")
    return sa.select(row.c.item_id, row.c.score).order_by(row.c.score.desc(), row.c.item_id)


def _by_arrival(request: CandidateRequest, conditions: Conditions) -> Part:
    """Rows of (item_id, score) of items that are not archived, with the score of an item without verdicts."""
    return latest_stored(request, _unrated(items.c.created_at).label("score")).where(*conditions)


def _unrated(stored_at: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The score of an item without verdicts."""
    little = sa.literal_column(_LITTLE, sa.Double)
    return UNRATED - little * (sa.literal_column("1", sa.Double) - share_of_time(stored_at))


def _kept(walk: sa.CTE, is_passing: sa.ColumnElement[bool]) -> Part:
    return sa.select(walk.c.item_id, walk.c.score).where(is_passing).limit(parameter("depth", sa.BigInteger))


def _is_open(kept: sa.CTE) -> sa.ColumnElement[bool]:
    """Whether the items rated above .5 leave room in the leg."""
    above = sa.select(sa.func.count()).select_from(kept).where(kept.c.score > UNRATED).scalar_subquery()
    return above < parameter("depth", sa.BigInteger)


def _arm_of(request: CandidateRequest, item_id: sa.ColumnElement[str], value: sa.ColumnElement[Any]) -> Any:
    """A value of the item's verdicts, looked up by its key; NULL without verdicts."""
    mine = sa.select(value).where(anywhere(request.collection_id), arms.c.item_id == item_id).limit(1)
    return mine.correlate(*sa.select(item_id).get_final_froms()).scalar_subquery()


def _has_no_verdicts(request: CandidateRequest, item_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    # Not NOT EXISTS, which could become a join that reads all verdicts first.
    marker: sa.ColumnElement[int] = _arm_of(request, item_id, sa.literal_column("1", sa.Integer))
    return marker.is_(None)


def _of_few(request: CandidateRequest, matches: Matches) -> Part:
    """Each match with its score, looked up by its key."""
    key = matches.keys.c.item_id
    own = stored_item(request, key, items.c.created_at).lateral("match_item")
    rated: sa.ColumnElement[float] = _arm_of(request, key, rating(arms))
    score = sa.func.coalesce(rated, _unrated(own.c.created_at)).label("score")
    return sa.select(key, score).select_from(matches.keys).join(own, sa.true()).where(matches.are_few)


def _best(rows: sa.SelectBase) -> Part:
    candidate = rows.subquery("rated_candidate")
    ordered = sa.select(candidate.c.item_id, candidate.c.score).order_by(candidate.c.score.desc(), candidate.c.item_id)
    return ordered.limit(parameter("depth", sa.BigInteger))


def _is_short(met: sa.CTE, kept: sa.CTE, near: sa.CTE, best: sa.CTE) -> sa.ColumnElement[bool]:
    """Whether a walk reached its limit, so that the best may include items that it did not meet.

    A walk by rating that kept too few must have gone down to .5, the rating of items without verdicts.
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
