"""The formulas, with the design's examples, including those that contradict them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from retrieval.apps.memories.engine import (
    compute_entity_score,
    compute_hybrid_score,
    compute_keyword_score,
    compute_popularity_score,
    compute_recency_score,
)
from retrieval.apps.memories.requests import SEED_PROFILE, SEMANTIC_PROFILE, STRATEGIES
from retrieval.domain.search.signals import Facts, Question

NOW = datetime(2025, 11, 22, tzinfo=UTC)


def test_keywords_are_the_share_of_the_querys_words() -> None:
    """Two of three, whatever their case, without stop words."""
    assert compute_keyword_score("protein folding mechanisms", "Study of Protein folding in cells") == 2 / 3
    assert compute_keyword_score("the a of", "the a of") == 0
    assert compute_keyword_score("", "text") == 0


def test_the_signal_entities_is_the_share_of_the_questions_entities() -> None:
    """Two of three; the same id of another type is another entity."""
    entities = {"questions": ["q1", "q2"], "hypotheses": ["h1"]}

    assert compute_entity_score(entities, {"questions": ["q1"], "hypotheses": ["h1"]}) == 2 / 3
    assert compute_entity_score(entities, {"hypotheses": ["q1"]}) == 0
    assert compute_entity_score({}, {"questions": ["q1"]}) == 0


@pytest.mark.parametrize(
    ("days", "score"), [(0, 1.0), (0.5, 0.9649), (7, 0.6065), (14, 0.3679), (30, 0.1173), (90, 0.0016), (-3, 1.0)]
)
def test_recency_decays_by_the_formula(days: float, score: float) -> None:
    """e^(-days / 14); the examples .7 after a week, .3 after a month and .1 after three do not match."""
    assert compute_recency_score(NOW - timedelta(days=days), NOW) == pytest.approx(score, abs=5e-5)


@pytest.mark.parametrize(("accesses", "score"), [(0, 0.0), (1, 0.1502), (10, 0.5196), (100, 1.0), (5000, 1.0)])
def test_popularity_grows_by_the_formula(accesses: int, score: float) -> None:
    """log10(n + 1) / log10(101); the examples .3 for none, .5 for one and .8 for ten do not match."""
    assert compute_popularity_score(accesses) == pytest.approx(score, abs=5e-5)


def test_the_hybrid_is_the_weighted_sum() -> None:
    """.30 relevance, .25 recency, .20 keyword, .15 popularity, .10 entity; a memory with everything has 1.

    Words and entities that nobody asked for leave their weights to the others.
    """
    facts = Facts(body="protein", happened_at=NOW, accesses=100, entities=frozenset({("questions", "q1")}))
    question = Question(now=NOW, words="protein", entities=frozenset({("questions", "q1")}))

    assert compute_hybrid_score(facts, question) == pytest.approx(1.0)
    assert compute_hybrid_score(Facts(base_relevance=0.5), Question(now=NOW)) == pytest.approx(0.15 / 0.7)


def test_the_weights_are_the_stated_ones_and_sum_to_one() -> None:
    """Meaning counts nothing by default, and something in the profile that says so."""
    assert dict(SEED_PROFILE.weights) == {
        "base_relevance": 0.30, "recency": 0.25, "keyword": 0.20, "popularity": 0.15, "entity": 0.10,
    }  # fmt: skip
    assert sum(SEED_PROFILE.weights.values()) == pytest.approx(1)
    assert sum(SEMANTIC_PROFILE.weights.values()) == pytest.approx(1)
    assert SEMANTIC_PROFILE.weights["vector_similarity"] > 0


def test_there_are_five_strategies_of_which_four_are_one_signal_alone() -> None:
    """Each asks for at least .3."""
    assert list(STRATEGIES) == ["keyword", "entity", "recency", "popularity", "hybrid"]
    assert [list(profile.weights.items()) for profile in list(STRATEGIES.values())[:4]] == [
        [("keyword", 1.0)], [("entity", 1.0)], [("recency", 1.0)], [("popularity", 1.0)],
    ]  # fmt: skip
    assert {profile.min_score for profile in STRATEGIES.values()} == {0.3}
