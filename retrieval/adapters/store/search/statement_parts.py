"""The small parts that the statement of a search is put together from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql import visitors
from sqlalchemy.sql.util import ClauseAdapter

from retrieval.adapters.store.items.conditions import condition, is_among, matching
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.adapters.store.tables import items
from retrieval.domain.search.filters import Filter
from retrieval.domain.search.hit import Path


@dataclass(frozen=True, slots=True)
class Matches:
    """The items that the filter lets through, found once for all legs."""

    keys: sa.CTE
    """Their ``item_id``; where an index may be walked, no more than one above ``few``."""
    count: sa.ScalarSelect[int]
    """The number of keys."""
    are_few: sa.ColumnElement[bool]
    """Whether the keys are complete, and few enough to look up each."""


def matches_of(request: CandidateRequest) -> Matches | None:
    """The items that the request's filter lets through; None without a filter."""
    if request.condition is None:
        return None
    most = parameter("few", sa.BigInteger) + 1 if request.path is Path.APPROXIMATE else None
    statement = matching(
        request.collection_id, request.condition, request.filterable, looks_up=request.is_small, most=most
    )
    keys = materialized(statement, "matching")
    # Counted once, in a part of its own, however many ask.
    number = materialized(sa.select(sa.func.count().label("matches")).select_from(keys), "counted")
    count = sa.select(number.c.matches).scalar_subquery()
    return Matches(keys, count, count <= parameter("few", sa.BigInteger))


def literal(collection_id: int) -> sa.ColumnElement[int]:
    """The collection's number as it stands in the text, where partial indexes and the planner see it."""
    return sa.literal_column(str(int(collection_id)), sa.BigInteger)


def parameter(
    name: str, kind: sa.types.TypeEngine[Any] | type[sa.types.TypeEngine[Any]] | None = None
) -> sa.ColumnElement[Any]:
    """A parameter that is bound for each search; cast where the place alone does not tell its type."""
    bound: sa.BindParameter[Any] = sa.bindparam(name, type_=sa.types.NullType())
    return bound if kind is None else sa.cast(bound, kind)


def materialized(statement: sa.Select[Any] | sa.CompoundSelect[Any], name: str) -> sa.CTE:
    """A part that is computed once, on its own."""
    return statement.cte(name).prefix_with("MATERIALIZED", dialect="postgresql")


def count_of(rows: sa.CTE) -> sa.ScalarSelect[int]:
    """The number of rows of a part."""
    return sa.select(sa.func.count()).select_from(rows).scalar_subquery()


def account(what: str, how_many: sa.ColumnElement[Any], *conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """A row among the candidates' that tells a number of the search itself."""
    return sa.select(
        sa.literal_column(f"'{what}'").label("leg"),
        sa.literal_column("''").label("item_id"),
        sa.cast(how_many, sa.Double).label("score"),
    ).where(*conditions)


def named(leg: str) -> sa.Label[str]:
    """The leg's name, as a candidate's first column."""
    return sa.literal_column(f"'{leg}'").label("leg")


def is_wanted(
    request: CandidateRequest, item_id: sa.ColumnElement[str], *, is_active: bool = False
) -> sa.ColumnElement[bool]:
    """Whether the filter lets the item through, looked up by its key.

    ``is_active``: and whether it is not archived, for keys of a table that archived items stay in.
    """
    wanted: Filter | None = request.condition
    if wanted is None and not is_active:
        return sa.true()
    known = None if wanted is None else is_among(request.collection_id, wanted, request.filterable, item_id)
    if known is not None:
        return known
    allowed = sa.true() if wanted is None else condition(wanted, request.collection_id, request.filterable)
    if is_active:
        allowed = sa.and_(items.c.status != sa.literal_column("'archived'"), allowed)
    asked = {
        column.name for column in visitors.iterate(allowed) if isinstance(column, sa.Column) and column.table is items
    }
    # A limit keeps it a look-up by the key alone, for each row: it cannot become a join that reads the whole collection
    # first, nor can a filter on keys, with thousands of them, be looked up in the index once more for every row.
    row = (
        sa.select(*(items.c[name] for name in sorted(asked or {"item_id"})))
        .where(items.c.collection_id == literal(request.collection_id), items.c.item_id == item_id)
        .correlate(*sa.select(item_id).get_final_froms())
        .limit(1)
        .subquery("met")
    )
    within: sa.ColumnElement[bool] = ClauseAdapter(row).traverse(allowed)
    look_up: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(row).where(within)
    return look_up.scalar_subquery() == sa.literal_column("1")
