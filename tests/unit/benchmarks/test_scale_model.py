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


def test_the_guide_says_what_the_model_says() -> None:
    """The table of a million items, and the sentences about ten million and a hundred million."""
    model, guide = Model(STORED), (RESULTS.parents[1] / "docs" / "scale.md").read_text(encoding="utf-8")
    both = [estimate(model, items=10**6, dimensions=d, searches=50, parts=parts) for d, parts in ((384, 2), (1536, 4))]
    assert all(each["graph_fits"] for each in both)
    lines = [line.strip("| ").split(" | ") for line in guide.splitlines() if line.startswith("| ")]
    known = {line[0]: [cell.removesuffix(" of a core") for cell in line[1:]] for line in lines if len(line) == 3}
    for row, cells in {
        "disk, without records": [f"{each['disk_gb']:.2g} GB" for each in both],
        "memory for searches": [f"{each['memory_gb']:.2g} GB" for each in both],
        "load, without embedding": [f"{each['load_core_hours'] * 60:.0f} minutes" for each in both],
        "parts": [str(each["parts"]) for each in both],
        "index, by the model": [f"{each['build_core_hours'] * 60:.0f} minutes" for each in both],
        "a hybrid search, server, by the model": [f"{each['search_server_ms']:.0f} ms" for each in both],
        "50 searches a second, by the model": [f"{each['search_cores']:.1f} cores" for each in both],
    }.items():
        assert known[row] == cells
    ten = estimate(model, items=10**7, dimensions=384, searches=50, parts=11)
    assert ten["graph_fits"]
    assert f"they need 11 parts, {ten['memory_gb']:.0f} GB of memory and {ten['build_core_hours']:.1f} hours" in guide
    hundred = estimate(model, items=10**8, dimensions=384, searches=50, parts=64)
    assert not hundred["graph_fits"]
    memory, disk = (round(hundred[name], -1) for name in ("memory_gb", "disk_gb"))
    assert f"({memory:.0f} GB and {disk:.0f} GB at 384 dimensions)" in guide
    assert f"cost {round(hundred['search_server_ms'], -1):.0f} ms of the server" in guide.replace("\n", " ")


def test_the_command_prints_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON."""
    arguments = ["estimate", "--items", "1000000", "--dimensions", "384", "--searches", "50", "--writes", "10000"]
    assert scale_model.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["items"] == 1_000_000
