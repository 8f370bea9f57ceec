"""Hits and their explanations, as people and machines read them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from retrieval.domain.items.item import Item
from retrieval.domain.search.hit import Contribution, Explanation, Hit, Path, SearchResult

EXPLANATION = Explanation(
    "rrf", (Contribution("dense", 2, 0.75, 1.0, 1 / 62), Contribution("lexical", 1, 12.5, 2.0, 2 / 61))
)
HIT = Hit(
    item_id="a", score=EXPLANATION.score, rank=1, explanation=EXPLANATION, occurred_at=datetime(2024, 1, 1, tzinfo=UTC)
)
RESULT = SearchResult(hits=(HIT,), path=Path.EXACT, why="few items", profile_version=3, timings_ms={"total": 1.5})


def test_a_hit_has_its_item() -> None:
    """The item's fields without those of the search."""
    item = Item(
        item_id="a", title="A", body="text", tags=("b",), attributes={"year": 1960}, occurred_at=HIT.occurred_at
    )
    assert replace(HIT, title="A", body="text", tags=("b",), attributes={"year": 1960}).item == item


def test_an_explanation_adds_up() -> None:
    """Its score is the sum of its contributions."""
    assert EXPLANATION.score == 1 / 62 + 2 / 61


def test_an_explanation_reads_as_a_sum() -> None:
    """Score, then each leg's part with rank, raw score and weight."""
    text = str(EXPLANATION)
    assert text.startswith("0.04892 = 0.01613 dense (rank 2, raw 0.750, weight 1) + 0.03279 lexical (rank 1")
    assert text.endswith("[rrf]")


def test_a_result_is_a_sequence_of_hits() -> None:
    """It can be indexed, sliced, counted and walked, and is falsy when empty."""
    assert (RESULT[0], list(RESULT), len(RESULT), RESULT[:1]) == (HIT, [HIT], 1, (HIT,))
    assert not SearchResult(hits=(), path=Path.NONE, why="", profile_version=None)


def test_a_result_is_plain_json() -> None:
    """A machine can read everything that a person can."""
    payload = json.loads(json.dumps(RESULT.as_dict()))
    assert payload["path"] == "exact"
    assert payload["profile_version"] == 3
    assert payload["hits"][0]["occurred_at"] == "2024-01-01T00:00:00+00:00"
    parts = payload["hits"][0]["explanation"]["contributions"]
    assert sum(part["value"] for part in parts) == payload["hits"][0]["score"]


def test_a_hit_and_an_answer_are_short_in_their_plain_form() -> None:
    """A hit has two lines of a terminal at most, an answer a line for each of ten."""
    explanation = Explanation("rrf", ())
    long = Hit(item_id="T" * 500, score=1 / 3, rank=1000, explanation=explanation, title="a\nb", body="word " * 500)
    assert len(repr(long)) <= 160
    short = replace(long, item_id="T-1", rank=1, body="b\nc", attributes={"year": 1960})
    text = "id='T-1', score=0.3333, title='a b', text='b c', metadata={'year': 1960}"
    assert repr(short) == f"Hit(rank=1, {text})"
    assert "metadata={…}" in repr(replace(long, attributes={"note": "x" * 500}))
    result = SearchResult(hits=(long,) * 12, path=Path.EXACT, why="", profile_version=1, notes=("so it is",))
    assert repr(result).splitlines() == ["<12 hits, exact>", *[repr(long)] * 10, "…", "note: so it is"]
