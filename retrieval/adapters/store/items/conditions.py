"""Filters as SQL conditions, and statements that select the matching items.

The tables of declared attributes and tags, in which archived items have no rows, answer what they can; ``items`` is
read only for the remaining conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from psycopg.types.json import Jsonb
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.visitors import replacement_traverse

from retrieval.adapters.store.arrays import jsonbs
from retrieval.adapters.store.compiled import late
from retrieval.adapters.store.items import composed
from retrieval.adapters.store.items.composed import Clause, Keys, ValuesOf
from retrieval.adapters.store.learning import ratings
from retrieval.adapters.store.learning.ratings import ORDER
from retrieval.adapters.store.tables import is_searchable, items, literal
from retrieval.domain.items.attribute import AttributeType, Filterable, typed_value
from retrieval.domain.items.item import ITEM_FIELDS
from retrieval.domain.search import filters
from retrieval.domain.search.filters import Compare, Field, Filter, OneOf

HIT_COLUMNS = ITEM_FIELDS[1:]
"""The columns of a hit, in this order."""


def field_value(field: Field) -> sa.ColumnElement[Any]:
    """A field's value; for an attribute its JSON value, or NULL if the item lacks it."""
    if not field.is_attribute:
        column: sa.ColumnElement[Any] = items.c[field.name]
        return column
    attributes = sa.type_coerce(items.c.attributes, sa.types.NullType())
    if field.path:
        path = sa.bindparam(None, [field.name, *field.path], unique=True, type_=sa.types.NullType())
        return attributes.op("#>", return_type=sa.types.NullType())(path)
    name: sa.BindParameter[str] = sa.bindparam(None, field.name, unique=True, type_=sa.Text())
    return attributes.op("->", return_type=sa.types.NullType())(name)


def present_value(field: Field) -> sa.ColumnElement[Any]:
    """A field's value; NULL if the item lacks it, also where the table has an empty text or list."""
    if not field.is_attribute and field.name == "tags":
        return sa.func.nullif(items.c.tags, _NOWHERE)
    if field in _NEVER_NULL and field != _KEY:
        return sa.func.nullif(items.c[field.name], sa.literal_column("''"))
    return field_value(field)


Condition = sa.ColumnElement[Any]

# Without SQL types, so that a parameter compared with them is adapted by its own type.
_ATTRIBUTES = sa.type_coerce(items.c.attributes, sa.types.NullType())
_NOWHERE: sa.ColumnClause[Any] = sa.literal_column("'{}'")
_TAGS = sa.type_coerce(items.c.tags, sa.types.NullType())

_NEVER_NULL = [Field(name, is_attribute=False) for name in sorted(filters.TEXT_FIELDS)]


def condition(filter_: Filter, collection_id: int, filterable: Filterable = ()) -> Condition:
    """The filter as an SQL condition on a row of ``items``. Every value is a parameter.

    The values of ``filterable`` attributes compare by their declared type; values of another type match nothing.
    """

    def of(inner: Filter) -> Condition:
        return condition(inner, collection_id, filterable)

    match filter_:
        case filters.And(several):
            return sa.and_(sa.true(), *map(of, several))
        case filters.Or(several):
            return sa.or_(sa.false(), *map(of, several))
        case filters.Not(OneOf(field, [_, *_])) if field in _NEVER_NULL:
            return sa.not_(of(filter_.filter))
        case filters.Not(inner):
            # A comparison with NULL is unknown in SQL; for a filter it is false.
            return sa.not_(sa.func.coalesce(of(inner), sa.false()))
        case filters.AllTags():
            return _TAGS.op("@>", is_comparison=True)(late(filter_, lambda leaf: list(leaf.tags)))
        case filters.Contains():
            return items.c.item_id.in_(containing(filter_, collection_id))
        case filters.Exists() | filters.Is() | filters.HasType():
            return _of_json(filter_, collection_id)
        case OneOf() | Compare():
            return _of_values(filter_, collection_id, filterable)


def containing(filter_: filters.Contains, collection_id: int) -> sa.Select[Any]:
    """The keys of the items that contain the words.

    The words' index cannot be used under a policy; the function runs with its owner's rights and checks the tenant.
    """
    matches = sa.func.items_containing(
        literal(collection_id), sa.cast(late(filter_, lambda leaf: leaf.text), sa.Text)
    ).table_valued("item_id", name="found")
    return sa.select(matches.c.item_id)


def _of_values(filter_: OneOf | Compare, collection_id: int, filterable: Filterable) -> Condition:
    if ratings.is_of_verdicts(filter_.field):
        return ratings.rated_condition(filter_, collection_id, items.c.item_id)
    if filter_.field == filters.LINKS and isinstance(filter_, OneOf) and filter_.values:
        return items.c.item_id.in_(composed.link_keys(filter_, collection_id).statement)
    values_of: ValuesOf = composed.all_values
    if kind := composed.declared_type(filter_.field, filterable):
        values = filter_.values if isinstance(filter_, OneOf) else (filter_.value,)
        if all(typed_value(kind, value) is None for value in values):
            return sa.false()
        if kind is AttributeType.TIME:
            return _of_times(filter_, collection_id)
        values_of = partial(composed.fitting, kind=kind)
    return _one_of(filter_, values_of) if isinstance(filter_, OneOf) else _compare(filter_)


def _of_times(filter_: OneOf | Compare, collection_id: int) -> Condition:
    """The condition by the index of instants or, for archived items, which the index lacks, by their own texts."""
    kind, attribute = AttributeType.TIME, field_value(filter_.field)

    def instants(leaf: OneOf) -> list[object]:
        return [composed.index_value(kind, value) for value in composed.fitting(leaf, kind)]

    if isinstance(filter_, Compare):
        indexed = composed.range_keys([filter_], kind, collection_id)
        instant = sa.func.attribute_time(attribute.op("#>>", return_type=sa.Text())(_NOWHERE))
        is_meant = ORDER[filter_.operator](instant, late(filter_, lambda leaf: composed.index_value(kind, leaf.value)))
    else:
        indexed = composed.attribute_keys(filter_, kind, collection_id)
        has_times = sa.func.attribute_times(attribute, type_=sa.types.NullType())
        is_meant = has_times.op("&&", is_comparison=True)(late(filter_, instants))
    return sa.or_(items.c.item_id.in_(indexed.statement), sa.and_(sa.not_(is_searchable), is_meant))


def _of_json(filter_: filters.Exists | filters.Is | filters.HasType, collection_id: int) -> Condition:
    match filter_:
        case filters.Exists(field) if field == filters.LINKS:
            return items.c.item_id.in_(composed.linked_keys(collection_id).statement)
        case filters.Exists(field):
            return _exists(field)
        case filters.Is(field):
            return field_value(field) == sa.cast(late(filter_, lambda leaf: leaf.json), JSONB)
        case filters.HasType(field, json_type):
            return _has_type(field_value(field), json_type)


def _one_of(filter_: OneOf, values_of: ValuesOf) -> Condition:
    name = filter_.field.name
    if not filter_.values:
        return sa.false()
    if not filter_.field.is_attribute:
        if name == "tags":
            return _TAGS.op("&&", is_comparison=True)(late(filter_, values_of))
        return composed.is_one_of(items.c[name], filter_, values_of)
    attribute = field_value(filter_.field)
    is_value = attribute == sa.func.any(late(filter_, lambda leaf: jsonbs(values_of(leaf))))
    if filter_.field.path:
        in_list = attribute.op("@>", is_comparison=True)
        return sa.or_(
            is_value, in_list(sa.func.any(late(filter_, lambda leaf: jsonbs([value] for value in values_of(leaf)))))
        )
    in_list = _ATTRIBUTES.op("@>", is_comparison=True)
    return sa.or_(
        is_value, in_list(sa.func.any(late(filter_, lambda leaf: jsonbs({name: [value]} for value in values_of(leaf)))))
    )


def _compare(filter_: Compare) -> Condition:
    order, field = ORDER[filter_.operator], filter_.field
    if not field.is_attribute:
        result: Condition = order(present_value(field), late(filter_, lambda leaf: leaf.value))
        return result
    # JSON also orders values of different types; a filter compares only values of one type.
    attribute = field_value(field)
    if isinstance(filter_.value, str | datetime):
        text = sa.collate(attribute.op("#>>", return_type=sa.Text())(_NOWHERE), "C")
        return sa.and_(_has_type(attribute, "string"), order(text, late(filter_, lambda leaf: str(leaf.value))))
    return sa.and_(_has_type(attribute, "number"), order(attribute, late(filter_, lambda leaf: Jsonb(leaf.value))))


def _has_type(attribute: sa.ColumnElement[Any], name: str) -> Condition:
    return sa.func.jsonb_typeof(attribute) == sa.literal_column(f"'{name}'")


def _exists(field: Field) -> Condition:
    if field.path:
        return field_value(field).is_not(None)
    if field.is_attribute:
        return sa.not_(_has_type(field_value(field), "null"))
    if ratings.is_of_verdicts(field):
        return sa.true()
    return items.c[field.name] != "" if field in _NEVER_NULL else present_value(field).is_not(None)


_KEY = Field("item_id", is_attribute=False)
_MATCHED_TAGS = Field("tags", is_attribute=False)


@dataclass(slots=True)
class _Demands:
    """The conditions that a filter requires, by the index that can answer them."""

    keys: list[Keys] = field(default_factory=list)
    of_key: list[Filter] = field(default_factory=list)
    """Conditions on ``item_id`` only, which every table has."""
    others: list[Filter] = field(default_factory=list)

    @property
    def is_indexed(self) -> bool:
        """Whether an index selects the items."""
        return bool(self.keys) or any(isinstance(part, OneOf) for part in self.of_key)


def matching(
    collection_id: int,
    filter_: Filter,
    filterable: Filterable = (),
    *,
    looks_up: bool = False,
    most: sa.ColumnElement[int] | None = None,
) -> sa.Select[Any]:
    """The keys (``item_id``) of the matching items, each once; ``filterable`` are the attributes with an index.

    Archived items are not among them. The statement contains the collection's number as text, because the planner
    needs it to estimate the collection's size. ``looks_up``: look up each item in the other tables instead of joining
    them. This costs a little more than the best join, but avoids the worst, which compares all rows with all if the
    planner still expects few rows in a collection that has just grown. ``most``: the number of keys that are enough.
    """
    demands = _demands(filter_, collection_id, filterable)
    if most is None:
        return _statement(demands, collection_id, filterable, looks_up=looks_up)
    if len(demands.keys) == 1 and not demands.others and not demands.of_key and demands.keys[0].at_most is not None:
        return demands.keys[0].at_most(most)
    return _statement(demands, collection_id, filterable, looks_up=looks_up).limit(most)


def any_matching(collection_id: int, filter_: Filter, filterable: Filterable = ()) -> sa.ColumnElement[Any]:
    """Any of the matching keys, read once, for an equality with a column.

    In a join, the planner would compare all rows with all in a collection that has just grown.
    """
    keys = matching(collection_id, filter_, filterable, looks_up=True)
    return sa.func.any(sa.func.array(keys.scalar_subquery()))


def is_among(
    collection_id: int, filter_: Filter, filterable: Filterable, item_id: sa.ColumnElement[str]
) -> Condition | None:
    """Whether an item is active and matches, looked up for each row in indexes of keys.

    None if these indexes cannot tell: then the item itself has to be read.
    """
    demands = _demands(filter_, collection_id, filterable)
    if demands.others or demands.of_key or not all(keys.can_look_up for keys in demands.keys):
        return None
    if not any(keys.are_active for keys in demands.keys):
        return None
    return sa.and_(*(keys.has(item_id) for keys in demands.keys))


def _demands(filter_: Filter, collection_id: int, filterable: Filterable) -> _Demands:
    demands = _Demands()
    ranges: dict[Field, list[Compare]] = {}
    parts = list(composed.conjuncts(filter_))
    if of_facets := _facet_clauses(parts, filterable):
        demands.keys.append(
            composed.facet_keys([clause for own in of_facets.values() for clause in own], collection_id)
        )
        parts = [part for part in parts if id(part) not in of_facets]
    for part in parts:
        if isinstance(part, Compare) and _type_of(part, filterable) is not None:
            ranges.setdefault(part.field, []).append(part)
        elif isinstance(part, filters.AllTags):
            demands.keys.extend(composed.every_tag_keys(part, collection_id))
        elif (keys := _keys(part, collection_id, filterable)) is not None:
            demands.keys.append(keys)
        elif _is_of_key(part):
            demands.of_key.append(part)
        else:
            demands.others.append(part)
    for bounds in ranges.values():
        kind = _type_of(bounds[0], filterable)
        if kind is not None:
            demands.keys.append(composed.range_keys(bounds, kind, collection_id))
    demands.keys.sort(key=lambda keys: (not keys.are_active, not keys.once))
    return demands


def _facet_clauses(parts: Sequence[Filter], filterable: Filterable) -> dict[int, list[Clause]]:
    """The clauses of those filters that facets decide about, by ``id``; none without an undeclared attribute.

    One scan of the index of facets intersects all clauses. Fields that have an index of their own are narrower there.
    """
    clauses = {id(part): own for part in parts if (own := composed.clauses_of(part, filterable)) is not None}
    needs_facets = [part for part in parts if isinstance(part, OneOf) and composed.has_facets(part.field, filterable)]
    return clauses if any(id(part) in clauses for part in needs_facets) else {}


def _type_of(filter_: OneOf | Compare, filterable: Filterable) -> AttributeType | None:
    """The attribute's declared type, if its index answers the condition completely."""
    kind = composed.declared_type(filter_.field, filterable)
    return kind if kind is not None and composed.is_indexed(filter_, kind) else None


def _statement(
    demands: _Demands, collection_id: int, filterable: Filterable, *, looks_up: bool = False
) -> sa.Select[Any]:
    if demands.keys and demands.keys[0].are_active and not demands.others:
        first, *other_keys = demands.keys
        statement = first.statement if first.once else first.statement.distinct()
    else:
        other_keys = demands.keys
        statement = _active_items(collection_id).where(
            *(_of_all_items(part, collection_id, filterable, looks_up=looks_up) for part in demands.others)
        )
    key = statement.selected_columns[0]
    return statement.where(
        *(keys.has(key) if looks_up and keys.can_look_up else keys.hold(key) for keys in other_keys),
        *(_about(condition(part, collection_id), key) for part in demands.of_key),
    )


def _of_all_items(filter_: Filter, collection_id: int, filterable: Filterable, *, looks_up: bool) -> Condition:
    if not looks_up and isinstance(filter_, OneOf | Compare) and ratings.lets_unrated_through(filter_):
        return ratings.no_verdicts_against(filter_, collection_id, items.c.item_id)
    return condition(filter_, collection_id, filterable)


def _active_items(collection_id: int) -> sa.Select[Any]:
    rows = sa.select(items.c.item_id).where(items.c.collection_id == literal(collection_id), is_searchable)
    return rows.correlate(None)


def _about(condition_: Condition, key: sa.ColumnElement[Any]) -> Condition:
    """The condition on ``items.item_id``, applied to another table's key."""

    def replace(element: object, **_: object) -> sa.ColumnElement[Any] | None:
        return key if element is items.c.item_id else None

    return replacement_traverse(condition_, {}, replace)


def _keys(filter_: Filter, collection_id: int, filterable: Filterable) -> Keys | None:
    """The items that match the filter, if indexes alone can tell."""
    match filter_:
        case filters.Contains():
            return Keys(containing(filter_, collection_id).correlate(None), once=False)
        case OneOf(field=name, values=[_, *_]) if name == _MATCHED_TAGS:
            return composed.tag_keys(filter_, collection_id)
        case OneOf(field=name, values=[_, *_]) if name == filters.LINKS:
            return composed.link_keys(filter_, collection_id)
        case OneOf() | Compare() if (of_unrated := ratings.lets_unrated_through(filter_)) is not None:
            return (
                None if of_unrated else Keys(ratings.rated_items(filter_, collection_id), once=True, are_active=False)
            )
        case OneOf():
            kind = _type_of(filter_, filterable)
            if kind is not None:
                return composed.attribute_keys(filter_, kind, collection_id)
            clause = composed.attribute_clause(filter_, filterable)
            return None if clause is None else composed.facet_keys([clause], collection_id)
        case filters.Or([_, *_] as several):
            return _any_of([_demands(part, collection_id, filterable) for part in several], collection_id, filterable)
        case _:
            return None


def _any_of(branches: list[_Demands], collection_id: int, filterable: Filterable) -> Keys | None:
    if not all(branch.is_indexed for branch in branches):
        return None
    either = sa.union(*(_statement(branch, collection_id, filterable) for branch in branches)).subquery()
    return Keys(sa.select(either.c.item_id).correlate(None), once=True)


def _is_of_key(filter_: Filter) -> bool:
    match filter_:
        case filters.And(several) | filters.Or(several):
            return all(map(_is_of_key, several))
        case filters.Not(inner):
            return _is_of_key(inner)
        case OneOf(field=name) | Compare(field=name) | filters.Exists(field=name):
            return name == _KEY
        case _:
            return False
