"""Filters as conditions in SQL, and how the items that match are found.

What is demanded of declared attributes and tags is answered by their own tables, in which archived items have no rows;
``items`` is read only for what remains.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from psycopg.types.json import Jsonb
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.visitors import replacement_traverse

from retrieval.adapters.store.arrays import jsonbs
from retrieval.adapters.store.compiled import late
from retrieval.adapters.store.items.composed import (
    ORDER,
    Keys,
    ValuesOf,
    attribute_keys,
    declared_type,
    demanded,
    every_tag_keys,
    facet_keys,
    fitting,
    has_facets,
    is_indexed,
    is_one_of,
    keys_of,
    link_keys,
    linked_keys,
    range_keys,
    tag_keys,
)
from retrieval.adapters.store.learning.ratings import (
    is_of_verdicts,
    lets_unrated_through,
    no_verdicts_against,
    rated_condition,
    rated_items,
)
from retrieval.adapters.store.tables import items
from retrieval.domain.items.attribute import AttributeType, Filterable, typed_value
from retrieval.domain.items.item import ITEM_FIELDS
from retrieval.domain.search.filters import (
    LINKS,
    TEXT_FIELDS,
    AllTags,
    And,
    Compare,
    Contains,
    Exists,
    Field,
    Filter,
    HasType,
    Is,
    Not,
    OneOf,
    Or,
)

HIT_COLUMNS = ITEM_FIELDS[1:]
"""The columns of a hit, in this order."""


def field_value(field: Field) -> sa.ColumnElement[Any]:
    """A field's value; an attribute's as JSON says it, and nothing where there is none."""
    if not field.is_attribute:
        column: sa.ColumnElement[Any] = items.c[field.name]
        return column
    attributes = sa.type_coerce(items.c.attributes, sa.types.NullType())
    if field.path:
        path = sa.bindparam(None, [field.name, *field.path], unique=True, type_=sa.types.NullType())
        return attributes.op("#>", return_type=sa.types.NullType())(path)
    name: sa.BindParameter[str] = sa.bindparam(None, field.name, unique=True, type_=sa.Text())
    return attributes.op("->", return_type=sa.types.NullType())(name)


Condition = sa.ColumnElement[Any]

# Without their SQL types: a parameter beside them is then adapted by what it is, not cast to what they are.
_ATTRIBUTES = sa.type_coerce(items.c.attributes, sa.types.NullType())
_NOWHERE: sa.ColumnClause[Any] = sa.literal_column("'{}'")
_TAGS = sa.type_coerce(items.c.tags, sa.types.NullType())

_NEVER_NULL = [Field(name, is_attribute=False) for name in sorted(TEXT_FIELDS)]


def condition(wanted: Filter, collection_id: int, filterable: Filterable = ()) -> Condition:
    """The SQL condition that the filter says of a row of ``items``. Every value is a parameter.

    The values of ``filterable`` attributes compare by their declared type; those of another type match nothing.
    """

    def of(inner: Filter) -> Condition:
        return condition(inner, collection_id, filterable)

    match wanted:
        case And(filters):
            return sa.and_(sa.true(), *map(of, filters))
        case Or(filters):
            return sa.or_(sa.false(), *map(of, filters))
        case Not(OneOf(field, [_, *_])) if field in _NEVER_NULL:
            return sa.not_(of(wanted.filter))
        case Not(inner):
            # A comparison with nothing is unknown in SQL; here it is simply not so.
            return sa.not_(sa.func.coalesce(of(inner), sa.false()))
        case AllTags():
            return _TAGS.op("@>", is_comparison=True)(late(wanted, lambda leaf: list(leaf.tags)))
        case Contains() | Exists(Field("links", False)) | OneOf(Field("links", False), [_, *_]):
            return items.c.item_id.in_(_found_elsewhere(wanted, collection_id))
        case Exists() | Is() | HasType():
            return _of_json(wanted)
        case OneOf() | Compare():
            return _of_values(wanted, collection_id, filterable)


def _found_elsewhere(wanted: Contains | Exists | OneOf, collection_id: int) -> sa.Select[Any]:
    """The keys of the items that the filter lets through by what stands in other tables alone."""
    match wanted:
        case Contains():
            return containing(wanted, collection_id)
        case Exists():
            return linked_keys(collection_id).statement
        case OneOf():
            return link_keys(wanted, collection_id).statement


def containing(wanted: Contains, collection_id: int) -> sa.Select[Any]:
    """The keys of the items that hold the words.

    The words' index cannot be used under a policy; the function owns its rights and checks the tenant.
    """
    found = sa.func.items_containing(
        sa.literal_column(str(int(collection_id)), sa.BigInteger),
        sa.cast(late(wanted, lambda leaf: leaf.text), sa.Text),
    ).table_valued("item_id", name="found")
    return sa.select(found.c.item_id)


def _of_values(wanted: OneOf | Compare, collection_id: int, filterable: Filterable) -> Condition:
    if is_of_verdicts(wanted.field):
        return rated_condition(wanted, collection_id, items.c.item_id)
    kind = declared_type(wanted.field, filterable)
    return _declared(wanted, kind, collection_id) if kind else _compared(wanted)


def _declared(wanted: OneOf | Compare, kind: AttributeType, collection_id: int) -> Condition:
    values = wanted.values if isinstance(wanted, OneOf) else (wanted.value,)
    if all(typed_value(kind, value) is None for value in values):
        return sa.false()
    if kind is AttributeType.TIME:  # only the index knows which instant a text says
        return items.c.item_id.in_(keys_of(wanted, kind, collection_id).statement)
    return _compared(wanted, lambda leaf: fitting(leaf, kind))


def _compared(wanted: OneOf | Compare, values_of: ValuesOf = lambda leaf: list(leaf.values)) -> Condition:
    return _one_of(wanted, values_of) if isinstance(wanted, OneOf) else _compare(wanted)


def _of_json(wanted: Exists | Is | HasType) -> Condition:
    match wanted:
        case Exists(field):
            return _exists(field)
        case Is(field):
            return field_value(field) == sa.cast(late(wanted, lambda leaf: leaf.json), JSONB)
        case HasType(field, json_type):
            return _has_type(field_value(field), json_type)


def _one_of(wanted: OneOf, values_of: ValuesOf) -> Condition:
    name = wanted.field.name
    if not wanted.values:
        return sa.false()
    if not wanted.field.is_attribute:
        if name == "tags":
            return _TAGS.op("&&", is_comparison=True)(late(wanted, values_of))
        return is_one_of(items.c[name], wanted, values_of)
    attribute = field_value(wanted.field)
    is_value = attribute == sa.func.any(late(wanted, lambda leaf: jsonbs(values_of(leaf))))
    if wanted.field.path:
        in_list = attribute.op("@>", is_comparison=True)
        return sa.or_(
            is_value, in_list(sa.func.any(late(wanted, lambda leaf: jsonbs([value] for value in values_of(leaf)))))
        )
    in_list = _ATTRIBUTES.op("@>", is_comparison=True)
    return sa.or_(
        is_value,
        in_list(sa.func.any(late(wanted, lambda leaf: jsonbs({name: [value]} for value in values_of(leaf))))),
    )


def _compare(wanted: Compare) -> Condition:
    order, field = ORDER[wanted.operator], wanted.field
    if not field.is_attribute:
        result: Condition = order(items.c[field.name], late(wanted, lambda leaf: leaf.value))
        return result
    # JSON orders values of different types too; only values of one type are compared here.
    attribute = field_value(field)
    if isinstance(wanted.value, str | datetime):
        text = sa.collate(attribute.op("#>>", return_type=sa.Text())(_NOWHERE), "C")
        return sa.and_(_has_type(attribute, "string"), order(text, late(wanted, lambda leaf: str(leaf.value))))
    return sa.and_(_has_type(attribute, "number"), order(attribute, late(wanted, lambda leaf: Jsonb(leaf.value))))


def _has_type(attribute: sa.ColumnElement[Any], name: str) -> Condition:
    return sa.func.jsonb_typeof(attribute) == sa.literal_column(f"'{name}'")


def _exists(field: Field) -> Condition:
    if field.path:
        return field_value(field).is_not(None)
    if field.is_attribute:
        return _ATTRIBUTES.op("?", is_comparison=True)(sa.bindparam(None, field.name, unique=True, type_=sa.Text()))
    if field.name == "tags":
        return sa.func.cardinality(_TAGS) > 0
    if field.name in {"occurred_at", "created_at"}:
        return items.c[field.name].is_not(None)
    if is_of_verdicts(field):
        return sa.true()
    return items.c[field.name] != ""


_KEY = Field("item_id", is_attribute=False)
_MATCHED_TAGS = Field("tags", is_attribute=False)


@dataclass(slots=True)
class _Demands:
    """The demands of a filter, all of which hold, by the index that can answer them."""

    keys: list[Keys] = field(default_factory=list)
    of_key: list[Filter] = field(default_factory=list)
    """About ``item_id`` alone, which every table has."""
    others: list[Filter] = field(default_factory=list)

    @property
    def is_indexed(self) -> bool:
        """Whether an index narrows the items down."""
        return bool(self.keys) or any(isinstance(part, OneOf) for part in self.of_key)


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
    """Whether an item is active and matches, looked up for each row in indexes of keys alone.

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
    for part in demanded(wanted):
        if isinstance(part, Compare) and _type_of(part, filterable) is not None:
            ranges.setdefault(part.field, []).append(part)
        elif isinstance(part, AllTags):
            demands.keys.extend(every_tag_keys(part, collection_id))
        elif (keys := _keys(part, collection_id, filterable)) is not None:
            demands.keys.append(keys)
        elif _is_of_key(part):
            demands.of_key.append(part)
        else:
            demands.others.append(part)
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
            *(_of_all_items(part, collection_id, filterable, looks_up=looks_up) for part in demands.others)
        )
    key = statement.selected_columns[0]
    return statement.where(
        *(keys.has(key) if looks_up and keys.can_look_up else keys.hold(key) for keys in rest),
        *(_about(condition(part, collection_id), key) for part in demands.of_key),
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
        case OneOf(field=name, values=[_, *_]) if name == _MATCHED_TAGS:
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
            return _any_of([_demands(part, collection_id, filterable) for part in filters], collection_id, filterable)
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
