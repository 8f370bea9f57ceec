"""Figures on the command line: periods as people type them, and rows as they are printed."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest

from retrieval.domain.analytics import AnalyticsColumn, AnalyticsTable, AnalyticsView
from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.cli.analytics import print_csv, print_rows, since_of, time_of

MARCH = datetime(2026, 3, 2, 10, 30, tzinfo=UTC)
TABLE = AnalyticsTable(
    view="queries",
    columns=("query", "retrieved_at", "day", "notes", "condition", "share", "id"),
    values=(("a, b", MARCH, date(2026, 3, 2), ["x", "y"], {"n": 1}, None, UUID(int=1)),),
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, None),
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
        ("4w", timedelta(weeks=4)),
        ("2026-03-02", datetime(2026, 3, 2, tzinfo=UTC)),
        ("2026-03-02T10:30+02:00", datetime.fromisoformat("2026-03-02T10:30+02:00")),
    ],
)
def test_a_beginning_is_an_age_or_a_time(text: str | None, wanted: object) -> None:
    """Times without a zone are UTC."""
    assert since_of(text) == wanted


@pytest.mark.parametrize("text", ["", "7", "d", "-7d", "7 days", "yesterday", "2026-13-01", "9999999d"])
def test_what_cannot_be_read_is_refused_with_an_example(text: str) -> None:
    """The message shows a date and an age; for the end of a period only a date."""
    with pytest.raises(InvalidRequestError, match=r"cannot read --since .*2026-11-01 or an age such as 7d"):
        since_of(text)
    with pytest.raises(InvalidRequestError, match=r"cannot read --until .*such as 2026-11-01$"):
        time_of("--until", text)


def test_csv_has_a_line_of_names_and_plain_values(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists and mappings are JSON, nothing is empty, a comma is quoted."""
    print_csv(TABLE)
    assert capsys.readouterr().out.splitlines() == [
        "query,retrieved_at,day,notes,condition,share,id",
        '"a, b",2026-03-02T10:30:00+00:00,2026-03-02,"[""x"", ""y""]","{""n"": 1}",,' + str(UUID(int=1)),
    ]


def test_csv_of_the_list_of_views_names_each(capsys: pytest.CaptureFixture[str]) -> None:
    """A view and its sentence a line."""
    column = AnalyticsColumn(name="collection", type="text", about="")
    print_csv([AnalyticsView(name="usage", about="How it fared.", columns=(column,), is_function=False)])
    assert capsys.readouterr().out.splitlines() == ["view,about", "usage,How it fared."]


def test_rows_that_fit_are_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are in UTC to the minute, lists are joined, and a column without a value is left out."""
    monkeypatch.setenv("COLUMNS", "200")
    print_rows(TABLE)
    names, _, row = capsys.readouterr().out.splitlines()
    assert names.split() == ["query", "retrieved_at", "day", "notes", "condition", "id"]
    assert "a, b    2026-03-02 10:30   2026-03-02   x, y    {'n': 1}" in row


def test_rows_that_do_not_fit_are_lists(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is numbered and has a line a column, however many columns there are."""
    monkeypatch.setenv("COLUMNS", "60")
    print_rows(AnalyticsTable(view="queries", columns=TABLE.columns, values=TABLE.values * 2))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1"] in lines
    assert ["2"] in lines
    assert lines.count(["retrieved_at", "2026-03-02", "10:30"]) == 2
