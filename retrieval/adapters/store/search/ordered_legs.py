"""Legs that rank by the order of an index: the latest, the most used, the most relevant, the linked.

If few items pass the filter, they are looked up and sorted. If many pass, the index is walked in its order and each
item is looked up, until there are enough; a walk that reaches its limit with too few returns a marker row, and the
search looks up every matching item.

The linked leg takes the latest memories of each entity, up to the leg's depth, and those that are linked to several of
the entities, among the latest ten thousand of each. Memories linked to more of the entities rank higher, and among
equals the later ones. Under a filter, the walk of an entity's memories is limited to the number of matches if they are
few, else to the limit of any walk. If it meets too few, every match is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.search import statement_pieces as pieces
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.adapters.store.search.statement_pieces import Rows
from retrieval.adapters.store.tables import items, literal, memories, memory_links
from retrieval.domain.search.profile import LegName

ORDERED_LEGS = frozenset(LegName) - {LegName.DENSE, LegName.LEXICAL}
"""The legs that rank by the order of an index, not by a distance from the query."""

MOST_OF_ONE = "0.999"
"""The most that time adds to a score that is a count: less than one."""


_EARLIEST, _SPAN = "62135596800", "315537897600"
"""Seconds from the year 1 to 1970, and to the year 9999."""

Score = Callable[[sa.FromClause], sa.ColumnElement[Any]]
ScoreOf = Callable[[sa.ColumnElement[str]], Rows]
"""Returns the query for the score of one item, at most one row."""


def _ordered(
    request: CandidateRequest, matches: pieces.Matches | None, leg: str, walk: Rows, of: ScoreOf
) -> list[Rows]:
    """Rows of (leg, item_id, score), and a marker row if a walk under a filter met too few.

    ``walk``: rows of (item_id, score) in the order of an index, including archived items; ``of``: the score of one.
    """
    if matches is None:
        walk = walk.where(pieces.passes_filter(request, walk.selected_columns[0], is_active=True))
        return [pieces.rows_of(leg, pieces.materialized(walk.limit(pieces.DEPTH), leg))]
    met = pieces.materialized(walk.where(sa.not_(matches.are_few)).limit(pieces.REACH), f"{leg}_walk")
    passing = sa.select(met.c.item_id, met.c.score).where(pieces.passes_filter(request, met.c.item_id, is_active=True))
    kept = pieces.materialized(passing.limit(pieces.DEPTH), f"{leg}_of_walk")
    few = pieces.materialized(_best_of_few(matches, leg, of), f"{leg}_of_few")
    # The walk is completed only if it kept too few.
    enough, all_met = pieces.count_of(kept) >= pieces.DEPTH, pieces.count_of(met) >= pieces.REACH
    is_short = sa.case((sa.or_(matches.are_few, enough), sa.false()), else_=all_met)
    return [pieces.rows_of(leg, kept), pieces.rows_of(leg, few), pieces.too_few_found(is_short)]


def ordered_settings(request: CandidateRequest) -> Mapping[str, str]:
    """The settings of a search by such orders, or by words alone under a filter.

    Sorting is off so that the planner uses the index, even if it does not know yet that a table has grown. Hash joins
    are off under a filter, because matches are counted only up to a limit, and a hash is built of all rows first.
    """
    if LegName.DENSE in request.legs and ORDERED_LEGS.isdisjoint(request.legs):
        return {}
    walks = {} if ORDERED_LEGS.isdisjoint(request.legs) else {"enable_sort": "off", "jit": "off"}
    return walks if request.condition is None else {**walks, "enable_hashjoin": "off"}


def share_of_time(moment: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """A number from 0 in the year 1 to 1 in the year 9999, which orders equal scores by time."""
    seconds = sa.extract("epoch", moment).cast(sa.Double)
    within = sa.func.least(sa.func.greatest(seconds + sa.literal_column(_EARLIEST), sa.literal_column("0")),
                           sa.literal_column(_SPAN))  # fmt: skip
    return within / sa.literal_column(_SPAN, sa.Double)


def _best_of_few(matches: pieces.Matches, leg: str, score_of: ScoreOf) -> Rows:
    """The best of few matches, each looked up by its key, however many the planner expects."""
    key = matches.keys.c.item_id
    score = score_of(key).limit(1).lateral(f"{leg}_score")
    rows = sa.select(key, score.c.score).select_from(matches.keys).join(score, sa.true()).where(matches.are_few)
    return rows.order_by(score.c.score.desc(), key).limit(pieces.DEPTH)


def recent_leg(request: CandidateRequest, matches: pieces.Matches | None) -> list[Rows]:
    """Rows of ('recent', item_id, seconds since 1970)."""
    table = items.alias("latest")
    rows = _timed(request, table).with_only_columns(table.c.item_id, _seconds(table))
    walk = rows.order_by(table.c.occurred_at.desc(), table.c.item_id)

    def score_of(item_id: sa.ColumnElement[str]) -> Rows:
        item = items.alias("match_item")
        return _timed(request, item).where(item.c.item_id == item_id).with_only_columns(_seconds(item))

    return _ordered(request, matches, "recent", walk, score_of)


def _timed(request: CandidateRequest, table: sa.FromClause) -> Rows:
    return sa.select(table.c.item_id).where(
        table.c.collection_id == literal(request.collection_id), table.c.occurred_at.is_not(None)
    )


def _seconds(table: sa.FromClause) -> sa.Label[float]:
    # No index has the order of this expression, so the few matches are sorted, not searched for in an index.
    return sa.extract("epoch", table.c.occurred_at).cast(sa.Double).label("score")


_LITTLE = "0.0001"
"""The most that time adds to a base relevance; a decade adds a ten-millionth."""


def popular_leg(request: CandidateRequest, matches: pieces.Matches | None) -> list[Rows]:
    """Rows of ('popular', item_id, accesses plus a fraction that rises with time)."""
    walked = memories.alias("most_used")
    walk = _walk(request, walked, _accesses).where(walked.c.accesses > sa.literal_column("0"))
    ordered = walk.order_by(walked.c.accesses.desc(), walked.c.happened_at.desc(), walked.c.item_id)
    only = memories.c.accesses > sa.literal_column("0")
    return _ordered(request, matches, "popular", ordered, _looked_up(request, _accesses, only))


def relevant_leg(request: CandidateRequest, matches: pieces.Matches | None) -> list[Rows]:
    """Rows of ('relevant', item_id, base relevance plus up to .0001 that rises with time)."""
    walked = memories.alias("most_relevant")
    walk = _walk(request, walked, _relevance)
    ordered = walk.order_by(walked.c.base_relevance.desc(), walked.c.happened_at.desc(), walked.c.item_id)
    return _ordered(request, matches, "relevant", ordered, _looked_up(request, _relevance))


def _walk(request: CandidateRequest, table: sa.FromClause, score: Score) -> Rows:
    rows = sa.select(table.c.item_id, score(table).label("score"))
    return rows.where(table.c.collection_id == literal(request.collection_id), pieces.is_unexpired(table))


def _looked_up(request: CandidateRequest, score: Score, *only: sa.ColumnElement[bool]) -> ScoreOf:
    def score_of(item_id: sa.ColumnElement[str]) -> Rows:
        mine = memories.c.collection_id == literal(request.collection_id), memories.c.item_id == item_id
        return sa.select(score(memories).label("score")).where(*mine, pieces.is_unexpired(memories), *only)

    return score_of


def _accesses(table: sa.FromClause) -> sa.ColumnElement[Any]:
    share = share_of_time(table.c.happened_at) * sa.literal_column(MOST_OF_ONE, sa.Double)
    return table.c.accesses.cast(sa.Double) + share


def _relevance(table: sa.FromClause) -> sa.ColumnElement[Any]:
    return table.c.base_relevance + share_of_time(table.c.happened_at) * sa.literal_column(_LITTLE, sa.Double)


_MET = "10000"
"""The most of an entity's links that are compared with those of the other entities."""


def linked_leg(request: CandidateRequest, matches: pieces.Matches | None) -> list[Rows]:
    """Rows of ('linked', item_id, number of entities plus a fraction that rises with time)."""
    shared = _shared(request)
    if matches is None:
        latest = pieces.materialized(_latest(request, None), "linked_latest")
        return [_ranked(request, sa.union(sa.select(latest.c.item_id), shared))]
    most = sa.case((matches.are_few, matches.count), else_=pieces.REACH)
    latest = pieces.materialized(_latest(request, most), "linked_latest")
    walked = sa.select(latest.c.item_id)
    short = pieces.materialized(sa.select(_is_short(request, latest, most).label("is_short")), "linked_short")
    is_short = sa.select(short.c.is_short).scalar_subquery()
    every_match = sa.select(matches.keys.c.item_id).where(matches.are_few, is_short)
    return [
        _ranked(request, sa.union(walked, shared, every_match)),
        pieces.too_few_found(sa.not_(matches.are_few), is_short),
    ]


def _latest(request: CandidateRequest, most: sa.ColumnElement[int] | None) -> Rows:
    """Rows of (item_id, position of the entity): the latest matching items among the ``most`` latest of each entity."""
    entity = _entities()
    links = _links_of(request, entity)
    near = (links if most is None else links.limit(most)).subquery("near")
    passing = sa.select(near.c.item_id).where(pieces.passes_filter(request, near.c.item_id, is_active=True))
    latest = passing.limit(pieces.DEPTH).lateral("latest")
    return sa.select(latest.c.item_id, entity.c.place).join_from(entity, latest, sa.true())


def _shared(request: CandidateRequest) -> Rows:
    """The matching items that are linked to most of the entities, at least two, the latest first among equals."""
    entity = _entities()
    are_several = sa.func.cardinality(pieces.parameter("entity_ids", pieces.TEXTS)) > sa.literal_column("1")
    links = _links_of(request, entity, "happened_at").where(are_several).limit(sa.literal_column(_MET)).lateral("met")
    rows = sa.select(links.c.item_id).join_from(entity, links, sa.true()).group_by(links.c.item_id)
    most_first = sa.func.count().desc(), sa.func.max(links.c.happened_at).desc(), links.c.item_id
    several = rows.having(sa.func.count() > sa.literal_column("1")).order_by(*most_first)
    # Materialized, so that the filter is applied to the first of them, until there are enough.
    shared = pieces.materialized(several, "linked_shared")
    passing = sa.select(shared.c.item_id).where(pieces.passes_filter(request, shared.c.item_id, is_active=True))
    return sa.select(passing.limit(pieces.DEPTH).subquery("shared").c.item_id)


def _is_short(request: CandidateRequest, latest: sa.CTE, most: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Whether the walk of some entity reached its limit, and too few of the entity's items pass the filter."""
    entity = _entities()
    kept = sa.select(sa.func.count()).select_from(latest).where(latest.c.place == entity.c.place).scalar_subquery()
    met = pieces.count_of(_links_of(request, entity).limit(most).subquery("all_near"))
    # The walk is completed only if it kept too few.
    short = sa.case((kept >= pieces.ENOUGH, sa.false()), else_=met >= most)
    return sa.exists(sa.select(entity.c.place).where(short))


def _ranked(request: CandidateRequest, candidates: sa.SelectBase) -> Rows:
    """The candidates by the number of entities that they are linked to, the latest first among equals."""
    candidate = candidates.subquery("linked_candidate")
    own = _own_links(request, candidate.c.item_id)
    share = share_of_time(own.c.happened_at) * sa.literal_column(MOST_OF_ONE, sa.Double)
    score = (sa.cast(own.c.entities, sa.Double) + share).label("score")
    rows = sa.select(candidate.c.item_id, score).join_from(candidate, own, own.c.entities > sa.literal_column("0"))
    best = pieces.materialized(rows.order_by(score.desc(), candidate.c.item_id).limit(pieces.DEPTH), "linked")
    return pieces.rows_of("linked", best)


def _own_links(request: CandidateRequest, item_id: sa.ColumnElement[str]) -> sa.FromClause:
    """The number of entities that the memory is linked to, and the time of its event, looked up by its key."""
    entity, links = _entities(), memory_links.alias("own_link")
    is_linked = sa.and_(links.c.entity_type == entity.c.entity_type, links.c.entity_id == entity.c.entity_id)
    counted = sa.select(sa.func.count().label("entities"), sa.func.max(links.c.happened_at).label("happened_at"))
    own = links.c.collection_id == literal(request.collection_id), links.c.item_id == item_id
    return counted.join_from(links, entity, is_linked).where(*own).lateral("own")


def _entities() -> sa.TableValuedAlias:
    pairs = sa.func.unnest(pieces.parameter("entity_types", pieces.TEXTS), pieces.parameter("entity_ids", pieces.TEXTS))
    names = pairs.table_valued("entity_type", "entity_id", with_ordinality="place", name="entity")
    return names.render_derived()


def _links_of(request: CandidateRequest, entity: sa.TableValuedAlias, *more: str) -> Rows:
    """The items of the entity's links, the latest first, with the columns ``more``."""
    links = memory_links.alias("link")
    own = links.c.collection_id == literal(request.collection_id)
    of_entity = links.c.entity_type == entity.c.entity_type, links.c.entity_id == entity.c.entity_id
    rows = sa.select(links.c.item_id, *(links.c[name] for name in more)).where(own, *of_entity)
    return rows.order_by(links.c.happened_at.desc(), links.c.item_id).correlate(entity)
