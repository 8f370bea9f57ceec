"""The leg of the memories that are linked to what the question is about.

Of each entity the latest memories are taken, as many as the leg may bring; those that more of the entities are linked
to come first, the latest first among equals. Under a filter an entity's memories are walked no further than there are
matches to look up, where those are few, or than any walk goes. Where that meets too few, every match is looked up.
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
    is_wanted,
    literal,
    materialized,
    named,
    parameter,
)
from retrieval.adapters.store.tables import memory_links

_TEXTS = ARRAY(sa.Text)

Part = sa.Select[Any]


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
    """Rows of (item_id, place of the entity): of each entity the latest that are wanted, among so many at the most."""
    entity = _entities()
    links = _links_of(request, entity)
    near = (links if most is None else links.limit(most)).subquery("near")
    wanted = sa.select(near.c.item_id).where(is_wanted(request, near.c.item_id, is_active=True))
    latest = wanted.limit(parameter("depth", sa.BigInteger)).lateral("latest")
    return sa.select(latest.c.item_id, entity.c.place).join_from(entity, latest, sa.true())


def _is_short(request: CandidateRequest, latest: sa.CTE, most: sa.ColumnElement[int]) -> sa.ColumnElement[bool]:
    """Whether of some entity a walk brought as many as it may, and too few of them are wanted."""
    entity = _entities()
    kept = sa.select(sa.func.count()).select_from(latest).where(latest.c.place == entity.c.place).scalar_subquery()
    links = _links_of(request, entity).limit(most).subquery("all_near")
    met = sa.select(sa.func.count()).select_from(links).scalar_subquery()
    # Walked to its end only where too few are kept.
    short = sa.case((kept >= parameter("enough", sa.BigInteger), sa.false()), else_=met >= most)
    return sa.exists(sa.select(entity.c.place).where(short))


def _ranked(request: CandidateRequest, candidates: sa.SelectBase) -> Part:
    """The candidates by how many of the entities they are linked to, the latest first among equals."""
    one = candidates.subquery("linked_candidate")
    own = _own_links(request, one.c.item_id)
    share = share_of_time(own.c.happened_at) * sa.literal_column(MOST_OF_ONE, sa.Double)
    score = (sa.cast(own.c.entities, sa.Double) + share).label("score")
    rows = sa.select(one.c.item_id, score).join_from(one, own, own.c.entities > sa.literal_column("0"))
    best = materialized(rows.order_by(score.desc(), one.c.item_id).limit(parameter("depth", sa.BigInteger)), "linked")
    return sa.select(named("linked"), best.c.item_id, best.c.score)


def _own_links(request: CandidateRequest, item_id: sa.ColumnElement[str]) -> sa.FromClause:
    """How many of the entities the memory is linked to, looked up by its key, and when it happened."""
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
