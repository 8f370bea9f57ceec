"""Values as a notebook shows them."""

from __future__ import annotations

import re

from retrieval.domain.items.collection import CollectionInfo
from retrieval.domain.records.analytics import AnalyticsTable
from retrieval.domain.search.hit import Contribution, Explanation, Hit, Path, SearchResult

EXPLANATION = Explanation(
    fusion="union",
    contributions=(
        Contribution(leg="recency", rank=1, raw_score=0.5, weight=2, value=1.0),
        Contribution(leg="keyword", rank=3, raw_score=0.25, weight=1, value=0.25),
        Contribution(leg="age", rank=2, raw_score=0.1, weight=-1, value=-0.1),
    ),
)
HIT = Hit(item_id="<a&b>", score=1.15, rank=1, explanation=EXPLANATION, title="A title", body="<script>" + "x" * 900)


def widths(html: str) -> list[float]:
    """The widths of the bars, in percent."""
    return [float(share) for share in re.findall(r"width:([\d.]+)%", html)]


def test_an_explanation_has_a_bar_for_each_part_and_their_sum() -> None:
    """The largest part's bar is full; negative parts have another colour."""
    html = EXPLANATION._repr_html_()

    assert widths(html) == [100, 25, 10]
    assert len(set(re.findall(r"background:(#\w+)", html))) == 2
    assert all(part.leg in html for part in EXPLANATION.contributions)
    assert "<b>1.1500</b>" in html


def test_without_any_part_there_is_nothing_to_draw() -> None:
    """An empty explanation does not fail."""
    assert widths(Explanation(fusion="rrf", contributions=())._repr_html_()) == []


def test_parts_of_nothing_have_empty_bars() -> None:
    """If every part is 0, no bar is longer than another."""
    nothing = Contribution(leg="dense", rank=1, raw_score=0, weight=1, value=0.0)

    assert widths(Explanation(fusion="rrf", contributions=(nothing,))._repr_html_()) == [0]


def test_texts_are_escaped_and_cut() -> None:
    """An item's text must not run in the reader's page, nor fill it."""
    html = HIT._repr_html_()

    assert "<script" not in html
    assert "&lt;a&amp;b&gt;" in html
    assert html.count("x") < 400


def test_a_result_lists_its_hits_and_how_they_were_found() -> None:
    """With the path, the reason and the notes."""
    result = SearchResult(
        hits=(HIT,), path=Path.EXACT, why="3 of 3 items match", profile_version=1, notes=("the dense leg is out",)
    )
    html = result._repr_html_()

    assert "A title" in html
    assert "1 hit; exact: 3 of 3 items match; the dense leg is out" in html


def test_a_collection_at_a_glance_is_a_table() -> None:
    """It leaves out unset values."""
    info = CollectionInfo(
        name="docs", items=3, pending=0, space=None, text_search_config="english", profile_version=2,
        model_version=0, has_hnsw=False, index="auto", is_quantised=False, filterable={"priority": "text"},
    )  # fmt: skip
    html = info._repr_html_()

    assert "<b>collection docs</b>" in html
    assert "english" in html
    assert "space" not in html


def test_figures_are_a_table_with_a_head() -> None:
    """Each row of the view is a row, with its columns; missing values are empty."""
    html = AnalyticsTable(view="items", columns=("item_id", "uses"), values=(("<a>", 3), ("b", None)))._repr_html_()

    assert re.findall(r"<th>(.*?)</th>", html) == ["item_id", "uses"]
    assert re.findall(r"<td[^>]*>(.*?)</td>", html) == ["&lt;a&gt;", "3", "b", ""]
