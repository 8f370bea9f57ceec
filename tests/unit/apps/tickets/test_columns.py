"""The recognition of files with tickets, and of their columns."""

from __future__ import annotations

import pytest

from retrieval.apps.tickets.ticket_item import ticket_columns


def test_the_columns_of_historical_tickets_are_known() -> None:
    """Each part of a ticket's item has its columns; other columns keep their names."""
    header = (
        "ticket_id,title,description,priority,labels,resolution_time_hours,domain,resolution,created,resolved,owner"
    )
    assert ticket_columns(header.split(",")) == {
        "_id": "ticket_id",
        "title": "title",
        "text": "description",
        "tags": "labels",
        "occurred_at": "created",
        "attributes.priority": "priority",
        "attributes.domain": "domain",
        "attributes.resolution": "resolution",
        "attributes.resolution_time_hours": "resolution_time_hours",
        "attributes.resolved_at": "resolved",
    }


def test_other_names_case_and_spaces_do_not_matter() -> None:
    """Jira's exports have other names; of two names for one part the earlier one is used."""
    columns = ticket_columns(
        ["Issue key", " Summary", "Description", "Labels", "Labels", "Created", "hours-to-resolve"]
    )
    assert columns == {
        "_id": "Issue key",
        "title": "Summary",
        "text": "Description",
        "tags": "Labels",
        "occurred_at": "Created",
        "attributes.resolution_time_hours": "hours-to-resolve",
    }
    both = ticket_columns(["ticket_id", "summary", "title"])
    assert both is not None
    assert both["title"] == "title"


@pytest.mark.parametrize("header", ["_id,title,priority", "id,ticket_id,title", "ticket_id,priority", "key,text", ""])
def test_a_file_without_tickets_is_not_read_as_tickets(header: str) -> None:
    """With an item's id of its own, without texts, without a ticket's id."""
    assert ticket_columns(header.split(",")) is None
