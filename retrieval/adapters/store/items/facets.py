"""Filters that facets answer: what an item must have one of, in each of some fields (``sql/items/facets.sql``)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from psycopg.types.json import Jsonb
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, array

from retrieval.adapters.store.compiled import late
from retrieval.adapters.store.items.keys import FEW_VALUES, Keys, declared_type, fitting
from retrieval.domain.attribute import AttributeType, Filterable
from retrieval.domain.filters import AllTags, And, Field, Filter, OneOf, Or, Scalar

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
        return sa.cast(late(self.source, lambda one: Jsonb(list(values_of(one)))), JSONB)

    @property
    def can_be_list(self) -> bool:
        """Whether items may have many values there."""
        return isinstance(self.source, AllTags) or self.source.field.is_attribute or self.source.field.name == _TAGS

    def share(self, collection_id: int, common: Mapping[str, float]) -> float:
        """The share of the items that have one of the values; 0 where none of them is known to be common."""
        field = _field_text(self.source)
        known = (common.get(facet(collection_id, field, value), 0.0) for value in self.values_of(self.source))
        return min(sum(known), 1.0)


def fields_and_values(clauses: Sequence[Clause]) -> tuple[sa.ColumnElement[Any], sa.ColumnElement[Any]]:
    """The clauses as the two arrays that the functions of facets take."""
    fields = sa.cast(array([one.field for one in clauses]), ARRAY(sa.Text))
    return fields, sa.cast(array([one.wanted for one in clauses]), ARRAY(JSONB))


def facet_clauses(wanted: Filter, filterable: Filterable = ()) -> list[Clause] | None:
    """The clauses that say all that the filter says; None where facets cannot tell."""
    clauses: list[Clause] = []
    for one in demanded(wanted):
        if isinstance(one, AllTags):
            clauses += [_tag_clause(one, place) for place in range(len(one.tags))]
        elif isinstance(one, OneOf) and (values_of := _values_of(one, filterable)) is not None:
            clauses.append(Clause(one, values_of))
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
    return None if clauses is None else math.prod(one.share(collection_id, common) for one in clauses)


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
            for one in filters:
                yield from demanded(one)
        case Or((one,)):
            yield from demanded(one)
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
    """Whether an attribute's facets tell which values it has; those of a declared type compare in a way of theirs."""
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
    return lambda one: fitting(one, kind)


def _tag_clause(wanted: AllTags, place: int) -> Clause:
    return Clause(wanted, lambda one: one.tags[place : place + 1])


def _all_values(wanted: OneOf) -> Sequence[Scalar]:
    return wanted.values


def _field_text(wanted: OneOf | AllTags) -> str:
    if isinstance(wanted, AllTags):
        return _TAGS
    return f".{wanted.field.name}" if wanted.field.is_attribute else wanted.field.name
