"""The arguments of a request and of a preview."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from retrieval.apps.tickets import PreviewConfig, RetrievalRequest, Weighting
from retrieval.apps.tickets.models import Weights


@pytest.mark.parametrize(
    "config",
    [
        {"vector_weight": 1.5},
        {"weightings": ["balanced", "Balanced"]},
        {"weightings": ["unheard of"]},
        {"weightings": [{"name": "a", "vector_weight": 0.5, "metadata_weight": 1.4}]},
        {"vector": 0.5},
        {
            "weightings": [{"name": "custom", "vector_weight": 1, "metadata_weight": 0}],
            "vector_weight": 0.5,
            "metadata_weight": 0.5,
        },
        {"weightings": 5},
        {"weightings": [5]},
        {"top_k": 0},
        {"candidates": 1001},
    ],
)
def test_a_preview_that_cannot_be_is_refused(config: dict[str, object]) -> None:
    """A weight above 1, a name twice, an unknown preset or field, no page, more candidates than a leg brings."""
    with pytest.raises(ValidationError):
        PreviewConfig.model_validate(config)


@pytest.mark.parametrize(
    "values",
    [
        {"top_k": True},
        {"top_k": "5"},
        {"candidates": True},
        {"vector_weight": True},
        {"vector_weight": "0.5"},
        {"metadata_weight": False},
        {"time_normalization_hours": True},
        {"query_embedding": [0.5, "1"]},
        {"priority_weights": {"High": True}},
        {"priority_weights": {"Urgent": False}},
    ],
)
def test_a_boolean_and_a_text_are_no_numbers(values: dict[str, object]) -> None:
    """True is not taken for one ticket, or for the whole weight; a text is no number."""
    with pytest.raises(ValidationError, match="valid number"):
        RetrievalRequest.model_validate({"query_text": "timeout", **values})


def test_weightings_are_values_fields_or_names_of_presets() -> None:
    """A list alone is the weightings."""
    value = Weighting(name="mine", vector_weight=0.8, metadata_weight=0.2)
    assert PreviewConfig.model_validate({"weightings": [value]}).weightings == [value]
    assert PreviewConfig.model_validate([value.model_dump()]).weightings == [value]
    named = PreviewConfig.model_validate(["Fast Resolution"]).weightings[0]
    assert (named.name, named.weights) == ("fast_resolution", (0.6, 0.4))


def test_weights_that_make_no_score_are_refused_when_they_are_read() -> None:
    """Not only once something is weighed by them."""
    with pytest.raises(ValidationError, match="both 0"):
        PreviewConfig(vector_weight=0.0, metadata_weight=0.0)


def test_one_weight_is_completed_and_two_hold() -> None:
    """The custom weighting is what a request with the same weights is scored by."""
    own = Weights(0.7, 0.3)
    assert PreviewConfig(metadata_weight=0.4).compared_weightings(own)[-1].weights == (0.6, 0.4)
    assert PreviewConfig(vector_weight=0.8, metadata_weight=0.8).compared_weightings(own)[-1].weights == (0.8, 0.8)


@pytest.mark.parametrize("given", [{"vector_weight": 0.8, "metadata_weight": None}, {"preset": "semantic_match"}])
def test_a_weight_that_is_null_is_left_out(given: dict[str, Any]) -> None:
    """A client may send every field."""
    request = RetrievalRequest.model_validate({"title": "a", "vector_weight": None, "metadata_weight": None} | given)
    assert request.vector_weight + request.metadata_weight == 1
    assert request.vector_weight >= 0.8
