"""The scale model: its estimates follow from the measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import scale_model
from scale_model import Line, Model, estimate

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
STORED: dict[str, Any] = json.loads((RESULTS / "scale_model.json").read_text(encoding="utf-8"))


def test_a_line_goes_through_its_points() -> None:
    """The line continues beyond them."""
    line = Line.through((1.0, 3.0), (2.0, 5.0))
    assert [line.at(x) for x in (1, 2, 10)] == [3, 5, 21]


def test_the_published_page_is_what_the_script_makes_of_the_published_figures() -> None:
    """No figure was edited by hand."""
    assert scale_model.page(STORED) == (RESULTS / "scale_model.md").read_text(encoding="utf-8")


def test_the_model_is_what_was_measured_where_it_was_fitted() -> None:
    """At the larger of the two sizes, costs and bytes come out as they went in."""
    model, [row] = Model(STORED), [row for row in STORED["measured"] if row["items"] == scale_model.FITTED[1]]
    assert model.cost("searches", "dense", "server_s", at=row["items"]) == pytest.approx(
        row["searches"]["dense"]["server_s"]
    )
    assert model.total(row["items"]) == pytest.approx(sum(row["relations"].values()))
    assert model.by_dimensions(384, "build", "server_s") == model.few[384]["build"]["server_s"]
    between = model.by_dimensions(576, "build", "server_s")
    assert model.few[384]["build"]["server_s"] < between < model.few[768]["build"]["server_s"]


def test_twice_the_items_need_twice_the_disk_and_more_parts_more_processors() -> None:
    """The estimate grows where it has to."""
    model = Model(STORED)
    first, two = (estimate(model, items=n * 10**6, dimensions=384, searches=50) for n in (1, 2))
    assert two["disk_gb"] == pytest.approx(2 * first["disk_gb"])
    assert first["search_cores"] < two["search_cores"] < 2 * first["search_cores"]
    divided = estimate(model, items=10**6, dimensions=384, searches=50, parts=4)
    assert divided["search_cores"] > 2 * first["search_cores"]
    assert divided["disk_gb"] == first["disk_gb"]
    assert (first["graph_fits"], divided["graph_fits"]) == (False, True)


def test_the_command_prints_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON."""
    arguments = ["estimate", "--items", "1000000", "--dimensions", "384", "--searches", "50", "--writes", "10000"]
    assert scale_model.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["items"] == 1_000_000
