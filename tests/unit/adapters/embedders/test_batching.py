"""Splitting many texts into pieces of bounded size."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.adapters.embedders.batching import batches, estimated_tokens, padded_batches

sizes = st.lists(st.integers(0, 30), max_size=40)


@pytest.mark.parametrize(("text", "tokens"), [("", 1), ("abc", 1), ("abcd", 2), ("数据库", 3), ("é", 1)])
def test_tokens_are_estimated_from_bytes(text: str, tokens: int) -> None:
    """A third of the UTF-8 bytes, rounded up, and never none."""
    assert estimated_tokens(text) == tokens


@given(sizes, st.integers(1, 6), st.integers(1, 40))
def test_batches_cover_everything_in_order_within_bounds(of: list[int], max_items: int, max_size: int) -> None:
    """Each position is in one batch, in order, and only a single one may be above the size."""
    made = list(batches(of, max_items=max_items, max_size=max_size))
    assert [place for batch in made for place in batch] == list(range(len(of)))
    assert all(1 <= len(batch) <= max_items for batch in made)
    assert all(len(batch) == 1 or sum(of[place] for place in batch) <= max_size for batch in made)


@given(sizes, st.integers(1, 40), st.integers(1, 6))
def test_batches_are_as_large_as_they_may_be(of: list[int], max_size: int, max_items: int) -> None:
    """The first of the next batch would not have fitted."""
    made = list(batches(of, max_items=max_items, max_size=max_size))
    for batch, following in itertools.pairwise(made):
        total = sum(of[place] for place in batch) + of[following.start]
        assert len(batch) == max_items or total > max_size


@given(sizes, st.integers(1, 60))
def test_padded_batches_cover_everything_within_the_area(lengths: list[int], max_area: int) -> None:
    """Each position is in one group, and rows times the longest row stay within the area."""
    made = list(padded_batches(lengths, max_area=max_area))
    assert sorted(place for group in made for place in group) == list(range(len(lengths)))
    for group in made:
        assert len(group) == 1 or len(group) * max(lengths[place] for place in group) <= max_area


def test_padded_batches_put_similar_lengths_together() -> None:
    """Short texts are not padded to a long one."""
    assert list(padded_batches([9, 1, 8, 2], max_area=18)) == [[1, 3], [2, 0]]
