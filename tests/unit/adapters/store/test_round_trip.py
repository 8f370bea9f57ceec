"""Statements on their way to the server: placeholders are numbered, and large parameters are written aside."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from retrieval.adapters.aside import LONG
from retrieval.adapters.store import round_trip
from retrieval.adapters.store.compiled import Compiled
from retrieval.adapters.store.round_trip import MANY_PARAMETERS, WrittenValue, _with_numbers, written


@pytest.mark.parametrize(
    ("text", "numbered", "names"),
    [
        ("SELECT 1", b"SELECT 1", ()),
        ("SELECT %(a)s, %(b)s", b"SELECT $1, $2", ("a", "b")),
        ("SELECT %(b)s, %(a)s", b"SELECT $1, $2", ("b", "a")),
        ("SELECT %(a)s, %(b)s, %(a)s", b"SELECT $1, $2, $1", ("a", "b")),
        ("SELECT 7 %% %(a)s", b"SELECT 7 % $1", ("a",)),
        ("SELECT '%%(a)s'", b"SELECT '%(a)s'", ()),
        ("SELECT %(a)s::text[] <%% %(a_1)s", b"SELECT $1::text[] <% $2", ("a", "a_1")),
        ("SELECT 'é', %(a)s", "SELECT 'é', $1".encode(), ("a",)),
        (" ".join(f"%(p{n})s" for n in range(12)), b"$1 $2 $3 $4 $5 $6 $7 $8 $9 $10 $11 $12", None),
    ],
)
def test_names_become_numbers(text: str, numbered: bytes, names: tuple[str, ...] | None) -> None:
    """In order of first use; a name that comes again keeps its number; a doubled percent sign is one."""
    expected = tuple(f"p{number}" for number in range(12)) if names is None else names
    assert _with_numbers(text) == (numbered, expected)


@pytest.mark.parametrize(
    ("parameters", "written_ones"),
    [
        ({"a": ["x"], "b": Jsonb([1]), "c": 1}, set()),
        ({"a": ["x"] * LONG, "b": Jsonb([1] * LONG), "c": ["y"]}, {"a", "b"}),
        ({f"p{number}": ["x"] if number < 3 else number for number in range(MANY_PARAMETERS)}, {"p0", "p1", "p2"}),
    ],
)
async def test_long_lists_and_all_lists_of_many_parameters_are_written_aside(
    parameters: dict[str, Any], written_ones: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop answers others meanwhile."""
    threads = set[int]()
    dumped = round_trip._encode  # noqa: SLF001 - where it runs is what is tested

    def noted(value: object) -> object:
        threads.add(threading.get_ident())
        return dumped(value)

    monkeypatch.setattr(round_trip, "_encode", noted)
    [statement] = await written([Compiled("SELECT", parameters)])
    assert {name for name, value in statement.parameters.items() if isinstance(value, WrittenValue)} == written_ones
    assert threading.get_ident() not in threads
