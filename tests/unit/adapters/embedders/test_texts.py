"""What happens to texts before any model sees them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.adapters.embedders.batching import cut, measure_of, prepared, without_repeats
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.domain.errors import EmbedderRejectedError
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, TokenMeasure

SPACE = EmbeddingSpace(provider="p", model="m", dimensions=2, document_prefix="doc: ", query_prefix="ask: ")


def test_the_prefix_of_the_role_is_put_in_front() -> None:
    """Documents and queries have prefixes of their own."""
    assert prepared(["a", "b"], TextRole.DOCUMENT, SPACE) == ["doc: a", "doc: b"]
    assert prepared(["a"], TextRole.QUERY, SPACE) == ["ask: a"]


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    """Texts that no model can read are made readable."""
    assert prepared(["x\ud83dy"], TextRole.QUERY, SPACE) == ["ask: x?y"]


def test_one_text_instead_of_a_list_is_refused() -> None:
    """A text is a sequence of letters; embedding each of them is never meant."""
    with pytest.raises(EmbedderRejectedError, match="list"):
        prepared("text", TextRole.QUERY, SPACE)


@given(st.text(max_size=30), st.integers(0, 40))
def test_a_cut_text_is_the_longest_beginning_that_fits(text: str, max_bytes: int) -> None:
    """It fits, it is a beginning, and one character more would not fit."""
    short = cut(text, max_bytes)
    assert text.startswith(short)
    assert len(short.encode()) <= max_bytes
    assert short == text or len(text[: len(short) + 1].encode()) > max_bytes


@given(st.lists(st.sampled_from("abcd")))
def test_each_text_is_kept_once_and_found_again(texts: list[str]) -> None:
    """The places lead from every text to its one copy."""
    distinct, places = without_repeats(texts)
    assert len(distinct) == len(set(distinct))
    assert [distinct[place] for place in places] == texts
    assert places.dtype == np.intp


def test_texts_that_are_read_in_part_are_counted() -> None:
    """Only those that may be too long are split into tokens."""
    asked: list[str] = []

    def count(texts: Sequence[str]) -> list[int]:
        asked.extend(texts)
        return [len(text.split()) for text in texts]

    measure = TokenMeasure(count, max_tokens=20, around=4)

    assert measure.number_cut(["short", "wörd " * 21, "longwords " * 20, "x"]) == 1
    assert asked == ["wörd " * 21, "longwords " * 20]
    assert TokenMeasure(count).number_cut(["word " * 1000]) == 0


def test_an_embedder_that_says_nothing_is_measured_by_estimate() -> None:
    """Nobody knows what its model reads."""
    for measure in (measure_of(None), measure_of(HashingEmbedder())):
        assert measure.max_tokens is None
        assert measure.count_tokens(["", "a", "abcd"]) == [0, 1, 2]
