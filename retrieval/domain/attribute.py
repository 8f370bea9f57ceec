"""The attributes that a collection declares as filterable: each has a type and is indexed by it."""

from __future__ import annotations

from enum import StrEnum


class AttributeType(StrEnum):
    """What the values of a filterable attribute are, and so how they compare."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"


Filterable = tuple[tuple[str, AttributeType], ...]
"""The filterable attributes by name, in order of name."""
