"""Statements that are composed once for all filters of one shape.

Composing a statement costs more than most searches do. A filter that differs from another only in its values has the
same statement: its parameters remember which part of the filter they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.compiled import Compiled, LateValue, rendered
from retrieval.adapters.store.items.keys import values_shape
from retrieval.adapters.store.learning.ratings import lets_unrated_through
from retrieval.domain.attribute import Filterable
from retrieval.domain.filters import (
    AllTags,
    And,
    Compare,
    Contains,
    Exists,
    Filter,
    HasType,
    Is,
    Not,
    OneOf,
    Or,
    extent,
)

Leaf = OneOf | AllTags | Compare | Exists | Is | HasType | Contains
"""A filter without parts."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A statement whose filter's values are still to be put in."""

    statement: Compiled
    late: Mapping[str, tuple[int, Callable[[Any], Any]]]
    """By parameter: the place of the leaf that it stands for, and what becomes of that."""

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
    late = {name: one for name, one in made.parameters.items() if isinstance(one, LateValue)}
    fixed = {name: value for name, value in made.parameters.items() if name not in late}
    return Composed(
        Compiled(made.text, fixed), {name: (places[id(one.source)], one.adapt) for name, one in late.items()}
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
        # A filter object may stand at two places; a copy tells them apart. Values are not kept.
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
            for one in filters:
                yield from leaves(one)
        case Not(inner):
            yield from leaves(inner)
        case _:
            yield wanted


def shape_of(wanted: Filter | None, filterable: Filterable) -> Hashable:
    """What the text of a filter's statement depends on: everything but the values."""
    match wanted:
        case None:
            return None
        case And(filters) | Or(filters):
            return (type(wanted).__name__, *(shape_of(one, filterable) for one in filters))
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
