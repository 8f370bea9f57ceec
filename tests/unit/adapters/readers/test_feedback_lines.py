"""Files of feedback: an event a line, and the errors of the other lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retrieval import Context, Feedback
from retrieval.adapters.readers.feedback_lines import MAX_LINE_BYTES, read_feedback
from retrieval.domain.errors import BadLineError
from retrieval.surfaces.http.routes.learning import FeedbackEvent

DIRECT = {"collection": "docs", "item_id": "a", "helpful": True}


def test_a_line_is_an_event(tmp_path: Path) -> None:
    """The names are those of ``Feedback`` and of an event over HTTP; null is ignored."""
    path = tmp_path / "events.jsonl"
    more = {
        "context": {"domain": "db", "complexity": 0.2},
        "at": "2026-03-01T12:00:00+00:00",
        "actor": "u",
        "note": None,
    }
    path.write_text(json.dumps(DIRECT | more) + "\n\n")
    ((number, event),) = read_feedback(str(path))
    assert number == 1
    assert isinstance(event, Feedback)
    assert event.context == Context(domain="db", complexity=0.2)
    assert (event.actor, event.at and event.at.year, event.note) == ("u", 2026, "")
    assert event == FeedbackEvent.model_validate(DIRECT | more | {"note": ""}).event()


def test_events_without_an_actor_are_recognised_by_their_lines(tmp_path: Path) -> None:
    """The same line twice is two events; the same file twice is the same events."""
    path = tmp_path / "events.jsonl"
    path.write_text(f"{json.dumps(DIRECT)}\n" * 2)
    keys = [[event.own_key for _, event in read_feedback(str(path)) if isinstance(event, Feedback)] for _ in range(2)]
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == 2


def test_lines_that_differ_late_are_two_events(tmp_path: Path) -> None:
    """The whole line identifies an anonymous event, whatever its length."""
    path = tmp_path / "events.jsonl"
    blank = " " * 20_000
    path.write_text("".join(f"{{{blank}{json.dumps(DIRECT | {'item_id': item_id})[1:]}\n" for item_id in "ab"))
    first, second = (event.own_key for _, event in read_feedback(str(path)) if isinstance(event, Feedback))
    assert None is not first != second


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "object"),
        (json.dumps(DIRECT | {"helpfull": True}), "'helpfull'"),
        (json.dumps(DIRECT | {"at": "yesterday"}), "at is 'yesterday'"),
        (json.dumps({"collection": "docs", "helpful": True}), "item_id"),
        (json.dumps(DIRECT | {"note": "n" * MAX_LINE_BYTES}), "longer than"),
        (json.dumps(DIRECT | {"context": {"complexity": 2}}), "complexity"),
        (json.dumps(DIRECT | {"context": {"domian": "db"}}), "'domain'"),
        (json.dumps(DIRECT | {"context": "db"}), "written as an object"),
        (json.dumps(DIRECT | {"domain": "db"}), "no field 'domain'; write it in 'context'"),
    ],
)
def test_an_unusable_line_is_reported_with_its_number(tmp_path: Path, text: str, reason: str) -> None:
    """The lines after it are read."""
    path = tmp_path / "events.jsonl"
    path.write_text(f"\n{text}\n{json.dumps(DIRECT)}\n")
    (_, bad), (_, good) = read_feedback(str(path))
    assert isinstance(bad, BadLineError)
    assert str(bad).startswith(f"{path}:2: ")
    assert reason in str(bad)
    assert isinstance(good, Feedback)
