"""From the legs' candidates to one ranking, and to the best of each group."""

from __future__ import annotations

from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.search.fusion import Candidate, Fused
from retrieval.domain.search.hit import Path
from retrieval.domain.search.profile import Fusion, FusionKind, Profile
from retrieval.engine.ranking import best_of_groups, fusion_name, ranking

DENSE = [Candidate("dense", "a", 1, 0.9), Candidate("dense", "b", 2, 0.4)]
LEXICAL = [Candidate("lexical", "b", 1, 7.5)]


def _found(**rankings: list[Candidate]) -> Found:
    return Found(rankings, Path.EXACT, 2)


def _ranked(*item_ids: str) -> list[Fused]:
    return [Fused(item_id, 1.0 / place, ()) for place, item_id in enumerate(item_ids, 1)]


def test_one_legs_scores_are_the_hits() -> None:
    """A cosine stays a cosine; the explanation has the one part, which is the score."""
    found = _found(dense=DENSE)
    ranked = ranking(found, Profile(), 100)
    assert [(one.item_id, one.score) for one in ranked] == [("a", 0.9), ("b", 0.4)]
    assert [(part.leg, part.rank, part.value) for one in ranked for part in one.contributions] == [
        ("dense", 1, 0.9),
        ("dense", 2, 0.4),
    ]
    assert fusion_name(found, Profile()) == "none"


def test_several_legs_are_fused() -> None:
    """Also where one of them found nothing."""
    profile = Profile(legs={"dense": 1, "lexical": 1}, fusion=Fusion(kind=FusionKind.RRF, k=60))
    found = _found(dense=DENSE, lexical=LEXICAL)
    assert [one.item_id for one in ranking(found, profile, 100)] == ["b", "a"]
    assert fusion_name(found, profile) == "rrf"
    assert ranking(_found(dense=DENSE, lexical=[]), profile, 100)[0].score == 1 / 61


def test_no_candidates_make_an_empty_ranking() -> None:
    """Of one leg or of both."""
    assert ranking(_found(dense=[]), Profile(), 10) == []
    assert ranking(_found(dense=[], lexical=[]), Profile(), 10) == []


def test_of_each_group_the_best_stays_in_order() -> None:
    """Whatever kind of value names the group; the number 1 and the text "1" are two."""
    groups = {"a": "x", "b": "x", "c": 1, "d": "1", "e": 1, "f": True}
    assert [one.item_id for one in best_of_groups(_ranked("a", "b", "c", "d", "e", "f"), groups)] == [
        "a",
        "c",
        "d",
        "f",
    ]


def test_an_item_without_a_group_is_one_of_its_own() -> None:
    """It is neither left out nor thrown together with others; nor with a group that has its key for a name."""
    groups = {"a": None, "c": "a"}
    assert [one.item_id for one in best_of_groups(_ranked("a", "b", "c"), groups)] == ["a", "b", "c"]


def test_lists_are_groups_too() -> None:
    """An attribute may hold one."""
    groups = {"a": ["x", "y"], "b": ["x", "y"], "c": ["x"]}
    assert [one.item_id for one in best_of_groups(_ranked("a", "b", "c"), groups)] == ["a", "c"]
