"""Texts before any model sees them: cut, split into pieces of bounded size, and awaited together."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.adapters.embedders.batching import (
    all_of,
    batches,
    cut,
    estimated_tokens,
    measure_of,
    padded_batches,
    prepared,
    without_repeats,
)
from retrieval.adapters.embedders.hashing import HashingEmbedder
from retrieval.domain.errors import EmbedderRejectedError
from retrieval.domain.items.embedding import EmbeddingSpace, TextRole, TokenMeasure

sizes = st.lists(st.integers(0, 30), max_size=40)


@pytest.mark.parametrize(("text", "tokens"), [("", 1), ("abc", 1), ("abcd", 2), ("数据库", 3), ("é", 1)])
def test_tokens_are_estimated_from_bytes(text: str, tokens: int) -> None:
    """A third of the UTF-8 bytes, rounded up, and never none."""
    assert estimated_tokens(text) == tokens


@given(sizes, st.integers(1, 6), st.integers(1, 40))
def test_batches_cover_everything_in_order_within_bounds(of: list[int], max_items: int, max_size: int) -> None:
    """Each position is in one batch, in order, and only a single one may be above the size."""
    parts = list(batches(of, max_items=max_items, max_size=max_size))
    assert [place for batch in parts for place in batch] == list(range(len(of)))
    assert all(1 <= len(batch) <= max_items for batch in parts)
    assert all(len(batch) == 1 or sum(of[place] for place in batch) <= max_size for batch in parts)


@given(sizes, st.integers(1, 40), st.integers(1, 6))
def test_batches_are_as_large_as_they_may_be(of: list[int], max_size: int, max_items: int) -> None:
    """The first of the next batch would not have fitted."""
    parts = list(batches(of, max_items=max_items, max_size=max_size))
    for batch, following in itertools.pairwise(parts):
        total = sum(of[place] for place in batch) + of[following.start]
        assert len(batch) == max_items or total > max_size


@given(sizes, st.integers(1, 60))
def test_padded_batches_cover_everything_within_the_area(lengths: list[int], max_area: int) -> None:
    """Each position is in one group, and rows times the longest row stay within the area."""
    parts = list(padded_batches(lengths, max_area=max_area))
    assert sorted(place for group in parts for place in group) == list(range(len(lengths)))
    for group in parts:
        assert len(group) == 1 or len(group) * max(lengths[place] for place in group) <= max_area


def test_padded_batches_put_similar_lengths_together() -> None:
    """Short texts are not padded to a long one."""
    assert list(padded_batches([9, 1, 8, 2], max_area=18)) == [[1, 3], [2, 0]]


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


async def test_results_keep_their_order() -> None:
    """Results are in the order of their coroutines, not of their completion."""
    gate = asyncio.Event()

    async def late() -> int:
        await gate.wait()
        return 1

    async def early() -> int:
        gate.set()
        return 2

    assert await all_of([late(), early()]) == [1, 2]


async def test_the_first_failure_is_raised_itself_and_stops_the_others() -> None:
    """Callers catch the original error, and no task is left running."""
    stopped = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def fails() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await all_of([waits(), fails()])
    assert stopped.is_set()


def test_texts_that_are_read_in_part_are_counted() -> None:
    """Only texts that may be too long are tokenised."""
    texts_asked: list[str] = []

    def count(texts: Sequence[str]) -> list[int]:
        texts_asked.extend(texts)
        return [len(text.split()) for text in texts]

    measure = TokenMeasure(count, max_tokens=20, around=4)

    assert measure.number_cut(["short", "wörd " * 21, "nine char " * 15, "x"]) == 2
    assert texts_asked == ["wörd " * 21, "nine char " * 15]
    assert TokenMeasure(count).number_cut(["word " * 1000]) == 0


@pytest.mark.parametrize(
    ("text", "is_cut", "asked"),
    [
        ("word " * 100_000, True, []),
        ("word " * 100, True, ["word " * 31 + "word"]),
        ("longer_words " * 20, False, ["longer_words " * 11 + "longer_words", "longer_words " * 20]),
        ("word" * 100, False, ["", "word" * 100]),
    ],
    ids=["huge", "long", "of long words", "one word"],
)
def test_of_a_long_text_the_first_words_are_enough(text: str, is_cut: bool, asked: list[str]) -> None:  # noqa: FBT001
    """A text is never cut within a word, and a huge one is not tokenised at all."""
    texts_asked: list[str] = []

    def count(texts: Sequence[str]) -> list[int]:
        texts_asked.extend(texts)
        return [len(text.split()) for text in texts]

    assert TokenMeasure(count, max_tokens=20, around=4).number_cut([text]) == is_cut
    assert texts_asked == asked


def test_an_embedder_that_says_nothing_is_measured_by_estimate() -> None:
    """Its model's limit is unknown."""
    for measure in (measure_of(None), measure_of(HashingEmbedder())):
        assert measure.max_tokens is None
        assert measure.count_tokens(["", "a", "abcd"]) == [0, 1, 2]
