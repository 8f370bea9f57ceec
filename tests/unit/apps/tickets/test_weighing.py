"""The hybrid score of tickets that were found already."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from retrieval.apps.tickets import PriorityWeights, ProcessingError, rescored
from retrieval.domain.errors import InvalidItemError, InvalidRequestError


def test_the_score_is_the_formulas() -> None:
    """vector_weight × similarity + metadata_weight × (0.6 × priority + 0.4 × time)."""
    tickets = [
        {"ticket_id": "a", "vector_similarity": 0.9, "priority": "Low", "resolution_time_hours": 80.0, "extra": 1},
        {"ticket_id": "b", "vector_similarity": 0.8, "priority": "critical", "resolution_time_hours": 20},
        {"ticket_id": "c", "vector_similarity": -0.5},
    ]

    rescored_tickets = rescored(tickets, 0.6, 0.4)

    assert [ticket["ticket_id"] for ticket in rescored_tickets] == ["b", "a", "c"]
    metadata = [0.6 * 1.0 + 0.4 * 0.8, 0.6 * 0.3 + 0.4 * 0.2, 0.6 * 0.5 + 0.4 * 0.76]
    assert [ticket["metadata_score"] for ticket in rescored_tickets] == pytest.approx(metadata)
    expected = [0.6 * 0.8 + 0.4 * metadata[0], 0.6 * 0.9 + 0.4 * metadata[1], 0.4 * metadata[2]]
    assert [ticket["similarity_score"] for ticket in rescored_tickets] == pytest.approx(expected)
    assert rescored_tickets[1]["extra"] == 1
    assert "similarity_score" not in tickets[0]


def test_weights_of_priorities_and_hours_can_be_given() -> None:
    """As in a request."""
    ticket = {"vector_similarity": 0.5, "priority": "Urgent", "resolution_time_hours": 5}

    for weights in (PriorityWeights.model_validate({"Urgent": 0.9}), {"Urgent": 0.9}):
        for written in (ticket, {**ticket, "resolution_time_hours": " 5.0"}):
            [scored] = rescored([written], time_normalization_hours=10, priority_weights=weights)
            assert scored["metadata_score"] == pytest.approx(0.6 * 0.9 + 0.4 * 0.5)
    with pytest.raises(InvalidItemError, match="ticket '1': resolution_time_hours is 'soon'"):
        rescored([{**ticket, "resolution_time_hours": "soon"}])
    with pytest.raises(ValidationError, match="Urgent"):
        rescored([ticket], priority_weights={"Urgent": 9})


def test_equal_scores_are_ordered_by_id_and_nothing_is_nothing() -> None:
    """The order does not depend on the order given."""
    tickets = [{"ticket_id": name, "vector_similarity": 0.5} for name in ("b", "a")]

    assert [ticket["ticket_id"] for ticket in rescored(tickets)] == ["a", "b"]
    assert rescored([]) == []


@pytest.mark.parametrize(
    "value", [None, "0.5", True, float("nan"), 10**400, pytest.param(10**5000, id="5000 digits"), 1.1, -1.1, 85]
)
def test_a_ticket_needs_its_similarity(value: Any) -> None:
    """The error names the ticket."""
    with pytest.raises(ProcessingError, match=r"'T-1': vector_similarity"):
        rescored([{"ticket_id": "T-1", "vector_similarity": value}])


@pytest.mark.parametrize("digits", [400, 5000])
def test_hours_that_no_float_holds_are_refused(digits: int) -> None:
    """Python does not even write numbers of thousands of digits."""
    with pytest.raises(InvalidItemError, match="'T-1': resolution_time_hours is a number of many digits; write hours"):
        rescored([{"ticket_id": "T-1", "vector_similarity": 0.5, "resolution_time_hours": 10**digits}])


def test_one_weight_is_completed_and_two_hold() -> None:
    """As in a request."""
    tickets = [{"vector_similarity": 0.5, "priority": "High", "resolution_time_hours": 100}]
    rescored_tickets = [
        rescored(tickets, vector_weight=0.8),
        rescored(tickets, metadata_weight=0.2),
        rescored(tickets, vector_weight=0.9, metadata_weight=0.9),
    ]
    scores = [ticket["similarity_score"] for [ticket] in rescored_tickets]
    assert scores == pytest.approx([0.8 * 0.5 + 0.2 * 0.48] * 2 + [0.9 * 0.5 + 0.9 * 0.48])


@pytest.mark.parametrize("tickets", [None, "ab", 5, {"vector_similarity": 0.5}])
def test_tickets_come_in_a_list(tickets: Any) -> None:
    """Anything else is refused in one line."""
    with pytest.raises(InvalidRequestError, match="tickets come in a list"):
        rescored(tickets)


def test_weights_that_make_no_score_are_refused() -> None:
    """As everywhere."""
    with pytest.raises(ProcessingError, match="both 0"):
        rescored([], 0, 0)
    with pytest.raises(ProcessingError, match="vector_weight is a number of many digits"):
        rescored([], 10**5000, 0.5)
    with pytest.raises(ProcessingError, match=r"^time_normalization_hours is 0; it must be a number above 0"):
        rescored([], time_normalization_hours=0)
