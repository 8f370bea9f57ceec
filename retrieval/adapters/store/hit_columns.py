"""What is read of an item for a hit."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from retrieval.adapters.store.tables import items
from retrieval.domain.filters import Field

HIT_COLUMNS = ("title", "body", "kind", "tags", "attributes", "status", "source", "occurred_at")
"""In this order."""


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
