"""Principles as text, for a model to read."""

from __future__ import annotations

from retrieval.apps.principles.principle import Principle
from retrieval.surfaces.mcp.principles import NOTHING_FOUND, PrincipleAnswer, found_text, principle_text

PROVED = Principle(
    id="p1",
    title="Test first",
    body="A failing test\nshows the way.",
    tags=("testing",),
    use_count=3,
    success_count=2,
    added_by="ann",
)
NEW = Principle(id="p2", title="Ask why", status="candidate")


def test_a_principle_is_shown_with_its_record() -> None:
    """Its id is in brackets, for rating it; its score is (2 + 1) / (3 + 2)."""
    assert principle_text(PrincipleAnswer.of(PROVED, exploring=False)).splitlines() == [
        '**[p1]** "Test first"',
        "> A failing test",
        "> shows the way.",
        "tags: testing · score 0.60 · added by ann · helped in 2 of 3 uses",
    ]


def test_one_to_be_tried_out_is_marked() -> None:
    """The mark follows the id, as at the start of a session; a candidate is marked as such too."""
    assert principle_text(PrincipleAnswer.of(NEW, exploring=True)).splitlines() == [
        '**[p2]** (exploring) "Ask why"',
        "score 0.50 · added by nobody named · not rated yet · candidate",
    ]


def test_an_answer_ends_with_the_next_step() -> None:
    """Rate it; or, where nothing was found, ask otherwise."""
    assert "rate_principle(principle_id, was_helpful)" in found_text([PrincipleAnswer.of(PROVED, exploring=False)])
    assert found_text([], ["Note: x."]) == f"{NOTHING_FOUND}\n\nNote: x."
