"""Embedding spaces, and vectors that can be ranked in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrieval.domain.errors import ConfigurationError, InvalidVectorError, WrongDimensionError
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, checked_vectors

SPACE = EmbeddingSpace(provider="test", model="m", dimensions=3)


@pytest.mark.parametrize("dimensions", [0, -1, 4001, 2.5, True, "3", None])
def test_a_space_has_as_many_dimensions_as_an_index_can_take(dimensions: Any) -> None:
    """More than HNSW can index as halfvec is refused when the space is made."""
    with pytest.raises(ConfigurationError, match="1 to 4000"):
        EmbeddingSpace(provider="test", model="m", dimensions=dimensions)


def test_the_large_openai_model_fits() -> None:
    """3072 dimensions are first-class."""
    assert EmbeddingSpace(provider="openai", model="text-embedding-3-large", dimensions=3072).dimensions == 3072


def test_an_unknown_distance_is_refused() -> None:
    """Only cosine distance is ranked."""
    with pytest.raises(ConfigurationError, match="cosine"):
        EmbeddingSpace(provider="test", model="m", dimensions=3, distance="l2")


@pytest.mark.parametrize(
    "change",
    [
        {"provider": ""}, {"model": ""}, {"model": "m" * 501}, {"revision": None}, {"revision": "a\x00b"},
        {"document_prefix": "p" * 501}, {"query_prefix": "\ud800"},
    ],
)  # fmt: skip
def test_the_fields_of_a_space_are_short_texts(change: dict[str, Any]) -> None:
    """The database refuses other spaces too."""
    with pytest.raises(ConfigurationError, match=f"{next(iter(change))} is .* a text of [01] to 500 characters"):
        EmbeddingSpace(**{"provider": "test", "model": "m", "dimensions": 3, **change})


def test_prefixes_follow_the_role() -> None:
    """Queries and documents get different prefixes."""
    space = EmbeddingSpace(provider="t", model="m", dimensions=3, document_prefix="passage: ", query_prefix="query: ")
    assert (space.prefix(TextRole.DOCUMENT), space.prefix(TextRole.QUERY)) == ("passage: ", "query: ")


def test_vectors_come_back_at_unit_length() -> None:
    """The direction stays the same."""
    vectors = checked_vectors([[3, 0, 4], [0, 2, 0]], SPACE, ["a", "b"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]]), atol=1e-7)


def test_huge_and_tiny_vectors_keep_their_direction() -> None:
    """Lengths near the ends of single precision do not overflow into NaN or zero."""
    vectors = checked_vectors([[1e200, 1e200, 0], [1e-200, 0, 0]], SPACE, ["a", "b"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        ([1, 2], WrongDimensionError, "of b .*2 dimensions.*has 3|inhomogeneous|same length"),
        ([1, float("nan"), 0], InvalidVectorError, "the vector of b holds NaN"),
        ([1, float("inf"), 0], InvalidVectorError, "the vector of b holds NaN or infinity"),
        ([0, 0, 0], InvalidVectorError, "the vector of b is zero"),
    ],
)
def test_a_vector_that_cannot_be_ranked_is_refused_with_its_key(
    row: list[float], error: type[InvalidVectorError], message: str
) -> None:
    """The message names the item, for a thousand come at a time."""
    rows = [row] if len(row) != 3 else [[1, 0, 0], row]
    keys = ["b"] if len(row) != 3 else ["a", "b"]
    with pytest.raises(error, match=message):
        checked_vectors(rows, SPACE, keys)


@pytest.mark.parametrize("value", ["text", [["a", "b", "c"]], [[1, 2, 3], [1]], 7, [[[1, 2, 3]]], [[10**400, 1, 1]]])
def test_invalid_vectors_are_refused(value: object) -> None:
    """Anything else than rows of numbers is an error of the caller's, in our tree."""
    with pytest.raises(InvalidVectorError):
        checked_vectors(value, SPACE, ["a"])


def test_no_vectors_are_an_empty_array_of_the_right_shape() -> None:
    """An empty call is not an error."""
    assert checked_vectors([], SPACE, []).shape == (0, 3)
