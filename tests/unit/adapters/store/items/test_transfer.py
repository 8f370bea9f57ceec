"""The values of a file's rows: those that the database would store, and no program could read back, are refused."""

from __future__ import annotations

from unittest.mock import AsyncMock, MagicMock

import pytest
from sqlalchemy import DateTime
from sqlalchemy.dialects.postgresql import JSONB

from retrieval.adapters.store.items.transfer import KINDS, check_row, lines_of
from retrieval.adapters.store.tables import TABLES
from retrieval.domain.errors import InvalidRequestError


def columns_of(kind: type) -> list[tuple[str, str]]:
    """The columns of that type, each with the kind of its rows."""
    return [
        (name, column.name)
        for name in KINDS
        for column in TABLES[KINDS[name].table].columns
        if isinstance(column.type, kind)
    ]


TIMES = columns_of(DateTime)
OBJECTS = columns_of(JSONB)
GIVEN = [(kind, name) for kind, name in TIMES if name in {"occurred_at", "happened_at", "expires_at", "last_used_at"}]


@pytest.mark.parametrize(("kind", "name"), TIMES)
def test_a_time_must_be_one_that_python_can_read(kind: str, name: str) -> None:
    """With a zone; PostgreSQL also has infinite times, and those of a hundred thousand years."""
    values: list[object] = ["infinity", "-infinity", "2026-01-01T00:00:00", "10000-01-01T00:00:00+00:00", "now", 7, []]
    for value in values:
        with pytest.raises(InvalidRequestError, match=name):
            check_row(kind, {name: value})
    check_row(kind, {name: "2026-01-01T12:30:15.123456+02:00"})
    check_row(kind, {name: None})


@pytest.mark.parametrize(("kind", "name"), TIMES)
def test_only_a_time_that_an_application_gave_may_be_of_any_year(kind: str, name: str) -> None:
    """The platform's clock shows none before 1970."""
    for value in ("0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00"):
        if (kind, name) in GIVEN:
            check_row(kind, {name: value})
        else:
            with pytest.raises(InvalidRequestError, match="1970 to 2999"):
                check_row(kind, {name: value})


@pytest.mark.parametrize(("kind", "name"), OBJECTS)
def test_json_must_be_an_object(kind: str, name: str) -> None:
    """Only the signals of a recorded search may be a list too."""
    for value in ("x", -1, True, *([] if name == "shown_signals" else [[]])):
        with pytest.raises(InvalidRequestError, match=name):
            check_row(kind, {name: value})
    check_row(kind, {name: {}})


def test_a_number_must_be_finite_and_a_day_a_date() -> None:
    """PostgreSQL reads both from texts, and has infinite ones."""
    for kind, name, value in (
        ("arm", "successes", "Infinity"),
        ("feedback", "reward", "NaN"),
        ("retrieval", "top_score", True),
        ("loss", "day", "infinity"),
        ("loss", "day", "2026-13-01"),
    ):
        with pytest.raises(InvalidRequestError, match=name):
            check_row(kind, {name: value})
    check_row("loss", {"day": "2026-05-31"})
    check_row("arm", {"successes": 0.5, "failures": 1})


@pytest.mark.parametrize(("size", "most"), [(1, 50), (100, 10), (400, 2), (5_000, 1)])
async def test_rows_are_read_by_their_size(size: int, most: int) -> None:
    """A page of many long rows would need memory for all of them."""
    left, pages = [("x" * size, False)] * 200, list[int]()

    async def page(number: int) -> list[tuple[str, bool]]:
        pages.append(number)
        taken, left[:] = left[:number], left[number:]
        return taken

    connection = MagicMock()
    connection.cursor.return_value.__aenter__.return_value = AsyncMock(fetchmany=page)
    read = [line async for lines in lines_of(connection, 1, None, "item", most=50, most_bytes=1_000) for line in lines]

    assert len(read) == 200
    assert max(pages) == most
