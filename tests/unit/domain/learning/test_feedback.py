"""Feedback as a value: what goes together, and what makes two events the same."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from retrieval import Context, Feedback
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.feedback import FeedbackReport, check_not_ahead, outcome_events
from retrieval.domain.search.hit import Path, SearchResult

SHOWN = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def hit_feedback(**values: Any) -> Feedback:
    """Feedback of a hit."""
    return Feedback(**{"retrieval_id": SHOWN, "item_id": "a", "helpful": True, **values})


def direct(**values: Any) -> Feedback:
    """Feedback of an item."""
    return Feedback(**{"collection": "docs", "item_id": "a", "helpful": True, **values})


@pytest.mark.parametrize(
    "values",
    [
        {"helpful": None},
        {"reward": 0.5},
        {"helpful": "yes"},
        {"helpful": None, "reward": 1.01},
        {"helpful": None, "reward": -0.1},
        {"helpful": None, "reward": math.inf},
        {"helpful": None, "reward": True},
        {"weight": 2},
        {"weight": math.nan},
        {"item_id": ""},
        {"item_id": "x" * 513},
        {"item_id": "a\x00"},
        {"item_id": 7},
        {"kind": ""},
        {"kind": "k" * 201},
        {"actor": "\ud800"},
        {"note": "n" * 10_001},
        {"at": datetime(2026, 3, 1)},  # noqa: DTZ001 - a time without a zone is what is refused
        {"at": "2026-03-01"},
        {"key": 7},
        {"key": ""},
        {"retrieval_id": "not an identifier"},
        {"retrieval_id": None},
        {"collection": "docs"},
        {"context": Context()},
    ],
)
def test_invalid_feedback_is_refused(values: dict[str, Any]) -> None:
    """In one line that says what to give instead."""
    with pytest.raises(InvalidRequestError) as refused:
        hit_feedback(**values)
    assert "\n" not in str(refused.value)


def test_a_result_in_place_of_its_identifier_is_told_by_its_type() -> None:
    """The text of a result has a line for each hit."""
    result = SearchResult(hits=(), path=Path.NONE, why="", profile_version=1)
    with pytest.raises(InvalidRequestError, match="is not a retrieval id; a recorded search's result has it"):
        hit_feedback(retrieval_id=result)


def test_helpful_is_a_reward_of_one_or_none_at_all() -> None:
    """A number close to zero becomes zero, so that products with it do not underflow."""
    assert (hit_feedback().reward, hit_feedback(helpful=False).reward) == (1.0, 0.0)
    assert hit_feedback(helpful=None, reward=1e-300, weight=1e-12).reward == 0
    assert hit_feedback(weight=1e-12).weight == 0


def test_a_retry_has_the_same_key_and_another_verdict_has_not() -> None:
    """The key of a hit's event has its subject, its actor, its reward, and its time if given, in any zone."""
    assert hit_feedback().own_key == hit_feedback(retrieval_id=str(SHOWN), note="again").own_key
    others = [
        hit_feedback(helpful=False),
        hit_feedback(item_id="b"),
        hit_feedback(actor="u"),
        hit_feedback(kind="click"),
        hit_feedback(at=AT),
        hit_feedback(key="x"),
        hit_feedback(key=SHOWN),
    ]
    assert len({event.own_key for event in [hit_feedback(), *others]}) == len(others) + 1
    assert hit_feedback(at=AT).own_key == hit_feedback(at=AT.astimezone(timezone(timedelta(hours=2)))).own_key
    assert hit_feedback(key="x").own_key == direct(key="x").own_key


def test_a_subject_is_what_a_later_verdict_replaces() -> None:
    """A hit's subject is retrieval, item, actor, kind; an item's also has a context, if it names an actor."""
    assert hit_feedback().subject == hit_feedback(helpful=False, at=AT, note="n", session="s").subject
    assert (
        len(
            {
                feedback.subject
                for feedback in (
                    hit_feedback(),
                    hit_feedback(actor="u"),
                    hit_feedback(kind="click"),
                    hit_feedback(item_id="b"),
                )
            }
        )
        == 4
    )
    named = direct(actor="u")
    assert named.subject == direct(helpful=False, context=Context(actor="u")).subject
    assert named.subject != direct(actor="u", context=Context(domain="db")).subject
    assert named.subject != direct(actor="u", session="s").subject
    assert direct().subject is None


def test_a_direct_event_without_an_actor_has_no_key() -> None:
    """Two such events cannot be distinguished from one that was sent twice."""
    assert direct().own_key is None
    assert direct(actor="u").own_key is not None
    assert direct(context=Context(session="s")).own_key is not None


def test_the_context_is_that_of_the_search_or_of_the_event() -> None:
    """A direct event counts in its context's buckets, a hit's event in those of its search."""
    assert hit_feedback().contexts is None
    assert direct(context=Context(domain="db", complexity=0.5)).contexts == ("", "domain=db", "complexity=medium")


def test_the_time_of_a_search_is_in_its_identifier() -> None:
    """To the millisecond; an identifier of another kind has none."""
    assert hit_feedback().retrieved_at == datetime(2023, 6, 30, 3, 34, 18, 518000, tzinfo=UTC)
    assert hit_feedback(retrieval_id=UUID(int=7)).retrieved_at is None
    assert direct().retrieved_at is None


def test_an_event_of_the_future_is_refused() -> None:
    """More than a day ahead; clocks may differ by less."""
    check_not_ahead(hit_feedback(at=AT), AT - timedelta(hours=23))
    with pytest.raises(InvalidRequestError, match="correct the clock"):
        check_not_ahead(hit_feedback(at=AT), AT - timedelta(hours=25))


def test_an_outcome_is_shared_in_equal_parts() -> None:
    """Each item once, of the kind ``outcome``."""
    events = outcome_events(SHOWN, ["a", "b", "a", "c", "d"], reward=0.5)
    assert [(event.item_id, event.weight, event.kind, event.reward) for event in events] == [
        (item_id, 0.25, "outcome", 0.5) for item_id in "abcd"
    ]
    nobody: list[str] = []
    for used in (nobody, "ab"):
        with pytest.raises(InvalidRequestError):
            outcome_events(SHOWN, used, reward=1)


def test_reports_add_up() -> None:
    """Reasons too."""
    report = FeedbackReport(recorded=2, repeated=1, superseding=1, discounted={"not shown": 1})
    assert (report + report).as_dict() == {
        "recorded": 4,
        "repeated": 2,
        "superseding": 2,
        "discounted": {"not shown": 2},
    }


@pytest.mark.parametrize("at", ["0001-01-01T00:00+14:00", "2026-01-01T00:00+17:23", "9999-12-31T23:59-15:00"])
def test_a_time_that_no_database_can_hold_is_refused(at: str) -> None:
    """Before the year 1 and after 9999 in UTC, and in a zone that is nowhere."""
    with pytest.raises(InvalidRequestError, match="at is"):
        Feedback(item_id="a", collection="docs", reward=1.0, at=datetime.fromisoformat(at))


def test_a_time_without_a_zone_is_shown_as_it_was_written() -> None:
    """Not in Python's own notation, since the command line and HTTP show the message too."""
    with pytest.raises(InvalidRequestError, match=r"^at is 2026-03-01T00:00:00; it must be a datetime"):
        direct(at=datetime(2026, 3, 1))  # noqa: DTZ001 - the test is about it


def test_an_array_is_no_actor_beside_a_context() -> None:
    """It is refused before the context's actor could take its place."""
    with pytest.raises(InvalidRequestError, match=r"^actor is array"):
        direct(actor=np.array([1, 2]), context=Context(actor="ann"))
