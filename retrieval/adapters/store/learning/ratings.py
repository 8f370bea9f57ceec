"""An item's rating by its verdicts in all contexts: as a number, and as a filter."""

from __future__ import annotations

from operator import ge, gt, le, lt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from retrieval.adapters.store.compiled import late
from retrieval.adapters.store.tables import arms
from retrieval.domain.learning.arm import NO_ARM, rate
from retrieval.domain.learning.context import ANYWHERE
from retrieval.domain.search.filters import NUMBER_FIELDS, Compare, Field, Filter, OneOf

UNRATED = sa.literal_column("0.5", sa.Double)
"""The rating of an item without verdicts."""

_ORDER = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
_OF_NONE = {"verdict_rating": rate(NO_ARM.raw_successes, NO_ARM.uses), "verdict_count": NO_ARM.uses}


def rating(table: sa.FromClause) -> sa.ColumnElement[Any]:
    """(raw_successes + 1) / (uses + 2) of a row of ``arms``."""
    successes = sa.cast(table.c.raw_successes + sa.literal_column("1"), sa.Double)
    return successes / sa.cast(table.c.uses + sa.literal_column("2"), sa.Double)


def anywhere(collection_id: int, table: sa.FromClause = arms) -> sa.ColumnElement[bool]:
    """The condition that a row of ``arms`` is of the collection, and of all contexts together."""
    owner = sa.literal_column(str(int(collection_id)), sa.BigInteger)
    return sa.and_(table.c.collection_id == owner, table.c.context == sa.literal_column(f"'{ANYWHERE}'"))


def is_of_verdicts(field: Field) -> bool:
    """True if the verdicts on an item tell the field."""
    return not field.is_attribute and field.name in NUMBER_FIELDS


def lets_unrated_through(wanted: Filter) -> bool | None:
    """True if items without verdicts pass a filter on verdicts; None for any other filter."""
    match wanted:
        case OneOf(field, values) if is_of_verdicts(field):
            return _OF_NONE[field.name] in values
        case Compare(field, operator, value) if is_of_verdicts(field):
            return bool(_ORDER[operator](_OF_NONE[field.name], value))
        case _:
            return None


def rated_items(wanted: OneOf | Compare, collection_id: int) -> sa.Select[Any]:
    """The keys of the items that have verdicts and pass, archived ones too."""
    table = arms.alias()
    passing = _passes(wanted, _value(wanted.field, table))
    return sa.select(table.c.item_id).where(anywhere(collection_id, table), passing).correlate(None)


def no_verdicts_against(
    wanted: OneOf | Compare, collection_id: int, item_id: sa.ColumnElement[str]
) -> sa.ColumnElement[bool]:
    """The same where items without verdicts pass, as a join: for a look at all items, not at one."""
    table = arms.alias()
    fails = sa.not_(_passes(wanted, _value(wanted.field, table)))
    return ~sa.exists(
        sa.select(sa.literal_column("1")).where(anywhere(collection_id, table), table.c.item_id == item_id, fails)
    )


def rated_condition(
    wanted: OneOf | Compare, collection_id: int, item_id: sa.ColumnElement[str]
) -> sa.ColumnElement[bool]:
    """The condition that an item passes, looked up by its key; an item without verdicts too."""
    table = arms.alias()
    mine = sa.select(_value(wanted.field, table)).where(anywhere(collection_id, table), table.c.item_id == item_id)
    none = sa.literal_column(str(_OF_NONE[wanted.field.name]), sa.Double)
    return _passes(wanted, sa.func.coalesce(mine.limit(1).scalar_subquery(), none))


def _value(field: Field, table: sa.FromClause) -> sa.ColumnElement[Any]:
    return rating(table) if field.name == "verdict_rating" else sa.cast(table.c.uses, sa.Double)


def _passes(wanted: OneOf | Compare, value: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    if isinstance(wanted, OneOf):
        return value == sa.func.any(sa.cast(late(wanted, lambda leaf: list(map(float, leaf.values))), ARRAY(sa.Double)))
    result: sa.ColumnElement[bool] = _ORDER[wanted.operator](value, sa.cast(late(wanted, _bound), sa.Double))
    return result


def _bound(wanted: Compare) -> float:
    return float(str(wanted.value))
