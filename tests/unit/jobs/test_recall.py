"""Recall from scores, grouped by the number of items that match the filter."""

from __future__ import annotations

import pytest

from retrieval.adapters.store.search.recall import Measurement, Probe, recall_of
from retrieval.jobs.recall import bucket, measured


@pytest.mark.parametrize(
    ("scores", "exact", "recall"),
    [
        ([0.9, 0.8], [0.9, 0.8], 1.0),
        ([0.9, 0.7], [0.9, 0.8], 0.5),
        ([], [0.9, 0.8], 0.0),
        ([0.9], [0.9, 0.8], 0.5),
        ([], [], 1.0),
        ([0.8, 0.8], [0.8, 0.8], 1.0),
    ],
)
def test_recall_is_the_share_of_the_truth(scores: list[float], exact: list[float], recall: float) -> None:
    """The share of items as near as the last of the true nearest; equal items are interchangeable."""
    assert recall_of(scores, exact) == recall


@pytest.mark.parametrize(
    ("matches", "name"),
    [
        (None, "no filter"),
        (1000, "over 10 %"),
        (101, "over 10 %"),
        (100, "1 to 10 %"),
        (10, "under 1 %"),
        (0, "under 1 %"),
    ],
)
def test_searches_are_grouped_by_what_their_filters_let_through(matches: int | None, name: str) -> None:
    """The collection has a thousand items."""
    assert bucket(matches, 1000) == name


def test_each_group_has_its_mean_and_its_short_pages() -> None:
    """The group's effort is the least one."""
    probes = [
        Probe(recall=1.0, is_short=False, matches=None, effort=100),
        Probe(recall=0.5, is_short=True, matches=None, effort=80),
        Probe(recall=0.9, is_short=False, matches=1, effort=100),
    ]
    assert measured(probes, 1000) == [
        Measurement(bucket="no filter", samples=2, recall=0.75, short_pages=1, effort=80),
        Measurement(bucket="under 1 %", samples=1, recall=0.9, short_pages=0, effort=100),
    ]
