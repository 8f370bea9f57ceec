"""Reranking in a profile, valid scores, and the combined score."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from retrieval import Profile
from retrieval.domain.errors import InvalidProfileError, RerankerRejectedError
from retrieval.domain.search.reranking import (
    READ,
    Rerank,
    checked_scores,
    reranked_scores,
    squashed,
    text_for_reranker,
)


def test_a_profile_is_stored_and_read_with_its_reranking() -> None:
    """Profiles that were stored without it have none."""
    profile = replace(Profile(), rerank=Rerank(model="tei/host:80", candidates=5, milliseconds=100, weight=0.25))
    assert Profile.from_dict(profile.as_dict()) == profile
    assert profile.as_dict()["rerank"] == {
        "model": "tei/host:80",
        "candidates": 5,
        "milliseconds": 100,
        "weight": 0.25,
    }
    plain = Profile().as_dict()
    assert plain.pop("rerank") is None
    assert Profile.from_dict(plain) == Profile() == Profile.from_dict({**plain, "rerank": None})
    assert Profile.from_dict({**plain, "rerank": {}}).rerank == Rerank()


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"candidates": 0}, "candidates"),
        ({"candidates": 1001}, "candidates"),
        ({"candidates": True}, "candidates"),
        ({"milliseconds": 0}, "milliseconds"),
        ({"milliseconds": 0.5}, "milliseconds"),
        ({"weight": 0}, "leave rerank out"),
        ({"weight": 1.5}, "weight"),
        ({"weight": math.nan}, "weight"),
        ({"model": ""}, "rerank model"),
        ({"model": 7}, "rerank model"),
        ({"model": "a\nb"}, "rerank model"),
        ({"key": "secret"}, "there are: model, candidates, milliseconds, weight"),
        (True, "is an object of"),
        ("cohere", "is an object of"),
    ],
)
def test_a_reranking_that_cannot_be_is_refused(values: Any, why: str) -> None:
    """In one line that names the part."""
    with pytest.raises(InvalidProfileError, match=why):
        Profile.from_dict({"legs": {"lexical": 1}, "rerank": values})


def test_another_value_is_refused_in_python_too() -> None:
    """A mapping is no ``Rerank``."""
    with pytest.raises(InvalidProfileError, match="Rerank"):
        Profile(rerank={"candidates": 3})  # type: ignore[arg-type]


def test_scores_of_any_type_of_number_are_taken() -> None:
    """Any numeric type is valid."""
    assert checked_scores(np.array([0.0, 0.5, 1.0], dtype=np.float32), 3) == [0.0, 0.5, 1.0]
    assert checked_scores([np.array(0.5), Decimal("0.25")], 2) == [0.5, 0.25]  # a tensor also gives its numbers as such
    assert checked_scores((1,), 1) == [1.0]
    assert checked_scores([], 0) == []


@pytest.mark.parametrize("scores", [None, "0.5", [math.inf], [-0.1], [10**400], ["0.5"], [None], [0.1, 0.2], [1j]])
def test_scores_that_lie_are_rejected(scores: Any) -> None:
    """One number from 0 to 1 for one text, or nothing."""
    with pytest.raises(RerankerRejectedError):
        checked_scores(scores, 1)


def test_the_score_is_a_share_of_both() -> None:
    """A candidate that was not sent gets no score, so it never passes one that was sent and stood above."""
    assert reranked_scores([1.0, 0.5, 0.4], [0.2, 1.0, None], 0.25) == pytest.approx([0.8, 0.625, 0.3])
    assert reranked_scores([1.0, 0.5], [0.2, None], 1.0) == [0.2, 0.0]


def test_logits_become_scores() -> None:
    """However large they are."""
    assert [squashed(logit) for logit in (-1000, 0, 1000)] == [0.0, 0.5, 1.0]
    assert squashed(2) == pytest.approx(1 - squashed(-2))


def test_texts_are_cut() -> None:
    """Title first."""
    assert text_for_reranker("Title", "body") == "Title\nbody"
    assert text_for_reranker("", "body") == "body"
    assert len(text_for_reranker("Title", "x" * 100_000)) == READ
