"""Statements are composed with SQLAlchemy Core and run by psycopg: this is the seam between the two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ClauseElement
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

_DIALECT = PGDialect_psycopg()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement's text and its parameters, for psycopg."""

    text: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def bind(self, **values: Any) -> Compiled:
        """The same statement with values for its named parameters."""
        return replace(self, parameters={**self.parameters, **values})


def compiled(statement: ClauseElement) -> Compiled:
    """The statement for psycopg. Values stay parameters; psycopg adapts them, so SQLAlchemy's types do not."""
    result = statement.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return Compiled(str(result), result.params)
