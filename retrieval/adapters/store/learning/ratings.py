"""An item's rating by its verdicts in all contexts: as a number, and as a filter."""

from __future__ import annotations

from operator import ge, gt, le, lt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from retrieval.adapters.store.compiled import late
from retrieval.adapters.store.tables import arms, literal
from retrieval.domain.learning.arm import NO_ARM, rate
from retrieval.domain.learning.context import ANYWHERE
from retrieval.domain.search.filters import NUMBER_FIELDS, Compare, Field, Filter, OneOf

UNRATED = sa.literal_column("0.5", sa.Double)
"""The rating of an item without verdicts."""

ORDER = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
"""The comparisons by the operators of a filter; they compare values and compose conditions."""

_WITHOUT_VERDICTS = {"verdict_rating": rate(NO_ARM.raw_successes, NO_ARM.uses), "verdict_count": NO_ARM.uses}


def rating(table: sa.FromClause) -> sa.ColumnElement[Any]:
    """(raw_successes + 1) / (uses + 2) of a row of ``arms``."""
    successes = sa.cast(table.c.raw_successes + sa.literal_column("1"), sa.Double)
    return successes / sa.cast(table.c.uses + sa.literal_column("2"), sa.Double)


def anywhere(collection_id: int, table: sa.FromClause = arms) -> sa.ColumnElement[bool]:
    """The condition that a row of ``arms`` belongs to the collection and counts all contexts."""
    return sa.and_(
        table.c.collection_id == literal(collection_id), table.c.context == sa.literal_column(f"'{ANYWHERE}'")
    )


def is_of_verdicts(field: Field) -> bool:
    """Whether the field is computed from the verdicts on an item."""
    return not field.is_attribute and field.name in NUMBER_FIELDS


def lets_unrated_through(filter_: Filter) -> bool | None:
    """Whether items without verdicts match a filter on verdicts; None for any other filter."""
    match filter_:
        case OneOf(field, values) if is_of_verdicts(field):
            return _WITHOUT_VERDICTS[field.name] in values
        case Compare(field, operator, value) if is_of_verdicts(field):
            return bool(ORDER[operator](_WITHOUT_VERDICTS[field.name], value))
        case _:
            return None


def rated_items(filter_: OneOf | Compare, collection_id: int) -> sa.Select[Any]:
    """The keys of the items with verdicts that match, archived ones too."""
    table = arms.alias()
    passing = _matches(filter_, _value(filter_.field, table))
    return sa.select(table.c.item_id).where(anywhere(collection_id, table), passing).correlate(None)


def no_verdicts_against(
    filter_: OneOf | Compare, collection_id: int, item_id: sa.ColumnElement[str]
) -> sa.ColumnElement[bool]:
    """The condition that an item matches, if items without verdicts do, as an anti-join: for reading all items."""
    table = arms.alias()
    fails = sa.not_(_matches(filter_, _value(filter_.field, table)))
    return ~sa.exists(
        sa.select(sa.literal_column("1")).where(anywhere(collection_id, table), table.c.item_id == item_id, fails)
    )


def rated_condition(
    filter_: OneOf | Compare, collection_id: int, item_id: sa.ColumnElement[str]
) -> sa.ColumnElement[bool]:
    """The condition that an item matches, with or without verdicts, looked up by its key."""
    table = arms.alias()
    value = sa.select(_value(filter_.field, table)).where(anywhere(collection_id, table), table.c.item_id == item_id)
    default = sa.literal_column(str(_WITHOUT_VERDICTS[filter_.field.name]), sa.Double)
    return _matches(filter_, sa.func.coalesce(value.limit(1).scalar_subquery(), default))


def _value(field: Field, table: sa.FromClause) -> sa.ColumnElement[Any]:
    return rating(table) if field.name == "verdict_rating" else sa.cast(table.c.uses, sa.Double)


def _matches(filter_: OneOf | Compare, value: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    if isinstance(filter_, OneOf):
        return value == sa.func.any(
            sa.cast(late(filter_, lambda leaf: list(map(float, leaf.values))), ARRAY(sa.Double))
        )
    result: sa.ColumnElement[bool] = ORDER[filter_.operator](
        value, sa.cast(late(filter_, lambda leaf: float(str(leaf.value))), sa.Double)
    )
    return result
