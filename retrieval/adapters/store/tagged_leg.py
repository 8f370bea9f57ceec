"""The leg of the items that have the tags of the question: those with most of them first, then the latest stored.

The items of each tag come from the index of tags, so many of a tag at the most; of those that have most of the tags so
many are looked at. Where that leaves some out, the latest stored items with one of the tags are looked at as well.
Under a filter that few items pass, those are looked at instead.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from retrieval.adapters.store.candidate_request import CandidateRequest
from retrieval.adapters.store.ordered_leg import MOST_OF_ONE, share_of_time
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
from retrieval.adapters.store.stored_order import WALKED_AT_MOST, latest_stored, stored_item
from retrieval.adapters.store.tables import item_tags, items

_TEXTS = ARRAY(sa.Text)
_ROWS = 10_000
"""Rows of the index of tags that a question reads, shared out among its tags."""
_LOOKED_AT = 1000
"""Items with most of the tags that are looked at."""

Part = sa.Select[Any]


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
    one = (
        sa.select(table.c.item_id)
        .where(table.c.collection_id == literal(request.collection_id), table.c.tag == asked.c.tag)
        .correlate(asked)
        .limit(parameter("rows_of_tag", sa.BigInteger))
        .lateral("row_of_tag")
    )
    return sa.select(one.c.item_id, asked.c.place).join_from(asked, one, sa.true()).where(*conditions)


def _sizes(rows: sa.CTE) -> Part:
    """Of each tag whether there may be more items than were read."""
    is_cut = sa.func.count() >= parameter("rows_of_tag", sa.BigInteger)
    return sa.select(rows.c.place, is_cut.label("is_cut")).group_by(rows.c.place)


def _most(rows: sa.CTE, sizes: sa.CTE) -> Part:
    """The items that can have most of the tags: those of which not all items were read may be theirs too."""
    surely = sa.func.count().filter(sa.not_(sizes.c.is_cut))
    return (
        sa.select(rows.c.item_id)
        .join_from(rows, sizes, sizes.c.place == rows.c.place)
        .group_by(rows.c.item_id)
        .order_by(surely.desc(), sa.func.count().desc(), rows.c.item_id)
        .limit(parameter("most_tagged", sa.BigInteger))
    )


def _is_cut(sizes: sa.CTE, most: sa.CTE) -> sa.ColumnElement[bool]:
    """Whether some item with one of the tags may not have been looked at."""
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
    one = candidates.subquery("tagged_candidate")
    own = stored_item(request, one.c.item_id, items.c.tags, items.c.created_at).lateral("tagged_item")
    tag = sa.func.unnest(own.c.tags).table_valued("tag", name="own_tag").render_derived()
    is_asked = tag.c.tag == sa.func.any(parameter("tags", _TEXTS))
    counted = sa.select(sa.func.count().label("number")).select_from(tag).where(is_asked).lateral("own_tags")
    share = share_of_time(own.c.created_at) * sa.literal_column(MOST_OF_ONE, sa.Double)
    score = (sa.cast(counted.c.number, sa.Double) + share).label("score")
    rows = (
        sa.select(one.c.item_id, score)
        .join_from(one, own, sa.true())
        .join(counted, counted.c.number > sa.literal_column("0"))
    )
    if is_filtered:
        rows = rows.where(is_wanted(request, one.c.item_id))
    return rows.order_by(score.desc(), one.c.item_id).limit(parameter("depth", sa.BigInteger))
