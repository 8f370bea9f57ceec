"""The moves between the pages of two profiles, and their descriptions."""

from __future__ import annotations

import json

from retrieval.domain.search.hit import Contribution, Explanation, Hit, Path, SearchResult
from retrieval.domain.search.preview import preview_of, shares_of
from retrieval.domain.search.profile import Profile

WORDS, BOTH = Profile(legs={"lexical": 1.0}), Profile()


def hit(item_id: str, rank: int, **values: float) -> Hit:
    """A hit whose legs have brought these values."""
    parts = tuple(Contribution(leg, rank, 0.5, 1.0, value) for leg, value in values.items())
    explanation = Explanation("rrf", parts)
    return Hit(item_id=item_id, score=explanation.score, rank=rank, explanation=explanation)


def result(*hits: Hit) -> SearchResult:
    """The result of a search."""
    return SearchResult(hits=hits, path=Path.EXACT, why="few", profile_version=None, notes=("a note",))


PREVIEW = preview_of(
    "some words",
    [
        ("now", BOTH, result(hit("a", 1, dense=0.6, lexical=0.2), hit("b", 2, dense=0.5), hit("c", 3, dense=0.4))),
        ("words", WORDS, result(hit("c", 1, lexical=0.9), hit("b", 2, dense=0.5), hit("d", 3, lexical=0.1, dense=0.3))),
    ],
)


def test_each_hit_has_its_move_and_the_parts_of_its_score() -> None:
    """Up, staying, new: with the changed parts, or with all parts."""
    moved = [(change.hit.item_id, change.rank_before, change.moved, change.why) for change in PREVIEW.previews[1].hits]
    assert moved == [
        ("c", 3, 2, "up 2, from 3 to 1: lexical 100% (was 0%), dense 0% (was 100%)"),
        ("b", 2, 0, "stays at 2: the parts of its score did not change"),
        ("d", None, None, "in, at 3: dense 75% (rank 3), lexical 25% (rank 3)"),
    ]


def test_entering_and_leaving_hits_are_named() -> None:
    """Against the first page, which misses and gains nothing against itself."""
    now, words = PREVIEW.previews
    assert (now.entered, now.left) == ((), ())
    assert words.entered == ("d",)
    assert [(change.hit.item_id, change.rank_before, change.why) for change in words.left] == [
        ("a", 1, "out, was 1: dense 75% (rank 1), lexical 25% (rank 1)")
    ]


def test_shares_add_up_and_a_score_of_nothing_has_none() -> None:
    """A hit without a score divides nothing by nothing."""
    assert shares_of(hit("a", 1, dense=3.0, lexical=1.0)) == {"dense": 0.75, "lexical": 0.25}
    assert shares_of(hit("a", 1, dense=0.0)) == {"dense": 0.0}


def test_a_preview_is_plain_json() -> None:
    """With each profile as it would be stored."""
    payload = json.loads(json.dumps(PREVIEW.as_dict()))
    assert payload["baseline"] == "now"
    assert [preview["name"] for preview in payload["previews"]] == ["now", "words"]
    assert payload["previews"][1]["profile"]["legs"] == {"lexical": 1.0}
    assert payload["previews"][1]["notes"] == ["a note"]
