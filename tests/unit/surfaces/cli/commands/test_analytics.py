"""Figures on the command line: periods as people type them, and rows as they are printed."""

from __future__ import annotations

from datetime import UTC, date, datetime
from uuid import UUID

import pytest

from retrieval.domain.records.analytics import AnalyticsTable
from retrieval.surfaces.cli.commands.analytics import print_csv, rows_of
from retrieval.surfaces.cli.output import show

MARCH = datetime(2026, 3, 2, 10, 30, tzinfo=UTC)
TABLE = AnalyticsTable(
    view="queries",
    columns=("query", "retrieved_at", "day", "notes", "condition", "share", "id"),
    values=(("a, b", MARCH, date(2026, 3, 2), ["x", "y"], {"n": 1}, None, UUID(int=1)),),
)


def test_csv_has_a_line_of_names_and_plain_values(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists and mappings are JSON, nothing is empty, a comma is quoted."""
    print_csv(TABLE)
    assert capsys.readouterr().out.splitlines() == [
        "query,retrieved_at,day,notes,condition,share,id",
        '"a, b",2026-03-02T10:30:00+00:00,2026-03-02,"[""x"", ""y""]","{""n"": 1}",,' + str(UUID(int=1)),
    ]


def test_rows_that_fit_are_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are in UTC to the minute, lists are joined, and empty columns are left out."""
    monkeypatch.setenv("COLUMNS", "200")
    show(rows_of(TABLE))
    names, _, row = capsys.readouterr().out.splitlines()
    assert names.split() == ["query", "retrieved", "at", "day", "notes", "condition", "id"]
    assert 'a, b    2026-03-02 10:30   2026-03-02   x, y    {"n": 1}' in row


def test_rows_that_do_not_fit_are_lists(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of several rows is numbered, and has a line a column, however many columns there are."""
    monkeypatch.setenv("COLUMNS", "60")
    show(rows_of(AnalyticsTable(view="queries", columns=TABLE.columns, values=TABLE.values * 2)))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["row", "1", "value"] in lines
    assert ["row", "2", "value"] in lines
    assert lines.count(["retrieved", "at", "2026-03-02", "10:30"]) == 2
