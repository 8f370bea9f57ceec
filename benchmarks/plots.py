"""Pictures of what the benchmarks wrote: ``python benchmarks/plots.py [FOLDER]``, by the peers' environment.

FOLDER holds ``side_by_side.json``, ``growth.json`` and ``exploration.json``, or some of them; the pictures go there
too, as PNG.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

Rows = Sequence[Mapping[str, Any]]

COLOURS = {
    "ours": "#c0392b",
    "by hand": "#555555",
    "FAISS flat": "#b8860b",
    "langchain-postgres": "#1f77b4",
    "llama-index": "#2e8b57",
    "LanceDB": "#7d3c98",
    "Chroma": "#16a2b8",
}
MARKS = {
    "ours": "o",
    "by hand": "s",
    "FAISS flat": "D",
    "langchain-postgres": "^",
    "llama-index": "v",
    "LanceDB": "P",
    "Chroma": "X",
}


def main(folder: Path) -> None:
    """Draw a plot of each existing result."""
    for name, draw in (
        ("side_by_side.json", _side_by_side),
        ("growth.json", _growth),
        ("exploration.json", _exploration),
        ("learning_curve.json", _learning_curve),
    ):
        path = folder / name
        if path.exists():
            draw(json.loads(path.read_text(encoding="utf-8")), folder)
        else:
            print(f"no {path}: its pictures are left out", file=sys.stderr)


def _side_by_side(result: Mapping[str, Any], folder: Path) -> None:
    if "filtered" in result:  # not in the file of a run that ended early
        _recall_against_latency(result, folder / "recall_against_latency.png")
    _bars(result["ingest"], "total", "Seconds until both indexes answer", "Ingest", folder / "ingest.png")
    if "rows" in result.get("quality", {}):
        _quality(result["quality"]["rows"], folder / "hybrid_quality.png")


def _recall_against_latency(result: Mapping[str, Any], path: Path) -> None:
    panels = {**result["filtered"], "100 % (no filter)": result["plain"]}
    columns = min(4, len(panels))
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(3.4 * columns, 3.1 * lines), squeeze=False, sharey=True)
    for place, axis in enumerate(axes.flat):
        axis.set_visible(place < len(panels))
    for axis, (name, rows) in zip(axes.flat, panels.items(), strict=False):
        _points(axis, rows, "recall")
        axis.set_title(f"{name} of the items match" if "far" not in name and "no" not in name else name, fontsize=9)
        axis.set_xscale("log")
        axis.set_ylim(-0.04, 1.06)
        axis.axhline(0.99, color="#bbbbbb", linewidth=0.8, zorder=0)
    for axis in axes[-1]:
        axis.set_xlabel("median latency, ms")
    for row in axes:
        row[0].set_ylabel("recall@10")
    _finish(figure, axes.flat[0], path)


def _quality(rows: Rows, path: Path) -> None:
    figure, axis = plt.subplots(figsize=(6.4, 4.2))
    _points(axis, rows, "ndcg_at_10")
    for system in dict.fromkeys(row["system"] for row in rows):
        best = max((row for row in rows if row["system"] == system), key=lambda row: float(row["ndcg_at_10"]))
        place = (best["p50_ms"], best["ndcg_at_10"])
        axis.annotate(best["variant"], place, (5, 4), textcoords="offset points", fontsize=7)
    axis.set_xscale("log")
    axis.set_xlabel("median latency, ms")
    axis.set_ylabel("nDCG@10, SciFact")
    axis.margins(x=0.25, y=0.1)
    _finish(figure, axis, path)


def _exploration(result: Mapping[str, Any], folder: Path) -> None:
    figure, (regret, decay, newcomers) = plt.subplots(1, 3, figsize=(13, 3.8))
    pulls = result["about"]["horizon"]
    for name, curve in result["stationary"]["curves"].items():
        at = [pulls * (step + 1) / len(curve["mean"]) for step in range(len(curve["mean"]))]
        regret.plot(at, curve["mean"], label=name, linewidth=1.4)
        regret.fill_between(at, curve["p10"], curve["p90"], alpha=0.12)
    regret.set_xlabel("pulls")
    regret.set_ylabel("regret, mean and 80 % of the runs")
    regret.set_ylim(0, 700)
    regret.legend(fontsize=7, loc="upper left")
    rows = [row for row in result["change"]["rows"] if row["half-life"] != "none"]
    for name in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == name]
        places, ratios = [row["half-life"] for row in own], [row["ratio to none"] for row in own]
        decay.errorbar(places, ratios, [row["± of it"] for row in own], marker="o", markersize=4, label=name)
    decay.axhline(1, color="#bbbbbb", linewidth=0.8, zorder=0)
    decay.set_xscale("log")
    decay.set_xticks(places, [f"{place:,}" for place in places], fontsize=7)
    decay.minorticks_off()
    decay.set_xlabel("half-life, pulls")
    decay.set_ylabel("regret under change, ratio to no decay")
    decay.legend(fontsize=7)
    for mark, row in zip("osD^v<>PX*", (row for row in result["arrivals"] if row["score"] == ".4 / .6"), strict=False):
        newcomers.plot(
            100 * row["regret cost"],
            100 * row["top decile found"],
            marker=mark,
            linestyle="none",
            color="#c0392b" if "shrunk" in row["policy"] else "#555555",
            label=row["policy"],
        )
    newcomers.legend(fontsize=7, loc="lower right")
    newcomers.set_xlabel("regret cost, %")
    newcomers.set_ylabel("best newcomers found, %")
    newcomers.margins(0.1)
    _finish(figure, None, folder / "exploration.png")


def _points(axis: Any, rows: Rows, value: str) -> None:
    for system in dict.fromkeys(row["system"] for row in rows):
        own = [row for row in rows if row["system"] == system]
        axis.plot(
            [row["p50_ms"] for row in own],
            [row[value] for row in own],
            linestyle="none",
            marker=MARKS[system],
            color=COLOURS[system],
            label=system,
            markersize=6,
            alpha=0.85,
        )


def _bars(rows: Rows, value: str, label: str, title: str, path: Path) -> None:
    visible = [row for row in rows if row[value] >= 0.05]
    figure, axis = plt.subplots(figsize=(6, 0.5 * len(visible) + 1.2))
    names = [row["system"] for row in visible][::-1]
    bars = axis.barh(names, [row[value] for row in visible][::-1], color=[COLOURS[name] for name in names])
    axis.bar_label(bars, fmt="%.1f", padding=3)
    axis.set_xlabel(label)
    axis.set_title(title, fontsize=10)
    axis.margins(x=0.12)
    _finish(figure, None, path)


def _growth(result: Mapping[str, Any], folder: Path) -> None:
    panels = {name: [row for row in result["searches"] if row["search"] == name] for name in _names(result["searches"])}
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), squeeze=False)
    left, right = axes[0]
    for name, rows in panels.items():
        line = left.plot([row["items"] for row in rows], [row["p50_ms"] for row in rows], marker="o", label=name)
        left.plot(
            [row["items"] for row in rows],
            [row["p95_ms"] for row in rows],
            marker="o",
            linestyle=":",
            color=line[0].get_color(),
        )
    left.set_title("A search, by the items of its collection", fontsize=10)
    for kind in ("dense", "hybrid"):
        rows = result["tenants"]
        line = right.plot(
            [row["tenants"] for row in rows], [row[f"{kind} p50_ms"] for row in rows], marker="o", label=kind
        )
        right.plot(
            [row["tenants"] for row in rows],
            [row[f"{kind} p95_ms"] for row in rows],
            marker="o",
            linestyle=":",
            color=line[0].get_color(),
        )
    right.set_title("A search, by the tenants of the installation", fontsize=10)
    for axis, what, rows in ((left, "items", result["searches"]), (right, "tenants", result["tenants"])):
        axis.set_xscale("log")
        sizes = sorted({row[what] for row in rows})
        axis.set_xticks(sizes, labels=[f"{count:,}" for count in sizes])
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
        axis.set_xlabel(what)
        axis.set_ylabel("ms: median, 95th percentile dotted")
        axis.legend(frameon=False, fontsize=8)
    _finish(figure, None, folder / "growth.png")


def _learning_curve(result: Mapping[str, Any], folder: Path) -> None:
    figure, axis = plt.subplots(figsize=(6.4, 3.6))
    collections = list(dict.fromkeys(curve["collection"] for curve in result["curves"]))
    named: set[str] = set()
    for curve in result["curves"]:
        name = curve["collection"]
        points = curve["points"]
        axis.plot(
            [point["feedback"] for point in points],
            [100 * (point["ndcg_at_10"] / points[0]["ndcg_at_10"] - 1) for point in points],
            color=f"C{collections.index(curve['collection'])}",
            linestyle="-" if not curve["wrong"] else ":",
            label=None if name in named else name,
        )
        named.add(name)
    axis.set_xlabel("verdicts given by simulated users")
    axis.set_ylabel("gain of nDCG@10, %")
    axis.set_title("One line a crowd of users; dotted: a share of the verdicts is wrong", fontsize=10)
    axis.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _finish(figure, None, folder / "learning_curve.png")


def _names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["search"] for row in rows))


def _finish(figure: Any, legend: Any | None, path: Path) -> None:
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(visible=True, color="#eeeeee", zorder=0)
        axis.set_axisbelow(True)
    figure.tight_layout()
    if legend is not None:
        handles, labels = legend.get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False, fontsize=8)
        figure.subplots_adjust(bottom=0.2 if figure.get_figheight() < 5 else 0.14)
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results")
