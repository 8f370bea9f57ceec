"""Filters become SQL in which every value is a parameter."""

from __future__ import annotations

from decimal import Context, Inexact, localcontext
from hashlib import sha256
from typing import Any
from uuid import UUID

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from retrieval.adapters.store.compiled import Compiled, compiled
from retrieval.adapters.store.items.composed import facet
from retrieval.adapters.store.items.conditions import condition
from retrieval.adapters.store.tables import items
from retrieval.domain.search.filters import parse_where


def sql_of(where: dict[str, Any]) -> Compiled:
    """The statement of a filter."""
    filter_ = parse_where(where)
    assert filter_ is not None
    return compiled(sa.select(items.c.item_id).where(condition(filter_, 7)))


NASTY = "'; DROP TABLE items; -- \" \\ %s %(x)s :y $1"


@pytest.mark.parametrize(
    "where",
    [
        {"kind": NASTY},
        {"tags": [NASTY]},
        {"tags": {"all": [NASTY]}},
        {"colour": NASTY},
        {NASTY: "value"},
        {f"attributes.{NASTY}": {"gt": 1}},
        {NASTY: {"exists": True}},
        {"colour": {"gte": NASTY}},
        {"not": {"or": [{NASTY: 1}, {"and": [{"source": {"ne": NASTY}}]}]}},
    ],
)
def test_neither_a_value_nor_a_name_becomes_sql_text(where: dict[str, Any]) -> None:
    """Every value of a caller is a parameter."""
    statement = sql_of(where)
    assert "DROP" not in statement.text
    values = repr([value.obj if isinstance(value, Jsonb) else value for value in statement.parameters.values()])
    assert statement.parameters
    assert "DROP" in values or any(
        "DROP" in repr(getattr(parameter, "obj", parameter)) for parameter in _flat(statement.parameters)
    )


def _flat(parameters: Any) -> list[Any]:
    return [member for value in parameters.values() for member in (value if isinstance(value, list) else [value])]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1))
def test_the_text_does_not_depend_on_the_value(value: str) -> None:
    """Two filters of one shape are one statement."""
    assert sql_of({"colour": value}).text == sql_of({"colour": "red"}).text
    assert sql_of({"kind": value}).text == sql_of({"kind": "red"}).text


@pytest.mark.parametrize("name", ["item_id", "kind", "tags", "colour"])
def test_a_list_is_one_parameter_however_long(name: str) -> None:
    """A statement may have 65,535 parameters; a list of more values is still one or two of them."""
    short, long = (sql_of({name: [f"value{number}" for number in range(size)]}) for size in (200, 70_000))
    assert short.text == long.text
    assert len(long.parameters) <= 3


@pytest.mark.parametrize("where", [{"kind": []}, {"tags": []}, {"colour": []}, {"or": []}])
def test_none_of_nothing_finds_nothing(where: dict[str, Any]) -> None:
    """An empty list of choices is a filter that no item passes."""
    assert "WHERE false" in sql_of(where).text


def test_all_of_nothing_is_everything() -> None:
    """An empty list of demands is a filter that every item passes."""
    assert "WHERE true" in sql_of({"and": []}).text


@pytest.mark.parametrize(
    ("value", "text"), [(12345.678, "12345.678"), (np.float64(0.1), "0.1"), (1e22, "1" + 22 * "0"), (-0.0, "0")]
)
def test_a_facet_depends_on_no_setting_and_type_of_the_caller(value: float, text: str) -> None:
    """Programs that compute with money set the precision of decimal numbers; NumPy's numbers are floats too."""
    expected = UUID(bytes=sha256(f"7 {text} .price".encode()).digest()[:16])
    with localcontext(Context(prec=3, traps=[Inexact])):
        assert facet(7, ".price", value) == str(expected)
