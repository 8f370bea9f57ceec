"""The small pieces from which the statement of a search is composed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql import visitors
from sqlalchemy.sql.util import ClauseAdapter

from retrieval.adapters.store.items.conditions import condition, is_among, matching
from retrieval.adapters.store.search.candidate_request import CandidateRequest
from retrieval.adapters.store.tables import is_searchable, items, literal
from retrieval.domain.search.filters import Filter
from retrieval.domain.search.hit import Path

Rows = sa.Select[Any]
TEXTS = ARRAY(sa.Text)


@dataclass(frozen=True, slots=True)
class Matches:
    """The items that pass the filter, found once for all legs."""

    keys: sa.CTE
    """Their ``item_id``; if an index may be walked, at most ``few`` + 1 of them."""
    count: sa.ScalarSelect[int]
    are_few: sa.ColumnElement[bool]
    """Whether the keys are complete and few enough to look up each item."""


def matches_of(request: CandidateRequest) -> Matches | None:
    """The items that pass the request's filter; None without a filter."""
    if request.condition is None:
        return None
    most = FEW + 1 if request.path is Path.APPROXIMATE else None
    statement = matching(
        request.collection_id, request.condition, request.filterable, looks_up=request.is_small, most=most
    )
    keys = materialized(statement, "matching")
    # A CTE of its own, so that the keys are counted once for all readers.
    number = materialized(sa.select(sa.func.count().label("matches")).select_from(keys), "counted")
    count = sa.select(number.c.matches).scalar_subquery()
    return Matches(keys, count, count <= FEW)


def parameter(
    name: str, kind: sa.types.TypeEngine[Any] | type[sa.types.TypeEngine[Any]] | None = None
) -> sa.ColumnElement[Any]:
    """A parameter that is bound for each search; cast if the type does not follow from the context."""
    bound: sa.BindParameter[Any] = sa.bindparam(name, type_=sa.types.NullType())
    return bound if kind is None else sa.cast(bound, kind)


DEPTH, ENOUGH, FEW, REACH = (parameter(name, sa.BigInteger) for name in ("depth", "enough", "few", "reach"))
"""The numbers of ``CandidateRequest``."""


def materialized(statement: sa.Select[Any] | sa.CompoundSelect[Any], name: str) -> sa.CTE:
    """A CTE that is computed once, on its own."""
    return statement.cte(name).prefix_with("MATERIALIZED", dialect="postgresql")


def count_of(rows: sa.CTE | sa.Subquery) -> sa.ScalarSelect[int]:
    """The number of rows."""
    return sa.select(sa.func.count()).select_from(rows).scalar_subquery()


def count_row(name: str, number: sa.ColumnElement[Any], *conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """A row among the candidates' rows with a number about the search, under the conditions."""
    item_id, score = quoted("").label("item_id"), sa.cast(number, sa.Double).label("score")
    return sa.select(named(name), item_id, score).where(*conditions)


def too_few_found(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """A row, under the conditions, that says that a walk which reached its limit met too few."""
    return count_row("too_few_found", sa.literal_column("1"), *conditions)


def rows_of(leg: str, rows: sa.FromClause) -> sa.Select[Any]:
    """The rows (item_id, score, ...) as candidates of the leg."""
    return sa.select(named(leg), rows.c.item_id, rows.c.score)


def named(leg: str) -> sa.Label[str]:
    """The leg's name, the first column of a candidate."""
    return quoted(leg).label("leg")


def quoted(name: str) -> sa.ColumnElement[str]:
    """The name of a row as a part of the text; empty: the item id of a row about the search."""
    return sa.literal_column(f"'{name}'")


def passes_filter(
    request: CandidateRequest, item_id: sa.ColumnElement[str], *, is_active: bool = False
) -> sa.ColumnElement[bool]:
    """Whether the item passes the filter, looked up by its key.

    ``is_active``: and is not archived, for keys from a table that includes archived items.
    """
    own: Filter | None = request.condition
    if own is None and not is_active:
        return sa.true()
    by_key = None if own is None else is_among(request.collection_id, own, request.filterable, item_id)
    if by_key is not None:
        return by_key
    allowed = sa.true() if own is None else condition(own, request.collection_id, request.filterable)
    if is_active:
        allowed = sa.and_(is_searchable, allowed)
    names = {
        column.name for column in visitors.iterate(allowed) if isinstance(column, sa.Column) and column.table is items
    }
    # The limit makes it a look-up by key for each row: it cannot become a join that reads the whole collection first,
    # and a filter with thousands of keys is not looked up in the index again for every row.
    columns = (items.c[name] for name in sorted(names or {"item_id"}))
    own_row = items.c.collection_id == literal(request.collection_id), items.c.item_id == item_id
    found = sa.select(*columns).where(*own_row).correlate(*sa.select(item_id).get_final_froms())
    row = found.limit(1).subquery("met")
    within: sa.ColumnElement[bool] = ClauseAdapter(row).traverse(allowed)
    look_up: sa.Select[Any] = sa.select(sa.literal_column("1")).select_from(row).where(within)
    return look_up.scalar_subquery() == sa.literal_column("1")


def is_unexpired(table: sa.FromClause) -> sa.ColumnElement[bool]:
    """Whether the memory has not expired by ``now``; true if ``now`` is NULL."""
    now = parameter("now", sa.DateTime(timezone=True))
    return sa.or_(now.is_(None), table.c.expires_at.is_(None), table.c.expires_at > now)
