"""Compile statements, which SQLAlchemy Core composes, for psycopg, which runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement's text and its parameters, for psycopg."""

    text: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    keep: int | None = None
    """A number if the connection keeps the statement's plan; statements with different numbers share no plan."""

    def bind(self, **values: Any) -> Compiled:
        """The same statement with values for its named parameters."""
        return Compiled(self.text, {**self.parameters, **values}, self.keep)


@dataclass(frozen=True, slots=True)
class LateValue:
    """The value of a parameter that is bound late: the result of ``adapt`` for its source."""

    source: Any
    adapt: Callable[[Any], Any]


def late(source: Any, adapt: Callable[[Any], Any]) -> sa.BindParameter[Any]:
    """A parameter with the source of its value, so that the statement can be used again for another value.

    psycopg adapts it by its Python type.
    """
    import sqlalchemy as sa

    return sa.bindparam(None, LateValue(source, adapt), unique=True, type_=sa.types.NullType())


def compiled(statement: sa.ClauseElement) -> Compiled:
    """The statement for psycopg. Values stay parameters, which psycopg adapts, not SQLAlchemy's types."""
    template = rendered(statement)
    values = template.parameters.items()
    return template.bind(**{name: value.adapt(value.source) for name, value in values if isinstance(value, LateValue)})


def rendered(statement: sa.ClauseElement) -> Compiled:
    """The statement for psycopg, its late values not bound yet."""
    result = statement.compile(dialect=_dialect(), compile_kwargs={"render_postcompile": True})
    return Compiled(str(result), result.params)


@cache
def _dialect() -> PGDialect_psycopg:
    """The dialect, loaded with the first composed statement: constant texts run without SQLAlchemy."""
    from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

    return PGDialect_psycopg()  # type: ignore[no-untyped-call]
