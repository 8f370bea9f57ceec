"""How often a value occurs."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.domain.attribute import checked_name
from retrieval.domain.filters import Field, parse_field

COUNTED_FIELDS = ("tags", "kind", "status", "source")
"""Fields of every item whose values can be counted, beside attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCount:
    """Items of a collection that have one value of an attribute, or one tag."""

    value: str
    """As text; empty: they have none."""
    items: int
    """Items that a search can find."""
    vectors: int
    """Those of them that have their vector."""


def counted_field(name: object) -> Field:
    """The field whose values are to be counted, named as in a filter: ``/a/b`` is what attribute ``a`` has under ``b``.

    Raises ``InvalidRequestError`` for one whose values are not counted, and for no name.
    """
    field = parse_field(name)
    if not field.is_attribute and field.name not in COUNTED_FIELDS:
        checked_name(name)  # which says what it is instead
    return field
