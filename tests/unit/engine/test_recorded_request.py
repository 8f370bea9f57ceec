"""What was asked comes back as it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from retrieval.domain.records.recorded import recorded_search
from retrieval.domain.search.filters import And, Contains, Filter, Not, OneOf, Or, parse_field, parse_where
from retrieval.engine.record import record, recorded_request, request_of
from retrieval.engine.request import SearchRequest, checked_request
from tests.support.recording import answered

WHERE = {"and": [{"priority": ["High", 1]}, {"occurred_at": {"gte": datetime(2026, 1, 1, tzinfo=UTC)}}]}


@pytest.mark.parametrize(
    "asked",
    [
        checked_request("some words"),
        checked_request('"a phrase" -without begin*', condition=parse_where(WHERE), limit=7, group_by="project"),
        checked_request("-without word", condition=parse_where({"tags": "x"})),
        checked_request('"one" "two"', group_by="attributes.kind"),
        checked_request("tagged", tags=["b", "a"], entities={"questions": ["q1"]}),
        checked_request("plain", condition=parse_where({"not": {"hours": {"exists": True}}})),
    ],
)
def test_a_request_comes_back(asked: SearchRequest) -> None:
    """Words, limit, grouping, prefixes, phrases and filter, in a form that means the same."""
    back = request_of(recorded_search(record(answered(request=asked)), None))
    assert back is not None
    assert replace(back, condition=None) == replace(asked, condition=None)
    assert _flat(back.condition) == _flat(asked.condition)


def _flat(condition: Filter | None) -> list[Filter]:
    """The parts that all have to hold."""
    if isinstance(condition, And):
        return [part for one in condition.filters for part in _flat(one)]
    return [] if condition is None else [condition]


@pytest.mark.parametrize(
    "condition", [Or((Contains("x"), OneOf(parse_field("kind"), ("note",)))), Not(Not(Contains("x")))]
)
def test_a_filter_that_no_mapping_can_say_is_told_apart_from_none(condition: Filter) -> None:
    """It cannot be asked again, and that is on record."""
    asked = checked_request("words", condition=condition)
    assert recorded_request(asked).condition == {}
    assert recorded_request(asked).request["is_whole"] is False
    assert request_of(recorded_search(record(answered(request=asked)), None)) is None
