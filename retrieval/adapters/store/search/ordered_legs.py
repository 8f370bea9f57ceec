"""Legs whose ranking is an order that an index keeps: the latest, the most used, the most relevant, the linked.

Under a filter that few items pass, those are looked up and sorted. Where many pass, the index is walked in its order
and what it brings is looked up, until there are enough; a walk that went as far as it may and met too few says so, and
every matching item is looked at after all.

Of each entity the latest memories are taken, as many as the leg may bring; those that more of the entities are linked
to come first, the latest first among equals. Under a filter an entity's memories are walked no further than there are
matches to look up, where those are few, or than any walk goes. Where that meets too few, every match is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from retrieval.adapters.store.search.candidate_request import CandidateRequest
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
from retrieval.adapters.store.tables import items, memories, memory_links
from retrieval.domain.search.profile import LegName

ORDERED_LEGS = frozenset(LegName) - {LegName.DENSE, LegName.LEXICAL}
"""The legs that an order of an index ranks, not a distance from the query."""

MOST_OF_ONE = "0.999"
"""The most that time adds to a score that is a count: less than one."""

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
    """A number from 0 to 1 that rises with time, from the year 1 to 9999; it orders equal scores."""
    seconds = sa.extract("epoch", moment).cast(sa.Double)
    within = sa.func.least(sa.func.greatest(seconds + sa.literal_column(_EARLIEST), sa.literal_column("0")),
                           sa.literal_column(_SPAN))  # fmt: skip
    return within / sa.literal_column(_SPAN, sa.Double)


def _best_of_few(matches: Matches, order: Order) -> Part:
    """Each is looked up by its key, whatever the planner thinks of how many there are."""
    key = matches.keys.c.item_id
    score = order.score_of(key).limit(1).lateral(f"{order.leg}_score")
    rows = sa.select(key, score.c.score).select_from(matches.keys).join(score, sa.true()).where(matches.are_few)
    return rows.order_by(score.c.score.desc(), key).limit(parameter("depth", sa.BigInteger))


def _named(leg: str, rows: sa.CTE) -> Part:
    return sa.select(named(leg), rows.c.item_id, rows.c.score)


def recent_leg(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of ('recent', item_id, seconds since 1970)."""
    table = items.alias("latest")
    rows = _timed(request, table).with_only_columns(table.c.item_id, _seconds(table))
    walk = rows.order_by(table.c.occurred_at.desc(), table.c.item_id.desc())

    def score_of(item_id: sa.ColumnElement[str]) -> Part:
        item = items.alias("one_of_few")
        return _timed(request, item).where(item.c.item_id == item_id).with_only_columns(_seconds(item))

    return ordered_leg(request, matches, Order("recent", walk, score_of))


def _timed(request: CandidateRequest, table: sa.FromClause) -> Part:
    return sa.select(table.c.item_id).where(
        table.c.collection_id == literal(request.collection_id), table.c.occurred_at.is_not(None)
    )


def _seconds(table: sa.FromClause) -> sa.Label[float]:
    # No index has the order of this expression: the few that match are sorted, not searched for in an index.
    return sa.extract("epoch", table.c.occurred_at).cast(sa.Double).label("score")


_LITTLE = "0.0001"
"""The most that time adds to a base relevance; a decade adds a ten-millionth."""

Score = Callable[[sa.FromClause], sa.ColumnElement[Any]]


def popular_leg(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of ('popular', item_id, accesses and a fraction that the later of equals has more of)."""
    walked = memories.alias("most_used")
    walk = _walk(request, walked, _accesses).where(walked.c.accesses > sa.literal_column("0"))
    ordered = walk.order_by(walked.c.accesses.desc(), walked.c.happened_at.desc(), walked.c.item_id)
    only = memories.c.accesses > sa.literal_column("0")
    return ordered_leg(request, matches, Order("popular", ordered, _looked_up(request, _accesses, only)))


def relevant_leg(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of ('relevant', item_id, base relevance and up to .0001 that the later of equals has more of)."""
    walked = memories.alias("most_relevant")
    walk = _walk(request, walked, _relevance)
    ordered = walk.order_by(walked.c.base_relevance.desc(), walked.c.happened_at.desc(), walked.c.item_id)
    return ordered_leg(request, matches, Order("relevant", ordered, _looked_up(request, _relevance)))


def _is_unexpired(table: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether the memory has not expired by ``now``; without ``now`` none has."""
    now = parameter("now", sa.DateTime(timezone=True))
    return sa.or_(now.is_(None), table.c.expires_at.is_(None), table.c.expires_at > now)


def _walk(request: CandidateRequest, table: sa.FromClause, score: Score) -> Part:
    rows = sa.select(table.c.item_id, score(table).label("score"))
    return rows.where(table.c.collection_id == literal(request.collection_id), _is_unexpired(table))


def _looked_up(
    request: CandidateRequest, score: Score, *only: sa.ColumnElement[bool]
) -> Callable[[sa.ColumnElement[str]], Part]:
    def score_of(item_id: sa.ColumnElement[str]) -> Part:
        mine = memories.c.collection_id == literal(request.collection_id), memories.c.item_id == item_id
        return sa.select(score(memories).label("score")).where(*mine, _is_unexpired(memories), *only)

    return score_of


def _accesses(table: sa.FromClause) -> sa.ColumnElement[Any]:
    share = share_of_time(table.c.happened_at) * sa.literal_column(MOST_OF_ONE, sa.Double)
    return table.c.accesses.cast(sa.Double) + share


def _relevance(table: sa.FromClause) -> sa.ColumnElement[Any]:
    return table.c.base_relevance + share_of_time(table.c.happened_at) * sa.literal_column(_LITTLE, sa.Double)


_TEXTS = ARRAY(sa.Text)


def linked_leg(request: CandidateRequest, matches: Matches | None) -> list[Part]:
    """Rows of ('linked', item_id, entities and a fraction that the later of equals has more of)."""
    if matches is None:
        latest = materialized(_latest(request, None), "linked_latest")
        return [_ranked(request, sa.select(latest.c.item_id).distinct())]
    most = sa.case((matches.are_few, matches.count), else_=parameter("reach", sa.BigInteger))
    latest = materialized(_latest(request, most), "linked_latest")
    walked = sa.select(latest.c.item_id)
    short = materialized(sa.select(_is_short(request, latest, most).label("is_short")), "linked_short")
    is_short = sa.select(short.c.is_short).scalar_subquery()
    every_match = sa.select(matches.keys.c.item_id).where(matches.are_few, is_short)
    return [
        _ranked(request, sa.union(walked, every_match)),
        account("too_few_found", sa.literal_column("1"), sa.not_(matches.are_few), is_short),
    ]


def _latest(request: CandidateRequest, most: sa.ColumnElement[int] | None) -> Part:
    """Rows of (item_id, place of the entity): the latest wanted items of each entity, among its ``most`` latest."""
    entity = _entities()
    links = _links_of(request, entity)
    near = (links if most is None else links.limit(most)).subquery("near")
    wanted = sa.select(near.c.item_id).where(is_wanted(request, near.c.item_id, is_active=True))
    latest = wanted.limit(parameter("depth", sa.BigInteger)).lateral("latest")
    return sa.select(latest.c.item_id, entity.c.place).join_from(entity, latest, sa.true())


def _is_short(request: CandidateRequest, latest: sa.CTE, most: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Whether the walk of some entity reached its limit, and the filter lets too few of its items through."""
    entity = _entities()
    kept = sa.select(sa.func.count()).select_from(latest).where(latest.c.place == entity.c.place).scalar_subquery()
    links = _links_of(request, entity).limit(most).subquery("all_near")
    met = sa.select(sa.func.count()).select_from(links).scalar_subquery()
    # Walked to its end only where too few are kept.
    short = sa.case((kept >= parameter("enough", sa.BigInteger), sa.false()), else_=met >= most)
    return sa.exists(sa.select(entity.c.place).where(short))


def _ranked(request: CandidateRequest, candidates: sa.SelectBase) -> Part:
    """The candidates by how many of the entities they are linked to, the latest first among equals."""
    candidate = candidates.subquery("linked_candidate")
    own = _own_links(request, candidate.c.item_id)
    share = share_of_time(own.c.happened_at) * sa.literal_column(MOST_OF_ONE, sa.Double)
    score = (sa.cast(own.c.entities, sa.Double) + share).label("score")
    rows = sa.select(candidate.c.item_id, score).join_from(candidate, own, own.c.entities > sa.literal_column("0"))
    best = materialized(
        rows.order_by(score.desc(), candidate.c.item_id).limit(parameter("depth", sa.BigInteger)), "linked"
    )
    return sa.select(named("linked"), best.c.item_id, best.c.score)


def _own_links(request: CandidateRequest, item_id: sa.ColumnElement[str]) -> sa.FromClause:
    """The number of the entities that the memory is linked to, and the time of its event, looked up by its key."""
    entity, links = _entities(), memory_links.alias("own_link")
    is_asked = sa.and_(links.c.entity_type == entity.c.entity_type, links.c.entity_id == entity.c.entity_id)
    counted = sa.select(sa.func.count().label("entities"), sa.func.max(links.c.happened_at).label("happened_at"))
    return (
        counted.join_from(links, entity, is_asked)
        .where(links.c.collection_id == literal(request.collection_id), links.c.item_id == item_id)
        .lateral("own")
    )


def _entities() -> sa.TableValuedAlias:
    given = sa.func.unnest(parameter("entity_types", _TEXTS), parameter("entity_ids", _TEXTS))
    names = given.table_valued("entity_type", "entity_id", with_ordinality="place", name="entity")
    return names.render_derived()


def _links_of(request: CandidateRequest, entity: sa.TableValuedAlias) -> Part:
    """The entity's links, the latest first."""
    links = memory_links.alias("link")
    return (
        sa.select(links.c.item_id)
        .where(
            links.c.collection_id == literal(request.collection_id),
            links.c.entity_type == entity.c.entity_type,
            links.c.entity_id == entity.c.entity_id,
        )
        .order_by(links.c.happened_at.desc(), links.c.item_id)
        .correlate(entity)
    )
