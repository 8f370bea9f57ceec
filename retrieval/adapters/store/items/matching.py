"""Which items a filter lets through, by the indexes that there are for it.

What is demanded of declared attributes and tags is answered by their own tables, in which archived items have no rows;
``items`` is read only for what remains.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.visitors import replacement_traverse

from retrieval.adapters.store.items.conditions import Condition, condition, containing
from retrieval.adapters.store.items.facets import demanded, facet_keys, has_facets
from retrieval.adapters.store.items.keys import (
    Keys,
    attribute_keys,
    declared_type,
    every_tag_keys,
    is_indexed,
    link_keys,
    range_keys,
    tag_keys,
)
from retrieval.adapters.store.learning.ratings import lets_unrated_through, no_verdicts_against, rated_items
from retrieval.adapters.store.tables import items
from retrieval.domain.attribute import AttributeType, Filterable
from retrieval.domain.filters import LINKS, AllTags, And, Compare, Contains, Exists, Field, Filter, Not, OneOf, Or

_KEY = Field("item_id", is_attribute=False)
_TAGS = Field("tags", is_attribute=False)


@dataclass(slots=True)
class _Demands:
    """What a filter demands all together, by what can answer it."""

    keys: list[Keys] = field(default_factory=list)
    of_key: list[Filter] = field(default_factory=list)
    """About ``item_id`` alone, which every table has."""
    others: list[Filter] = field(default_factory=list)

    @property
    def is_indexed(self) -> bool:
        """Whether an index narrows the items down."""
        return bool(self.keys) or any(isinstance(one, OneOf) for one in self.of_key)


def matching(
    collection_id: int,
    wanted: Filter,
    filterable: Filterable = (),
    *,
    looks_up: bool = False,
    most: sa.ColumnElement[int] | None = None,
) -> sa.Select[Any]:
    """The keys (``item_id``) of the matching items, each once; ``filterable`` are the attributes with an index.

    Archived items are not among them. The collection's number stands in the text: the planner's idea of its size
    needs it. ``looks_up``: what stands in tables beside is looked up for each item, not joined. It costs a little more
    than the best join, and nothing like the worst, which compares all with all where the planner takes a collection
    that has just grown for a few rows. ``most``: so many keys are enough.
    """
    demands = _demands(wanted, collection_id, filterable)
    if most is None:
        return _statement(demands, collection_id, filterable, looks_up=looks_up)
    if len(demands.keys) == 1 and not demands.others and not demands.of_key and demands.keys[0].at_most is not None:
        return demands.keys[0].at_most(most)
    return _statement(demands, collection_id, filterable, looks_up=looks_up).limit(most)


def any_matching(collection_id: int, wanted: Filter, filterable: Filterable = ()) -> sa.ColumnElement[Any]:
    """Any of the matching keys, found once, for a column to be equal to.

    Joined, the planner would compare all with all in a collection that has just grown, which it takes for a few rows.
    """
    keys = matching(collection_id, wanted, filterable, looks_up=True)
    return sa.func.any(sa.func.array(keys.scalar_subquery()))


def is_among(
    collection_id: int, wanted: Filter, filterable: Filterable, item_id: sa.ColumnElement[str]
) -> Condition | None:
    """Whether an item is active and matches, as indexes of keys alone can tell, looked up for each row.

    None where they cannot: then the item itself has to be looked at.
    """
    demands = _demands(wanted, collection_id, filterable)
    if demands.others or demands.of_key or not all(keys.can_look_up for keys in demands.keys):
        return None
    if not any(keys.are_active for keys in demands.keys):
        return None
    return sa.and_(*(keys.has(item_id) for keys in demands.keys))


def _demands(wanted: Filter, collection_id: int, filterable: Filterable) -> _Demands:
    demands = _Demands()
    ranges: dict[Field, list[Compare]] = {}
    for one in demanded(wanted):
        if isinstance(one, Compare) and _type_of(one, filterable) is not None:
            ranges.setdefault(one.field, []).append(one)
        elif isinstance(one, AllTags):
            demands.keys.extend(every_tag_keys(one, collection_id))
        elif (keys := _keys(one, collection_id, filterable)) is not None:
            demands.keys.append(keys)
        elif _is_of_key(one):
            demands.of_key.append(one)
        else:
            demands.others.append(one)
    for bounds in ranges.values():
        kind = _type_of(bounds[0], filterable)
        if kind is not None:
            demands.keys.append(range_keys(bounds, kind, collection_id))
    demands.keys.sort(key=lambda keys: (not keys.are_active, not keys.once))
    return demands


def _type_of(wanted: OneOf | Compare, filterable: Filterable) -> AttributeType | None:
    """The attribute's declared type, if its index has the whole answer."""
    kind = declared_type(wanted.field, filterable)
    return kind if kind is not None and is_indexed(wanted, kind) else None


def _statement(
    demands: _Demands, collection_id: int, filterable: Filterable, *, looks_up: bool = False
) -> sa.Select[Any]:
    if demands.keys and demands.keys[0].are_active and not demands.others:
        first, *rest = demands.keys
        statement = first.statement if first.once else first.statement.distinct()
    else:
        rest = demands.keys
        statement = _active_items(collection_id).where(
            *(_of_all_items(one, collection_id, filterable, looks_up=looks_up) for one in demands.others)
        )
    key = statement.selected_columns[0]
    return statement.where(
        *(keys.has(key) if looks_up and keys.can_look_up else keys.hold(key) for keys in rest),
        *(_about(condition(one, collection_id), key) for one in demands.of_key),
    )


def _of_all_items(wanted: Filter, collection_id: int, filterable: Filterable, *, looks_up: bool) -> Condition:
    if not looks_up and isinstance(wanted, OneOf | Compare) and lets_unrated_through(wanted):
        return no_verdicts_against(wanted, collection_id, items.c.item_id)
    return condition(wanted, collection_id, filterable)


def _active_items(collection_id: int) -> sa.Select[Any]:
    owner = sa.literal_column(str(int(collection_id)), sa.BigInteger)
    active = items.c.status != sa.literal_column("'archived'")
    return sa.select(items.c.item_id).where(items.c.collection_id == owner, active).correlate(None)


def _about(wanted: Condition, key: sa.ColumnElement[Any]) -> Condition:
    """The condition on ``items.item_id``, as one on another table's key."""

    def replaced(element: object, **_: object) -> sa.ColumnElement[Any] | None:
        return key if element is items.c.item_id else None

    return replacement_traverse(wanted, {}, replaced)


def _keys(wanted: Filter, collection_id: int, filterable: Filterable) -> Keys | None:
    """The items that the filter lets through, if indexes alone can tell."""
    match wanted:
        case Contains():
            return Keys(containing(wanted, collection_id).correlate(None), once=False)
        case OneOf(field=name, values=[_, *_]) if name == _TAGS:
            return tag_keys(wanted, collection_id)
        case OneOf(field=name, values=[_, *_]) if name == LINKS:
            return link_keys(wanted, collection_id)
        case OneOf() | Compare() if (of_unrated := lets_unrated_through(wanted)) is not None:
            return None if of_unrated else Keys(rated_items(wanted, collection_id), once=True, are_active=False)
        case OneOf():
            kind = _type_of(wanted, filterable)
            if kind is not None:
                return attribute_keys(wanted, kind, collection_id)
            return facet_keys(wanted, collection_id) if wanted.values and has_facets(wanted.field, filterable) else None
        case Or([_, *_] as filters):
            return _any_of([_demands(one, collection_id, filterable) for one in filters], collection_id, filterable)
        case _:
            return None


def _any_of(branches: list[_Demands], collection_id: int, filterable: Filterable) -> Keys | None:
    if not all(branch.is_indexed for branch in branches):
        return None
    either = sa.union(*(_statement(branch, collection_id, filterable) for branch in branches)).subquery()
    return Keys(sa.select(either.c.item_id).correlate(None), once=True)


def _is_of_key(wanted: Filter) -> bool:
    match wanted:
        case And(filters) | Or(filters):
            return all(map(_is_of_key, filters))
        case Not(inner):
            return _is_of_key(inner)
        case OneOf(field=name) | Compare(field=name) | Exists(field=name):
            return name == _KEY
        case _:
            return False
