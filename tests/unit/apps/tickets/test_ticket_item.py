"""Tickets as items: typed attributes, and what follows from what."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from retrieval.apps.tickets import ticket_item
from retrieval.domain.errors import InvalidItemError
from retrieval.surfaces.cli.input_files import InputFiles

CREATED = "2024-05-01T08:00:00Z"


def attributes(**fields: Any) -> dict[str, Any]:
    """The attributes of a ticket with these fields."""
    return dict(ticket_item({"ticket_id": "T-1", **fields}).attributes)


def test_a_ticket_is_an_item() -> None:
    """Its title, description, labels and time are the item's own fields; the rest are attributes."""
    item = ticket_item(
        {"ticket_id": "T-1", "Summary": "Login", "description": "fails", "labels": ["a", "b"], "created": CREATED,
         "priority": "High", "domain": "MM", "owner": "ann"},
    )  # fmt: skip
    assert (item.item_id, item.indexed_text, item.tags) == ("T-1", "Login\nfails", ("a", "b"))
    assert item.occurred_at == datetime(2024, 5, 1, 8, tzinfo=UTC)
    assert dict(item.attributes) == {"priority": "High", "domain": "MM", "owner": "ann"}


def test_metadata_may_stand_apart() -> None:
    """As in the ingest format; the top goes first."""
    item = ticket_item(
        {"_id": "T-1", "text": "x", "domain": "MM", "metadata": {"hours_to_resolve": 3, "domain": "CIW"}}
    )
    assert (item.item_id, item.body) == ("T-1", "x")
    assert dict(item.attributes) == {"domain": "MM", "resolution_time_hours": 3}


def test_texts_stay_texts() -> None:
    """A filter for "42" finds a domain 42."""
    assert attributes(domain=42, priority=1.5, resolution=True) == {
        "domain": "42", "priority": "1.5", "resolution": "true",
    }  # fmt: skip


def test_the_time_of_the_resolution_follows_from_the_hours_and_the_hours_from_it() -> None:
    """A question as of an earlier time then knows that the ticket was open."""
    assert attributes(created=CREATED, resolution_time_hours=24)["resolved_at"] == "2024-05-02T08:00:00+00:00"
    assert attributes(created=CREATED, resolved="2024-05-01T20:00:00Z")["resolution_time_hours"] == 12
    assert attributes(created=CREATED, resolved="2024-04-01")["resolution_time_hours"] == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"resolution_time_hours": 24},
        {"created": CREATED, "resolution_time_hours": -1},
        {"created": CREATED, "resolution_time_hours": 1e12},
        {"created": CREATED, "resolved": "next week"},
    ],
)
def test_underivable_fields_are_left_out(fields: dict[str, Any]) -> None:
    """No creation, no number, no time: the ticket is stored as it is."""
    record = {name: value for name, value in fields.items() if name != "created"}
    stored = {"resolved_at": record["resolved"]} if "resolved" in record else record
    assert attributes(**fields) == stored


@pytest.mark.parametrize(("written", "hours"), [("+5", 5), ("05", 5), (".5", 0.5), (" 4.50 ", 4.5), ("-1", -1)])
def test_hours_may_be_written_as_a_text(written: str, hours: float) -> None:
    """As some files have them."""
    assert attributes(resolution_time_hours=written) == {"resolution_time_hours": hours}


@pytest.mark.parametrize("written", ["soon", "4,5", "4.5h", "1,234.5", "NaN", "inf", "9" * 400, True, [4]])
def test_hours_that_are_not_a_number_are_refused(written: object) -> None:
    """They would silently not count."""
    with pytest.raises(InvalidItemError, match=r"'T-1': resolution_time_hours is .* write hours such as"):
        attributes(resolution_time_hours=written)


def test_a_row_of_csv_is_the_item_that_its_file_makes(tmp_path: Path) -> None:
    """Numbers, labels and times are texts, missing values are empty texts, and names are Jira's."""
    file = tmp_path / "tickets.csv"
    file.write_text(
        "Issue key,Summary,Description,Priority,Resolution-Time Hours,domain,Labels,Created,resolution,severity,flag\n"
        'T-1,"Login, again",fails,High,4.5,42,Code Fix;#MM,2024-05-01T08:00Z,true,3,true\n'
        "T-2,Logout,,,,  ,,,,,\n"
        "T-3,Logout,short\n",
        encoding="utf-8",
    )
    with file.open(encoding="utf-8", newline="") as rows:
        items = [ticket_item(row) for row in csv.DictReader(rows)]
    assert items == [line.item for line in InputFiles([str(file)], columns={}, file_format=None).lines()]
    first, second, third = items
    assert (first.tags, first.attributes["severity"]) == (("Code Fix", "#MM"), 3)
    assert (first.attributes["resolution_time_hours"], first.attributes["domain"]) == (4.5, "42")
    assert (second.body, second.tags, dict(second.attributes), second.occurred_at) == ("", (), {}, None)
    assert third.body == "short"


def test_a_row_that_was_changed_in_python_is_a_ticket_too() -> None:
    """Labels as text and empty values are read as in a row; other texts stay texts."""
    item = ticket_item({"ticket_id": "T-1", "labels": "a, b", "domain": "", "hours_to_resolve": 4.5, "owner": "42"})
    assert (item.tags, dict(item.attributes)) == (("a", "b"), {"resolution_time_hours": 4.5, "owner": "42"})


def test_a_row_with_more_fields_than_its_header_is_refused() -> None:
    """As the reader of files does; ``csv.DictReader`` puts them under None."""
    [row] = csv.DictReader(["ticket_id,title", "T-1,a,b"])
    with pytest.raises(InvalidItemError, match="more fields than the header"):
        ticket_item(row)


def test_a_ticket_needs_its_id() -> None:
    """As any item."""
    with pytest.raises(InvalidItemError, match="_id"):
        ticket_item({"title": "Login"})
    for record in (None, "x"):
        with pytest.raises(InvalidItemError, match="a ticket must be a dictionary"):
            ticket_item(record)  # type: ignore[arg-type]
