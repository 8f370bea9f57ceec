"""A statement's placeholders as the server numbers them."""

from __future__ import annotations

import pytest

from retrieval.adapters.store.round_trip import _numbered


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
    assert _numbered(text) == (numbered, expected)
