"""The benchmarks run: small, with the platform and pgvector by hand, without the peers' packages."""

from __future__ import annotations

import json
from pathlib import Path

import analytics
import growth
import http_load
import pytest
import side_by_side
import writes

from tests.support.cluster import not_on_a_cluster

pytestmark = not_on_a_cluster("the benchmarks measure one server")


def test_the_comparison_writes_figures_and_a_page(
    server_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both systems answer every kind of search perfectly on a small corpus, and the report names the omitted parts."""
    assert side_by_side.main(["--quick", "--server", server_url, "--out", str(tmp_path)]) == 0

    result = json.loads((tmp_path / "side_by_side.json").read_text())
    exact = [row for row in result["plain"] if row["variant"] in ("as it is", "exact")]
    assert [row["system"] for row in exact] == ["ours", "by hand"]
    assert all(row["recall"] == 1 for row in exact)
    assert all(row["recall"] == 1 for rows in result["filtered"].values() for row in rows if row["system"] == "ours")
    assert {row["system"] for row in result["hybrid"]} == {"ours", "by hand"}
    assert {row["system"] for row in result["ingest"]} == {"ours", "by hand"}
    assert result["overhead"]["hybrid"]["top_costs"]
    met = {target["what"]: target["met"] for target in result["targets"]}
    assert met["recall@10, filter 2 %"]
    page = (tmp_path / "side_by_side.md").read_text()
    assert "Not compared, because not installed: FAISS flat, langchain-postgres, llama-index, LanceDB, Chroma." in page
    assert "HYBRID QUALITY IS NOT MEASURED" in capsys.readouterr().err


def test_growth_writes_figures_and_a_page(server_url: str, tmp_path: Path) -> None:
    """A row for each search of each size, one for each number of tenants."""
    assert growth.main(["--quick", "--server", server_url, "--out", str(tmp_path)]) == 0

    result = json.loads((tmp_path / "growth.json").read_text())
    assert {row["items"] for row in result["searches"]} == set(growth.QUICK.sizes)
    assert {row["search"] for row in result["searches"]} >= {"dense", "hybrid", "2 % filter"}
    assert [row["tenants"] for row in result["tenants"]] == list(growth.QUICK.tenants)
    assert "## With tenants" in (tmp_path / "growth.md").read_text()


def test_the_service_and_the_bare_route_are_pressed_in_turns(server_url: str, tmp_path: Path) -> None:
    """Both answer, and without errors."""
    assert http_load.main(["--quick", "--server", server_url, "--out", str(tmp_path)]) == 0

    result = json.loads((tmp_path / "http_load.json").read_text())
    assert {row["service"] for row in result["rows"] if row["searches"] > 0 and not row["errors"]} == {"ours", "bare"}


def test_writes_are_measured_beside_those_by_hand(server_url: str, tmp_path: Path) -> None:
    """Each write alone, writers together and a first load, a row a system."""
    assert writes.main(["--quick", "--server", server_url, "--out", str(tmp_path)]) == 0

    result = json.loads((tmp_path / "writes.json").read_text())
    both = {"ours", "by hand"}
    assert {(row["write"], row["system"]) for row in result["single"]} == {
        (what, name) for what in writes.OPERATIONS for name in both
    }
    assert {row["system"] for row in result["together"] if row["items/s"] > 0} == both
    assert {row["system"] for row in result["loads"] if row["s"] > 0} == both
    assert "## First load" in (tmp_path / "writes.md").read_text()


def test_the_figures_of_a_week_read_its_month_by_index(server_url: str, tmp_path: Path) -> None:
    """The platform and an analyst touch no month but the week's, and that by index; items look all months up so."""
    assert analytics.main(["--quick", "--server", server_url, "--out", str(tmp_path)]) == 0

    views = {row["view"]: row for row in json.loads((tmp_path / "analytics.json").read_text())["views"]}
    of_a_week = set(views) - {
        "contexts", "feedback", "losses", "recall", "unused_items", "usage", "usage_by_day",
    }  # fmt: skip
    for name, run_ in [(view, run) for view in of_a_week for run in (views[view], views[view]["analyst"])]:
        months = [scan for scan in run_["scans"] if "retrievals_" in scan]
        assert months, name
        assert all(scan.endswith("_2026_06") and "Index" in scan for scan in months), (name, months)
    months = [scan for scan in views["unused_items"]["scans"] if "retrievals_2" in scan]
    assert len(months) == 7
    assert all("Index" in scan for scan in months)
    assert "Index Scan of arms" in views["usage"]["scans"]
    assert all(row["rows"] == row["analyst"]["rows"] > 0 for row in views.values())
