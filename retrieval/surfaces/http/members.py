"""The members that a part of a body may have, looked up in the models when a client names another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel


def members_at(kind: Any, place: Sequence[str | int]) -> list[str]:
    """The names of the members at this place of a body of that type; none where no model says them."""
    models = list(_models(kind))
    for step in place:
        inner = [field.annotation for one in models if (field := one.model_fields.get(str(step)))]
        # Positions in lists and keys of mappings lead to no other model.
        models = [model for part in inner for model in _models(part)] if inner else models
    return list(dict.fromkeys(name for model in models for name in model.model_fields))


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    """The models within an annotation: itself, of a list, of a mapping, of several."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)
