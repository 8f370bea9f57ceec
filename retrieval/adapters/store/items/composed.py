"""Statements that are composed once for all filters of one shape, their values as keys, and by facets.

Composing a statement costs more than most searches do. A filter that differs from another only in its values has the
same statement: its parameters remember which part of the filter they stand for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import sha256
from operator import ge, gt, le, lt
from threading import Lock
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from psycopg.types.json import Jsonb
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, array

from retrieval.adapters.store.compiled import Compiled, LateValue, late, rendered
from retrieval.adapters.store.learning.ratings import lets_unrated_through
from retrieval.adapters.store.tables import attribute_numbers, attribute_texts, attribute_times, item_tags, memory_links
from retrieval.domain.items.attribute import AttributeType, Filterable, typed_value
from retrieval.domain.search.filters import (
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
    Scalar,
    extent,
)

ORDER = {"gt": gt, "gte": ge, "lt": lt, "lte": le}

INDEXED_CHARACTERS = 300
"""The length of the part of a text that the index holds (``sql/items/attributes.sql``)."""

EXACT_BELOW = 2**53
"""Whole numbers below it, and all floats, are in the index as they are; of greater ones the nearest."""

FEW_VALUES = 100
"""The most values that are passed as an array; more are passed as rows."""

ValuesOf = Callable[[Any], list[Any]]

_TABLES = {
    AttributeType.TEXT: attribute_texts,
    AttributeType.BOOLEAN: attribute_texts,
    AttributeType.NUMBER: attribute_numbers,
    AttributeType.TIME: attribute_times,
}


@dataclass(frozen=True, slots=True)
class Keys:
    """Items by their keys."""

    statement: sa.Select[Any]
    """Rows of ``item_id``."""
    once: bool
    """Whether each item appears at most once."""
    are_active: bool = True
    """Whether archived items have no rows there."""
    can_look_up: bool = False
    """Whether looking up one item's key among them is as fast as in an index of keys alone."""
    at_most: Callable[[sa.ColumnElement[int]], sa.Select[Any]] | None = None
    """The statement that stops after a number of items; None: a limit after it is as good."""

    def has(self, item_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        """Whether the item is among them, looked up for each row of what ``item_id`` is a column of."""
        mine = self.statement.selected_columns[0] == item_id
        look_up: sa.Select[Any] = self.statement.with_only_columns(sa.literal_column("1")).where(mine).limit(1)
        return look_up.correlate(*sa.select(item_id).get_final_froms()).scalar_subquery() == sa.literal_column("1")

    def hold(self, item_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        """Whether the item is among them, found once for all rows."""
        if self.at_most is None:
            return item_id.in_(self.statement)
        # The planner takes a function's rows for 1,000; as an array, each is looked up by its key.
        return item_id == sa.func.any(sa.func.array(self.statement.scalar_subquery()))


def is_one_of(column: sa.ColumnElement[Any], wanted: Filter, values_of: ValuesOf) -> sa.ColumnElement[Any]:
    """Whether the column has one of the values that ``values_of`` takes from a filter, however many there are."""
    values = values_of(wanted)
    given = late(wanted, values_of)
    if len(values) <= FEW_VALUES:
        return column == sa.func.any(given)
    # As an array, the planner would compare each of them with each of the column's common values.
    typed = sa.cast(given, ARRAY(sa.Text)) if isinstance(values[0], str) else given
    return column.in_(sa.select(sa.func.unnest(typed)).correlate(None))


def values_shape(field: Field, values: tuple[Scalar, ...], filterable: Filterable) -> Hashable:
    """The part of a plan's key for a condition on these values: how many there are, and of which kinds."""
    kind = declared_type(field, filterable)
    typed = [None if kind is None else typed_value(kind, value) for value in values]
    kinds = frozenset(
        (type(value), number is not None, _is_whole(number)) for value, number in zip(values, typed, strict=True)
    )
    different = len(set(typed) - {None})
    return kinds, _how_many(len(values)), _how_many(different)


def _how_many(number: int) -> int:
    """The number as far as it changes a plan: none, one, few, many."""
    return min(number, 2) if number <= FEW_VALUES else 3


def declared_type(field: Field, filterable: Filterable) -> AttributeType | None:
    """The declared type of an attribute; None for any other field, and for a value within an attribute."""
    return dict(filterable).get(field.name) if field.is_attribute and not field.path else None


def tag_keys(wanted: OneOf, collection_id: int) -> Keys:
    """The items that have one of the tags."""
    table = item_tags.alias()
    statement = _of(table, collection_id).where(is_one_of(table.c.tag, wanted, lambda leaf: list(leaf.values)))
    return Keys(statement, once=len(wanted.values) == 1, can_look_up=len(wanted.values) <= FEW_VALUES)


def every_tag_keys(wanted: AllTags, collection_id: int) -> list[Keys]:
    """The items that have each of the tags, apart by tag."""
    return [_tag_keys_at(wanted, place, collection_id) for place in range(len(wanted.tags))]


def _tag_keys_at(wanted: AllTags, place: int, collection_id: int) -> Keys:
    table = item_tags.alias()
    has_tag = table.c.tag == late(wanted, lambda leaf: leaf.tags[place])
    return Keys(_of(table, collection_id).where(has_tag), once=True, can_look_up=True)


def link_keys(wanted: OneOf, collection_id: int) -> Keys:
    """The memories that are linked to one of the entities, archived ones too; each entity is ``type:id``."""
    table = memory_links.alias()

    def types(leaf: OneOf) -> list[str]:
        return list(dict.fromkeys(_entity(value)[0] for value in leaf.values))

    def ids(leaf: OneOf) -> list[str]:
        return list(dict.fromkeys(_entity(value)[1] for value in leaf.values))

    statement = _of(table, collection_id).where(
        table.c.entity_type == sa.func.any(late(wanted, types)), is_one_of(table.c.entity_id, wanted, ids)
    )
    if len(wanted.values) > 1:  # a type and an id that each are wanted need not be one entity
        name = table.c.entity_type + sa.literal_column("':'") + table.c.entity_id
        statement = statement.where(is_one_of(name, wanted, lambda leaf: list(leaf.values)))
    number = len(wanted.values)
    return Keys(statement, once=number == 1, are_active=False, can_look_up=number <= FEW_VALUES)


def linked_keys(collection_id: int) -> Keys:
    """The memories that are linked to anything, archived ones too."""
    return Keys(_of(memory_links.alias(), collection_id), once=False, are_active=False)


def _entity(link: Scalar) -> tuple[str, str]:
    entity_type, _, entity_id = str(link).partition(":")
    return entity_type, entity_id


def is_indexed(wanted: OneOf | Compare, kind: AttributeType) -> bool:
    """Whether the index of that type answers the condition completely."""
    values = wanted.values if isinstance(wanted, OneOf) else (wanted.value,)
    typed = [number for number in (typed_value(kind, value) for value in values) if number is not None]
    return bool(typed) and all(map(_is_whole, typed))


def keys_of(wanted: OneOf | Compare, kind: AttributeType, collection_id: int) -> Keys:
    """The items that the condition on a declared attribute lets through."""
    if isinstance(wanted, OneOf):
        return attribute_keys(wanted, kind, collection_id)
    return range_keys([wanted], kind, collection_id)


def attribute_keys(wanted: OneOf, kind: AttributeType, collection_id: int) -> Keys:
    """The items whose attribute, or an element of it, is one of the values; those of another type do not count."""
    table, statement = _named(wanted.field, kind, collection_id)

    def typed(leaf: OneOf) -> list[object]:
        return list(dict.fromkeys(_indexed(kind, value) for value in fitting(leaf, kind)))

    number = len(typed(wanted))
    has_one = is_one_of(table.c.value, wanted, typed)
    return Keys(statement.where(has_one), once=number == 1, can_look_up=number <= FEW_VALUES)


def fitting(wanted: OneOf, kind: AttributeType) -> list[Scalar]:
    """The values that are of the declared type."""
    return [value for value in wanted.values if typed_value(kind, value) is not None]


def range_keys(wanted: Sequence[Compare], kind: AttributeType, collection_id: int) -> Keys:
    """The items whose attribute meets all these comparisons, which are about one attribute and have its type."""
    table, statement = _named(wanted[0].field, kind, collection_id)
    ordered = (
        ORDER[condition.operator](table.c.value, late(condition, lambda bound: _indexed(kind, bound.value)))
        for condition in wanted
    )
    # A list has no order; its elements are there for equality.
    return Keys(statement.where(*ordered, sa.not_(table.c.listed)), once=True, can_look_up=True)


def _named(field: Field, kind: AttributeType, collection_id: int) -> tuple[sa.FromClause, sa.Select[Any]]:
    table = _TABLES[kind].alias()
    return table, _of(table, collection_id).where(
        table.c.name == sa.bindparam(None, field.name, unique=True, type_=sa.types.NullType())
    )


def _of(table: sa.FromClause, collection_id: int) -> sa.Select[Any]:
    owner = sa.literal_column(str(int(collection_id)), sa.BigInteger)
    return sa.select(table.c.item_id).where(table.c.collection_id == owner).correlate(None)


def _is_whole(value: object) -> bool:
    if isinstance(value, str):
        return len(value) < INDEXED_CHARACTERS
    return not isinstance(value, int | float) or abs(value) < EXACT_BELOW


def _indexed(kind: AttributeType, value: Scalar) -> object:
    typed = typed_value(kind, value)
    return float(typed) if isinstance(typed, int) else typed


_TAGS = "tags"
_FIELDS = frozenset({_TAGS, "kind", "status"})
"""The fields with facets, beside attributes."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A field with the values of which an item must have one there."""

    source: OneOf | AllTags
    values_of: Callable[[Any], Sequence[Scalar]]
    """The values in ``source``, or in another filter of its shape."""

    @property
    def field(self) -> sa.ColumnElement[str]:
        """The field as its facets know it."""
        return sa.cast(late(self.source, _field_text), sa.Text)

    @property
    def wanted(self) -> sa.ColumnElement[Any]:
        """The values as a JSON array."""
        values_of = self.values_of
        return sa.cast(late(self.source, lambda leaf: Jsonb(list(values_of(leaf)))), JSONB)

    @property
    def can_be_list(self) -> bool:
        """Whether an item may have several values in the field."""
        return isinstance(self.source, AllTags) or self.source.field.is_attribute or self.source.field.name == _TAGS

    def share(self, collection_id: int, common: Mapping[str, float]) -> float:
        """The share of the items that have one of the values; 0 where none of them is known to be common."""
        field = _field_text(self.source)
        known = (common.get(facet(collection_id, field, value), 0.0) for value in self.values_of(self.source))
        return min(sum(known), 1.0)


def fields_and_values(clauses: Sequence[Clause]) -> tuple[sa.ColumnElement[Any], sa.ColumnElement[Any]]:
    """The clauses as the two arrays that the functions of facets take."""
    fields = sa.cast(array([claus.field for claus in clauses]), ARRAY(sa.Text))
    return fields, sa.cast(array([clause.wanted for clause in clauses]), ARRAY(JSONB))


def facet_clauses(wanted: Filter, filterable: Filterable = ()) -> list[Clause] | None:
    """The clauses that say all that the filter says; None where facets cannot tell."""
    clauses: list[Clause] = []
    for part in demanded(wanted):
        if isinstance(part, AllTags):
            clauses += [_tag_clause(part, place) for place in range(len(part.tags))]
        elif isinstance(part, OneOf) and (values_of := _values_of(part, filterable)) is not None:
            clauses.append(Clause(part, values_of))
        else:
            return None
    return clauses if 0 < len(clauses) <= FEW_VALUES else None


def facet_share(
    wanted: Filter, filterable: Filterable, collection_id: int, common: Mapping[str, float]
) -> float | None:
    """The share of the items that the filter lets through, as far as common facets tell (0: they do not).

    None where facets cannot tell. Clauses are taken for independent of each other.
    """
    clauses = facet_clauses(wanted, filterable)
    return None if clauses is None else math.prod(claus.share(collection_id, common) for claus in clauses)


def facet(collection_id: int, field: str, value: Scalar) -> str:
    """The facet of a value, as the function ``facet`` of the database makes it."""
    text = f"{collection_id} {_json(value)} {field}"
    return str(UUID(bytes=sha256(text.encode()).digest()[:16]))


def _json(value: Scalar) -> str:
    """The value as the database writes JSON."""
    if isinstance(value, float):
        return format(Decimal(repr(value)).normalize(), "f")
    return json.dumps(value, ensure_ascii=False)


def demanded(wanted: Filter) -> Iterator[Filter]:
    """The filters that must all let an item through."""
    match wanted:
        case And(filters):
            for part in filters:
                yield from demanded(part)
        case Or((only,)):
            yield from demanded(only)
        case _:
            yield wanted


def facet_keys(wanted: OneOf, collection_id: int) -> Keys:
    """The items whose attribute has one of the values, or a list that holds one; nothing need be declared."""
    clause = Clause(wanted, _all_values)

    def found(most: sa.ColumnElement[int]) -> sa.Select[Any]:
        owner = sa.literal_column(str(int(collection_id)), sa.BigInteger)
        rows = sa.func.items_with_facets(owner, clause.field, clause.wanted, most)
        return sa.select(rows.table_valued("item_id", name="found").c.item_id)

    return Keys(found(sa.cast(sa.null(), sa.BigInteger)), once=True, at_most=found)


def has_facets(field: Field, filterable: Filterable) -> bool:
    """Whether facets tell the values of an attribute; attributes of a declared type are compared differently."""
    return field.is_attribute and not field.path and declared_type(field, filterable) is None


def _values_of(wanted: OneOf, filterable: Filterable) -> Callable[[Any], Sequence[Scalar]] | None:
    """The values that facets tell, few enough to compare each row with; None where facets cannot tell."""
    field = wanted.field
    if not 0 < len(wanted.values) <= FEW_VALUES:
        return None
    if has_facets(field, filterable) or (not field.is_attribute and field.name in _FIELDS):
        return _all_values
    kind = declared_type(field, filterable)
    if kind is None or kind is AttributeType.TIME or not fitting(wanted, kind):
        return None
    return lambda leaf: fitting(leaf, kind)


def _tag_clause(wanted: AllTags, place: int) -> Clause:
    return Clause(wanted, lambda leaf: leaf.tags[place : place + 1])


def _all_values(wanted: OneOf) -> Sequence[Scalar]:
    return wanted.values


def _field_text(wanted: OneOf | AllTags) -> str:
    if isinstance(wanted, AllTags):
        return _TAGS
    return f".{wanted.field.name}" if wanted.field.is_attribute else wanted.field.name


Leaf = OneOf | AllTags | Compare | Exists | Is | HasType | Contains
"""A filter without parts."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A statement whose filter's values are still to be put in."""

    statement: Compiled
    late: Mapping[str, tuple[int, Callable[[Any], Any]]]
    """The place of the leaf that a parameter stands for, and the function that makes its value, by parameter."""

    def of(self, wanted: Filter | None) -> Compiled:
        """The statement for a filter of the shape that it was composed for."""
        if wanted is None or not self.late:
            return self.statement
        parts = list(leaves(wanted))
        return self.statement.bind(**{name: adapt(parts[place]) for name, (place, adapt) in self.late.items()})


def composed(statement: sa.ClauseElement, wanted: Filter | None) -> Composed:
    """The statement of a filter, to be used for others of its shape. Its leaves are objects of their own."""
    made = rendered(statement)
    places = {} if wanted is None else {id(leaf): place for place, leaf in enumerate(leaves(wanted))}
    late = {name: parameter for name, parameter in made.parameters.items() if isinstance(parameter, LateValue)}
    fixed = {name: value for name, value in made.parameters.items() if name not in late}
    return Composed(
        Compiled(made.text, fixed),
        {name: (places[id(parameter.source)], parameter.adapt) for name, parameter in late.items()},
    )


@dataclass(slots=True, eq=False)
class KeptStatements:
    """Statements by what their text depends on; those that were not used for longest make room for others."""

    most: int = 4096
    """Conditions in all their filters; a statement without a filter counts as one."""
    _kept: dict[Hashable, tuple[Composed, int]] = field(default_factory=dict)
    _conditions: int = 0
    _lock: Lock = field(default_factory=Lock)
    """Statements are composed in more than one thread."""

    def of(
        self,
        shape: Hashable,
        wanted: Filter | None,
        filterable: Filterable,
        compose: Callable[[Filter | None], sa.ClauseElement],
    ) -> Compiled:
        """The statement for a filter; ``shape`` is what its text depends on beside that, ``compose`` makes it anew."""
        key = shape, shape_of(wanted, filterable)
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._kept[key] = kept  # last, for it was used last
        return (kept[0] if kept is not None else self._made(key, wanted, compose)).of(wanted)

    def _made(
        self, key: Hashable, wanted: Filter | None, compose: Callable[[Filter | None], sa.ClauseElement]
    ) -> Composed:
        # A filter object may be used at two places; a copy distinguishes them. Values are not kept.
        own = None if wanted is None else with_own_leaves(wanted)
        made, conditions = composed(compose(own), own), 1 if wanted is None else extent(wanted).conditions
        with self._lock:
            former = self._kept.pop(key, None)
            self._kept[key] = made, conditions
            self._conditions += conditions - (0 if former is None else former[1])
            while self._conditions > self.most and len(self._kept) > 1:
                self._conditions -= self._kept.pop(next(iter(self._kept)))[1]
        return made


def with_own_leaves(wanted: Filter) -> Filter:
    """The same filter, each of its leaves an object of its own."""
    match wanted:
        case And(filters) | Or(filters):
            return type(wanted)(tuple(map(with_own_leaves, filters)))
        case Not(inner):
            return Not(with_own_leaves(inner))
        case _:
            return replace(wanted)


def leaves(wanted: Filter) -> Iterator[Leaf]:
    """The filter's parts that have none themselves, in order."""
    match wanted:
        case And(filters) | Or(filters):
            for part in filters:
                yield from leaves(part)
        case Not(inner):
            yield from leaves(inner)
        case _:
            yield wanted


def shape_of(wanted: Filter | None, filterable: Filterable) -> Hashable:
    """The key of a filter's statement: everything that its text depends on, which is all but the values."""
    match wanted:
        case None:
            return None
        case And(filters) | Or(filters):
            return (type(wanted).__name__, *(shape_of(part, filterable) for part in filters))
        case Not(inner):
            return ("Not", shape_of(inner, filterable))
        case OneOf(field, values):
            return ("OneOf", field, values_shape(field, values, filterable), lets_unrated_through(wanted))
        case Compare(field, operator, value):
            shape = values_shape(field, (value,), filterable)
            return ("Compare", field, operator, shape, lets_unrated_through(wanted))
        case AllTags(tags):
            return ("AllTags", len(tags))
        case Exists(field) | Is(field):
            return (type(wanted).__name__, field)
        case HasType(field, json_type):
            return ("HasType", field, json_type)
        case Contains():
            return "Contains"
