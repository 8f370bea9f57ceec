"""How often a value occurs."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.domain.attribute import checked_name
from retrieval.domain.filters import Field

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
    """The field whose values are to be counted. Raises ``InvalidRequestError`` for one whose values are not."""
    if name in COUNTED_FIELDS:
        return Field(str(name), is_attribute=False)
    return Field(checked_name(name), is_attribute=True)
