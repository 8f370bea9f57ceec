"""Composed answers are checked before they wait for recording, and recorded completely."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from retrieval.adapters.store.records.recording_statement import encoded
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.context import Context
from retrieval.domain.records.recorded import recorded_search
from retrieval.domain.records.retrieval_id import uuid7
from retrieval.domain.records.search_record import ComposedAnswer
from retrieval.domain.records.slate import ShownItem, Slot
from retrieval.engine.answers import checked_notes, checked_origin, checked_shown
from tests.support.rows import value_of

SHOWN = [ShownItem(item_id="b", score=0.9, signals={"relevance": 0.2}), ShownItem(item_id="a", score=0.5)]


def _answer(**more: Any) -> ComposedAnswer:
    values = {"query": "words", "vector": None, "shown": SHOWN, "context": Context(), "origin": "advice"}
    return ComposedAnswer(
        retrieval_id=uuid7(1_770_000_000_000, random.Random(1)),
        collection_id=1,
        retrieval_time_ms=2.0,
        **{**values, **more},
    )


def test_a_record_has_what_models_and_figures_need() -> None:
    """Candidates by relevance, hits as shown, and the application's own time."""
    answer = _answer(cluster=3, model_version=2, vector=np.array([0.6, 0.8], dtype=np.float32))
    row = value_of(encoded(answer.record()), "vector")
    search = recorded_search(answer.record(), None)
    assert search.pool_items == ["a", "b"]
    assert search.pool_signals["scaled"] == [0.5, 0.2]
    assert [(impression.item_id, impression.rank) for impression in search.impressions] == [("b", 1), ("a", 2)]
    assert search.impressions[0].signals == {"relevance": {"raw": 0.2}}
    assert (search.cluster, search.model_version, search.profile_version, search.origin) == (3, 2, 0, "advice")
    assert (search.top_score, search.score_spread) == (0.9, 0.4)
    assert (search.retrieval_time_ms, search.timings_ms) == (2.0, {"total": 2.0})
    assert row == pytest.approx([0.6, 0.8])


def test_chance_of_the_applications_own_is_named_after_it() -> None:
    """Without a propensity, the policy is that of a search without exploration."""
    assert _answer().record().policy == "off/1"
    item = ShownItem(item_id="c", score=0.1, slot=Slot.EXPLORE, propensity=0.5)
    assert _answer(shown=[*SHOWN, item]).record().policy == "advice/1"


@pytest.mark.parametrize(("probability", "recorded"), [(None, 0.5), (0.2, 0.2)])
def test_the_chance_of_a_rank_is_recorded_beside_that_of_being_shown(
    probability: float | None, recorded: float
) -> None:
    """Left out, they are the same: an item that has one rank whenever it is shown."""
    item = ShownItem(item_id="c", score=0.1, slot=Slot.EXPLORE, propensity=0.5, rank_propensity=probability)
    [impression] = recorded_search(_answer(shown=[item]).record(), None).impressions
    assert (impression.propensity, impression.rank_propensity) == (0.5, recorded)


def test_an_answer_may_be_empty() -> None:
    """Nothing was shown, so nothing has a score."""
    search = recorded_search(_answer(shown=[]).record(), None)
    assert (search.hits, search.top_score, search.score_spread, search.impressions) == (0, None, None, [])


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (checked_shown, [*SHOWN, SHOWN[0]], "item 'b' was shown twice"),
        (checked_shown, ["a"], "a list of ShownItem values, not of str"),
        (checked_shown, "ab", "come in a list"),
        (checked_shown, [ShownItem(item_id=str(number), score=1) for number in range(1001)], "at most 1000"),
        (checked_origin, " ", "it must be a name of at most"),
        (checked_origin, "x" * 201, "of at most 200 characters"),
        (checked_notes, "a note", "notes come in a list"),
        (checked_notes, ["\x00"], "must be text without NUL"),
    ],
)
def test_invalid_answers_are_refused(check: Any, value: object, message: str) -> None:
    """Before it is answered, while somebody can mend it."""
    with pytest.raises(InvalidRequestError, match=message):
        check(value)
