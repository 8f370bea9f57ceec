"""Compose statements once for all filters of one shape; select items by keys and facets.

Composing a statement takes longer than most searches. Filters that differ only in their values share a statement,
whose parameters refer to parts of the filter.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, array

from retrieval.adapters.store.compiled import Compiled, LateValue, late, rendered
from retrieval.adapters.store.learning.ratings import ORDER, lets_unrated_through
from retrieval.adapters.store.tables import attribute_values, item_tags, literal, memory_links
from retrieval.domain.items.attribute import AttributeType, Filterable, typed_value
from retrieval.domain.search import filters
from retrieval.domain.search.filters import AllTags, Compare, Field, Filter, OneOf, Scalar

INDEXED_CHARACTERS = 300
"""The characters of a text that the index holds (``sql/items/attributes.sql``)."""

EXACT_BELOW = 2**53
"""The index holds whole numbers below it, and all floats, exactly; for greater ones the nearest number."""

FEW_VALUES = 100
"""The most values that are passed as an array; more are passed as rows."""

ValuesOf = Callable[[Any], list[Any]]

_COLUMNS = {
    AttributeType.TEXT: "as_text",
    AttributeType.BOOLEAN: "as_text",
    AttributeType.NUMBER: "as_number",
    AttributeType.TIME: "as_time",
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
    """Whether looking up one item's key among them is as fast as in an index of keys."""
    at_most: Callable[[sa.ColumnElement[int]], sa.Select[Any]] | None = None
    """The statement that stops after a number of items; None: a LIMIT is as good."""

    def has(self, item_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        """Whether the item is among them, looked up for each row of the table of ``item_id``."""
        is_item = self.statement.selected_columns[0] == item_id
        look_up: sa.Select[Any] = self.statement.with_only_columns(sa.literal_column("1")).where(is_item).limit(1)
        return look_up.correlate(*sa.select(item_id).get_final_froms()).scalar_subquery() == sa.literal_column("1")

    def hold(self, item_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        """Whether the item is among them, with the keys read once for all rows."""
        if self.at_most is None:
            return item_id.in_(self.statement)
        # As an array, each key is looked up, because the planner would expect 1,000 rows of a function.
        return item_id == sa.func.any(sa.func.array(self.statement.scalar_subquery()))


def is_one_of(column: sa.ColumnElement[Any], filter_: Filter, values_of: ValuesOf) -> sa.ColumnElement[Any]:
    """Whether the column has one of the values that ``values_of`` takes from a filter, for any number of values."""
    values = values_of(filter_)
    parameter = late(filter_, values_of)
    if len(values) <= FEW_VALUES:
        return column == sa.func.any(parameter)
    # The planner would compare each value of an array with each of the column's common values.
    typed = sa.cast(parameter, ARRAY(sa.Text)) if isinstance(values[0], str) else parameter
    return column.in_(sa.select(sa.func.unnest(typed)).correlate(None))


def values_shape(field: Field, values: tuple[Scalar, ...], filterable: Filterable) -> Hashable:
    """The part of a plan's key for a condition on these values: their number and kinds."""
    kind = declared_type(field, filterable)
    typed = [None if kind is None else typed_value(kind, value) for value in values]
    kinds = frozenset(
        (type(value), number is not None, _is_exact(number)) for value, number in zip(values, typed, strict=True)
    )
    different = len(set(typed) - {None})
    return kinds, _magnitude(len(values)), _magnitude(different)


def _magnitude(number: int) -> int:
    """The class of a number of values for plans: none, one, few, many."""
    return min(number, 2) if number <= FEW_VALUES else 3


def declared_type(field: Field, filterable: Filterable) -> AttributeType | None:
    """The declared type of an attribute; None for any other field, and for a value within an attribute."""
    return dict(filterable).get(field.name) if field.is_attribute and not field.path else None


def tag_keys(filter_: OneOf, collection_id: int) -> Keys:
    """The items that have one of the tags."""
    table = item_tags.alias()
    statement = _of(table, collection_id).where(is_one_of(table.c.tag, filter_, all_values))
    return Keys(statement, once=len(filter_.values) == 1, can_look_up=len(filter_.values) <= FEW_VALUES)


def every_tag_keys(filter_: AllTags, collection_id: int) -> list[Keys]:
    """For each of the tags, the items that have it."""

    def having(index: int) -> Keys:
        table = item_tags.alias()
        has_tag = table.c.tag == late(filter_, lambda leaf: leaf.tags[index])
        return Keys(_of(table, collection_id).where(has_tag), once=True, can_look_up=True)

    return list(map(having, range(len(filter_.tags))))


def link_keys(filter_: OneOf, collection_id: int) -> Keys:
    """The memories that are linked to one of the entities, archived ones too; each entity is ``type:id``."""
    table, number = memory_links.alias(), len(filter_.values)
    statement = _of(table, collection_id).where(
        table.c.entity_type == sa.func.any(late(filter_, lambda leaf: _entity_parts(leaf, 0))),
        is_one_of(table.c.entity_id, filter_, lambda leaf: _entity_parts(leaf, 1)),
    )
    if number > 1:  # the type of one entity and the id of another may be a third entity
        name = table.c.entity_type + sa.literal_column("':'") + table.c.entity_id
        statement = statement.where(is_one_of(name, filter_, all_values))
    return Keys(statement, once=number == 1, are_active=False, can_look_up=number <= FEW_VALUES)


def linked_keys(collection_id: int) -> Keys:
    """The memories that are linked to anything, archived ones too."""
    return Keys(_of(memory_links.alias(), collection_id), once=False, are_active=False)


def _entity_parts(leaf: OneOf, index: int) -> list[str]:
    """The types (0) or the ids (1) of the entities, each once."""
    return list(dict.fromkeys(str(link).partition(":")[2 * index] for link in leaf.values))


def is_indexed(filter_: OneOf | Compare, kind: AttributeType) -> bool:
    """Whether the index of that type answers the condition completely."""
    values = filter_.values if isinstance(filter_, OneOf) else (filter_.value,)
    typed = [number for number in (typed_value(kind, value) for value in values) if number is not None]
    return bool(typed) and all(map(_is_exact, typed))


def attribute_keys(filter_: OneOf, kind: AttributeType, collection_id: int) -> Keys:
    """The items whose attribute, or an element of it, is one of the values that have the declared type."""
    table, statement = _keys_of_attribute(filter_.field, collection_id)

    def typed(leaf: OneOf) -> list[object]:
        return list(dict.fromkeys(index_value(kind, value) for value in fitting(leaf, kind)))

    number = len(typed(filter_))
    has_one = is_one_of(table.c[_COLUMNS[kind]], filter_, typed)
    return Keys(statement.where(has_one), once=number == 1, can_look_up=number <= FEW_VALUES)


def fitting(filter_: OneOf, kind: AttributeType) -> list[Scalar]:
    """The values that are of the declared type."""
    return [value for value in filter_.values if typed_value(kind, value) is not None]


def range_keys(filter_: Sequence[Compare], kind: AttributeType, collection_id: int) -> Keys:
    """The items whose attribute meets all these comparisons of one attribute with values of its type."""
    table, statement = _keys_of_attribute(filter_[0].field, collection_id)
    column = table.c[_COLUMNS[kind]]
    comparisons = (
        ORDER[condition.operator](column, late(condition, lambda bound: index_value(kind, bound.value)))
        for condition in filter_
    )
    # A list has no order; the index has its elements for equality only.
    return Keys(statement.where(*comparisons, sa.not_(table.c.listed)), once=True, can_look_up=True)


def _keys_of_attribute(field: Field, collection_id: int) -> tuple[sa.FromClause, sa.Select[Any]]:
    table = attribute_values.alias()
    return table, _of(table, collection_id).where(
        table.c.name == sa.bindparam(None, field.name, unique=True, type_=sa.types.NullType())
    )


def _of(table: sa.FromClause, collection_id: int) -> sa.Select[Any]:
    return sa.select(table.c.item_id).where(table.c.collection_id == literal(collection_id)).correlate(None)


def _is_exact(value: object) -> bool:
    if isinstance(value, str):
        return len(value) < INDEXED_CHARACTERS
    return not isinstance(value, int | float) or abs(value) < EXACT_BELOW


def index_value(kind: AttributeType, value: Scalar) -> object:
    """The value as the index of that type has it."""
    typed = typed_value(kind, value)
    return float(typed) if isinstance(typed, int) else typed


_TAGS = "tags"
_FIELDS = frozenset({_TAGS, "kind", "status"})
"""The fields with facets, apart from attributes."""


LEAST_COMMON = 0.05
"""The least share of the items from which a facet counts as common."""


class Share(NamedTuple):
    """The estimated bounds of a share of the items, 0 to 1."""

    least: float
    """0: nothing is known to be common."""
    most: float


@dataclass(frozen=True, slots=True)
class Clause:
    """A field, and the values of which an item must have one."""

    source: OneOf | AllTags
    values_of: Callable[[Any], Sequence[Scalar]]
    """The values in ``source``, or in another filter of its shape."""

    @property
    def is_single(self) -> bool:
        """Whether every filter of this shape has one value here."""
        return isinstance(self.source, AllTags) or len(self.source.values) == 1

    def wanted(self, collection_id: int) -> sa.ColumnElement[Any]:
        """The facets of which an item must have one, as the text of an array."""
        return late(self.source, lambda leaf: f"{{{','.join(self._facets(collection_id, leaf))}}}")

    def share(self, collection_id: int, common: Mapping[str, float]) -> Share:
        """The share of the items that have one of the values, by the facets that are known to be common."""
        facets = self._facets(collection_id, self.source)
        # Nearly all items are active, so without any common facet they were not counted yet.
        most_of_rare = LEAST_COMMON if common else 1.0
        least, most = (sum(common.get(name, other) for name in facets) for other in (0.0, most_of_rare))
        return Share(min(least, 1.0), min(most, 1.0))

    def _facets(self, collection_id: int, leaf: Any) -> list[str]:
        field = _field_text(leaf)
        return [facet(collection_id, field, value) for value in self.values_of(leaf)]


def plain_facets(
    clauses: Sequence[Clause], collection_id: int
) -> tuple[sa.ColumnElement[Any], sa.ColumnElement[Any]] | None:
    """The facets of which an item must have one, and those of which it must have each.

    None if more than one clause has several values. A plain conjunction has a statement whose plan is kept.
    """
    first, *others = sorted(clauses, key=lambda clause: clause.is_single)
    if not all(clause.is_single for clause in others):
        return None
    any_of, *each = (sa.cast(clause.wanted(collection_id), ARRAY(sa.Uuid)) for clause in (first, *others))
    return any_of, sum(each[1:], each[0]) if each else sa.literal_column("'{}'")


def wanted_facets(clauses: Sequence[Clause], collection_id: int) -> sa.ColumnElement[Any]:
    """The facets of each clause, of which an item must have one, as an array of the texts of arrays."""
    return sa.cast(array([clause.wanted(collection_id) for clause in clauses]), ARRAY(sa.Text))


def facet_clauses(filter_: Filter, filterable: Filterable = ()) -> list[Clause] | None:
    """The clauses equivalent to the filter; None if facets cannot express it."""
    clauses: list[Clause] = []
    for part in conjuncts(filter_):
        if (own := clauses_of(part, filterable)) is None:
            return None
        clauses += own
    return clauses if 0 < len(clauses) <= FEW_VALUES else None


def clauses_of(part: Filter, filterable: Filterable) -> list[Clause] | None:
    """The clauses equivalent to a filter that is not a conjunction; None if facets cannot express it."""
    if isinstance(part, AllTags):

        def having(index: int) -> Clause:
            return Clause(part, lambda leaf: leaf.tags[index : index + 1])

        return list(map(having, range(len(part.tags))))
    if isinstance(part, OneOf) and (values_of := _values_of(part, filterable)) is not None:
        return [Clause(part, values_of)]
    return None


def facet_part(filter_: Filter, filterable: Filterable) -> Filter | None:
    """The part of a conjunction that facets can express; None if there is none."""
    parts = tuple(part for part in conjuncts(filter_) if clauses_of(part, filterable) is not None)
    return filters.And(parts) if parts else None


def facet_share(
    filter_: Filter, filterable: Filterable, collection_id: int, common: Mapping[str, float]
) -> Share | None:
    """The estimated share of the items that match the filter, by common facets; None if facets cannot express it.

    For the least share, clauses count as independent.
    """
    clauses = facet_clauses(filter_, filterable)
    if clauses is None:
        return None
    shares = [clause.share(collection_id, common) for clause in clauses]
    return Share(math.prod(share.least for share in shares), min(share.most for share in shares))


def facet(collection_id: int, field: str, value: Scalar) -> str:
    """The facet of a value, as the function ``facet`` of the database makes it."""
    text = f"{collection_id} {_json(value)} {field}"
    return str(UUID(bytes=sha256(text.encode()).digest()[:16]))


def _json(value: Scalar) -> str:
    """The value as the database writes JSON, whatever the caller's decimal context."""
    if isinstance(value, float):
        # A subclass, such as NumPy's float64, has a text of its own.
        text = format(Decimal(float.__repr__(value)), "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text == "-0" else text
    return json.dumps(value, ensure_ascii=False)


def conjuncts(filter_: Filter) -> Iterator[Filter]:
    """The filters that an item must all match."""
    match filter_:
        case filters.And(several):
            for part in several:
                yield from conjuncts(part)
        case filters.Or((only,)):
            yield from conjuncts(only)
        case _:
            yield filter_


def facet_keys(clauses: Sequence[Clause], collection_id: int) -> Keys:
    """The items with a value of each clause."""
    plain = plain_facets(clauses, collection_id)

    def select(most: sa.ColumnElement[int]) -> sa.Select[Any]:
        rows = (
            sa.func.items_with_facets(literal(collection_id), *plain, most)
            if plain
            else sa.func.items_with_clauses(literal(collection_id), wanted_facets(clauses, collection_id), most)
        )
        return sa.select(rows.table_valued("item_id", name="found").c.item_id)

    return Keys(select(sa.cast(sa.null(), sa.BigInteger)), once=True, at_most=select)


def attribute_clause(filter_: OneOf, filterable: Filterable) -> Clause | None:
    """The clause of any number of an attribute's values; None if facets do not decide about the field."""
    return Clause(filter_, all_values) if filter_.values and has_facets(filter_.field, filterable) else None


def has_facets(field: Field, filterable: Filterable) -> bool:
    """Whether facets decide about an attribute; attributes of a declared type are compared differently."""
    return field.is_attribute and not field.path and declared_type(field, filterable) is None


def _values_of(filter_: OneOf, filterable: Filterable) -> Callable[[Any], Sequence[Scalar]] | None:
    """A function for the values that facets decide about; None if they cannot, or there are too many values."""
    field = filter_.field
    if not 0 < len(filter_.values) <= FEW_VALUES:
        return None
    if has_facets(field, filterable) or (not field.is_attribute and field.name in _FIELDS):
        return all_values
    kind = declared_type(field, filterable)
    if kind is None or kind is AttributeType.TIME or not fitting(filter_, kind):
        return None
    return lambda leaf: fitting(leaf, kind)


def all_values(filter_: OneOf) -> list[Scalar]:
    """The values of the filter."""
    return list(filter_.values)


def _field_text(filter_: OneOf | AllTags) -> str:
    if isinstance(filter_, AllTags):
        return _TAGS
    return f".{filter_.field.name}" if filter_.field.is_attribute else filter_.field.name


class _Template(NamedTuple):
    """A statement for all filters of one shape."""

    statement: Compiled
    late: Mapping[str, tuple[int, Callable[[Any], Any]]]
    """By parameter: the index of its leaf in the filter, and the function that makes its value."""
    conditions: int


@dataclass(slots=True, eq=False)
class StatementCache:
    """A least-recently-used cache of statements, by everything that their texts depend on."""

    most: int = 4096
    """The most conditions in all filters; a statement without a filter counts as one."""
    _entries: dict[Hashable, _Template] = field(default_factory=dict)
    _conditions: int = 0
    _lock: Lock = field(default_factory=Lock)
    """Statements are composed in more than one thread."""

    def of(
        self,
        shape: Hashable,
        filter_: Filter | None,
        filterable: Filterable,
        compose: Callable[[Filter | None], sa.ClauseElement],
    ) -> Compiled:
        """The statement for a filter, composed by ``compose`` if it is new.

        ``shape``: everything else that the text depends on.
        """
        key = shape, shape_of(filter_, filterable)
        with self._lock:
            template = self._entries.pop(key, None)
            if template is not None:
                self._entries[key] = template  # moved to the end: the most recently used
        template = template or self._compose(key, filter_, compose)
        if filter_ is None or not template.late:
            return template.statement
        parts = list(filters.leaves(filter_))
        return template.statement.bind(**{name: adapt(parts[index]) for name, (index, adapt) in template.late.items()})

    def _compose(
        self, key: Hashable, filter_: Filter | None, compose: Callable[[Filter | None], sa.ClauseElement]
    ) -> _Template:
        # One filter object may occur twice in a filter: a copy makes the leaves distinct. The cache keeps no values.
        own = None if filter_ is None else with_own_leaves(filter_)
        statement = rendered(compose(own))
        indexes = {} if own is None else {id(leaf): index for index, leaf in enumerate(filters.leaves(own))}
        late = {name: value for name, value in statement.parameters.items() if isinstance(value, LateValue)}
        fixed = {name: value for name, value in statement.parameters.items() if name not in late}
        template = _Template(
            Compiled(statement.text, fixed),
            {name: (indexes[id(parameter.source)], parameter.adapt) for name, parameter in late.items()},
            1 if filter_ is None else filters.extent(filter_).conditions,
        )
        with self._lock:
            former = self._entries.pop(key, None)
            self._entries[key] = template
            self._conditions += template.conditions - (0 if former is None else former.conditions)
            while self._conditions > self.most and len(self._entries) > 1:
                self._conditions -= self._entries.pop(next(iter(self._entries))).conditions
        return template


def with_own_leaves(filter_: Filter) -> Filter:
    """The same filter with distinct leaf objects."""
    match filter_:
        case filters.And(several) | filters.Or(several):
            return type(filter_)(tuple(map(with_own_leaves, several)))
        case filters.Not(inner):
            return filters.Not(with_own_leaves(inner))
        case _:
            return replace(filter_)


def shape_of(filter_: Filter | None, filterable: Filterable) -> Hashable:
    """The key of a filter's statement: everything that its text depends on, that is, all except the values.

    A leaf without a case of its own is its own key, including its values: its statement serves only equal filters.
    """
    match filter_:
        case None:
            return None
        case filters.And(several) | filters.Or(several):
            return (type(filter_).__name__, *(shape_of(part, filterable) for part in several))
        case filters.Not(inner):
            return ("Not", shape_of(inner, filterable))
        case OneOf(field, values):
            return ("OneOf", field, values_shape(field, values, filterable), lets_unrated_through(filter_))
        case Compare(field, operator, value):
            shape = values_shape(field, (value,), filterable)
            return ("Compare", field, operator, shape, lets_unrated_through(filter_))
        case AllTags(tags):
            return ("AllTags", len(tags))
        case filters.Is(field):
            return ("Is", field)
        case filters.Contains():
            return "Contains"
        case _:
            return filter_
