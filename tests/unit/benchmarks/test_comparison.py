"""The parts of the benchmarks that measure nothing: the corpus, the choice at equal recall, targets, tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import RESULTS
from corpora import RARE_SHARES, SHARES, Corpus, QuestionCorpus, clustered
from headline import BEGIN, END, README, readme_table, trend_line
from interleaved import best
from overhead import by_search
from peers.contract import TUNINGS, engine_url
from report import table
from targets import target


@pytest.fixture(scope="module")
def generated() -> QuestionCorpus:
    """A small corpus with questions."""
    return clustered(300, 16, 5)


def test_the_same_seed_makes_the_same_corpus(generated: QuestionCorpus) -> None:
    """Every process and every run measures the same."""
    again = clustered(300, 16, 5)

    assert again.corpus.texts == generated.corpus.texts
    assert np.array_equal(again.corpus.vectors, generated.corpus.vectors)
    assert [question.text for question in again.questions] == [question.text for question in generated.questions]


def test_a_corpus_is_read_as_it_was_saved(generated: QuestionCorpus, tmp_path: Path) -> None:
    """Other processes get the same ids, texts, vectors and attributes."""
    corpus = generated.corpus
    copy = Corpus.read(corpus.save(tmp_path))

    assert (copy.ids, copy.texts, copy.attributes) == (corpus.ids, corpus.texts, corpus.attributes)
    assert np.array_equal(copy.vectors, corpus.vectors)


def test_the_shares_of_the_categories_add_up_to_one() -> None:
    """A category's name states its share of the items."""
    assert sum(share * count for _, share, count in (*SHARES, *RARE_SHARES)) == pytest.approx(1)


def test_the_truth_is_the_largest_inner_products_among_those_allowed(generated: QuestionCorpus) -> None:
    """Fewer than asked for when fewer match."""
    corpus, vector = generated.corpus, generated.questions[0].vector
    allowed = corpus.matching({"category": "half-0"})
    expected = sorted(np.flatnonzero(allowed).tolist(), key=lambda place: -float(corpus.vectors[place] @ vector))

    assert corpus.nearest(vector, 3, allowed) == [corpus.ids[place] for place in expected[:3]]
    assert len(corpus.nearest(vector, 10_000, allowed)) == allowed.sum()


def row(system: str, p50: float, recall: float) -> dict[str, Any]:
    """A measured row."""
    return {"system": system, "p50_ms": p50, "recall": recall}


def test_latencies_are_compared_at_equal_recall() -> None:
    """The fastest variant with enough recall counts, not a faster one that misses items."""
    rows = [row("a", 1, 0.5), row("a", 3, 0.995), row("a", 2, 0.99), row("b", 0.1, 1)]

    assert best(rows, "a") == row("a", 2, 0.99)


def test_a_system_that_never_reaches_the_recall_counts_with_the_most_it_has() -> None:
    """Its row shows the recall."""
    assert best([row("a", 1, 0.5), row("a", 9, 0.8)], "a") == row("a", 9, 0.8)
    assert best([], "a") is None


@pytest.mark.parametrize(("reached", "at_least", "met"), [(1.0, False, True), (1.1, False, False), (1.1, True, True)])
def test_a_target_is_a_most_or_a_least(reached: float, *, at_least: bool, met: bool) -> None:
    """Latencies have a most, quality a least; reaching it exactly is enough."""
    assert target("it", reached, 1.0, "a rule", at_least=at_least)["met"] is met


def test_the_durations_between_two_marks_are_those_of_one_search() -> None:
    """The next mark's own duration belongs to neither."""
    mark = "LOG:  duration: 0.900 ms  statement: SELECT 'benchmark mark'\n"
    text = (
        f"LOG:  duration: 9.0 ms  statement: before\n{mark}"
        "LOG:  duration: 0.100 ms  parse <unnamed>: SELECT 1\nLOG:  duration: 0.250 ms  execute <unnamed>: SELECT 1\n"
        f"{mark}LOG:  duration: 0.300 ms  statement: SELECT 2\n"
        "LOG:  duration: 0.8 ms  statement: SELECT 'benchmark mark end'\n"
    )

    sums, counts = by_search(text)

    assert sums == pytest.approx([0.35, 0.3])
    assert counts == [2, 1]


def test_a_tuning_names_only_what_differs_from_the_defaults() -> None:
    """The default variant then has the extension's own defaults."""
    assert TUNINGS["default"].settings() == {}
    assert TUNINGS["relaxed"].settings() == {"hnsw.iterative_scan": "relaxed_order"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://postgres@/db?host=/run/pg", "postgresql+asyncpg://postgres@/db?host=/run/pg"),
        ("postgresql://user:word@localhost:5433/db", "postgresql+asyncpg://user:word@localhost:5433/db"),
    ],
)
def test_a_peer_goes_over_the_same_socket(url: str, expected: str) -> None:
    """The URL is spelled for another driver and leads to the same place."""
    assert engine_url(url, "asyncpg") == expected


def test_a_table_has_every_column_of_its_rows() -> None:
    """A value that a row lacks is a dash."""
    assert table([{"items": 1000, "met": True}, {"items": 2, "p50_ms": 0.12345}]).splitlines() == [
        "| items | met | p50 ms |",
        "|---|---|---|",
        "| 1,000 | yes | – |",
        "| 2 | – | 0.1235 |",
    ]


def test_the_readme_shows_the_figures_of_the_results() -> None:
    """``python benchmarks/headline.py`` writes its table."""
    result = json.loads((RESULTS / "side_by_side.json").read_text(encoding="utf-8"))
    page = README.read_text(encoding="utf-8")
    assert f"{BEGIN}\n{readme_table(result)}\n{END}" in page
    last = (RESULTS / "trend.md").read_text(encoding="utf-8").splitlines()[-1]
    commit = last.split(" | ")[1]
    assert last == trend_line(result, commit)
