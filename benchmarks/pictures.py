"""The documentation's pictures, each for light and dark pages.

Run ``python benchmarks/pictures.py`` with the Python of the peers' environment (``make bench`` makes it).

The curves and bars are drawn from ``benchmarks/results``. ``score.json`` there is the output of
``retrieval search tickets "connection timeout in the pool" --limit 5 --json`` over the sample tickets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PICTURES = ROOT / "benchmarks/results", ROOT / "docs/pictures"

Draw = Callable[["Theme"], None]


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of one kind of page."""

    name: str
    ink: str
    faint: str
    fill: str
    marked: str
    series: tuple[str, ...]


_LIGHT_SERIES = ("#3f51b5", "#d2691e", "#2e8b57", "#8e44ad", "#b8860b", "#16a2b8")
_DARK_SERIES = ("#8c9eff", "#ffab70", "#7fd6a5", "#d2a8ff", "#e6c55c", "#6fd3e3")
THEMES = (
    Theme("light", "#222222", "#9a9a9a", "#f1f3f9", "#dfe5fb", _LIGHT_SERIES),
    Theme("dark", "#e6e6e6", "#7d7d7d", "#2b2e3a", "#3a4060", _DARK_SERIES),
)


def main() -> None:
    """Draw all of them."""
    PICTURES.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        for theme in THEMES:
            with _style(theme):
                draw(theme)
                plt.savefig(PICTURES / f"{name}-{theme.name}.svg", transparent=True, metadata={"Date": None})
                plt.close("all")


@contextmanager
def _style(theme: Theme) -> Iterator[None]:
    colours = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), theme.ink)
    settings = {
        **colours,
        "axes.edgecolor": theme.faint,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": mpl.cycler(color=theme.series),
        "figure.constrained_layout.use": True,
        "font.size": 9,
        "legend.frameon": False,
        # Texts stay selectable texts, and the same data give the same file.
        "svg.fonttype": "none",
        "svg.hashsalt": "retrieval",
    }
    with mpl.rc_context(settings):
        yield


def _results(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _search(theme: Theme) -> None:
    axis = _canvas(7.2, 3.3)
    _boxes(
        axis,
        theme,
        {
            "query": (0.3, 2.3, 1.3, "query, vector,\nfilter, profile"),
            "dense": (2.2, 2.85, 1.7, "dense leg\nHNSW, or all compared"),
            "lexical": (2.2, 1.75, 1.7, "lexical leg\nBM25 over GIN"),
            "both": (4.4, 2.3, 1.4, "both scores of\nevery candidate"),
            "fuse": (6.3, 2.3, 1.5, "fusion, refining,\nlearned model"),
            "hits": (8.3, 2.3, 1.4, "hits with their\nexplanations"),
            "record": (6.3, 0.5, 1.5, "record: pool, page,\npropensities"),
            "verdict": (8.3, 0.5, 1.4, "verdict on a hit"),
        },
        marked=("dense", "lexical", "both"),
    )
    for start, end in (((1.6, 2.3), (2.2, 2.85)), ((1.6, 2.3), (2.2, 1.75)), ((3.9, 2.85), (4.4, 2.3))):
        _arrow(axis, theme, start, end)
    for start, end in (((3.9, 1.75), (4.4, 2.3)), ((5.8, 2.3), (6.3, 2.3)), ((7.8, 2.3), (8.3, 2.3))):
        _arrow(axis, theme, start, end)
    _arrow(axis, theme, (7.05, 1.95), (7.05, 0.85), dashed=True)
    _arrow(axis, theme, (9.0, 1.95), (9.0, 0.85))
    _arrow(axis, theme, (8.3, 0.5), (7.8, 0.5))
    axis.text(3.95, 3.42, "one statement, inside PostgreSQL", ha="center", color=theme.faint)
    axis.text(7.15, 1.4, "in the background", color=theme.faint)


def _feedback(theme: Theme) -> None:
    axis = _canvas(7.2, 2.9)
    _boxes(
        axis,
        theme,
        {
            "shown": (0.3, 2.2, 1.6, "hits shown, each\nwith its propensity"),
            "verdict": (2.5, 2.2, 1.4, "verdict: helped,\nor did not"),
            "arms": (4.6, 2.8, 1.9, "arms: uses and rewards\nof each item"),
            "examples": (4.6, 1.5, 1.9, "examples: query, pool,\nverdict"),
            "slots": (7.3, 2.8, 1.9, "explored places\nof the next pages"),
            "trial": (7.3, 1.5, 1.9, "model, tried on\nverdicts held out"),
            "used": (4.6, 0.4, 1.9, "used from now on,\nor kept out"),
        },
        marked=("trial",),
    )
    for start, end in (((1.9, 2.2), (2.5, 2.2)), ((3.9, 2.2), (4.6, 2.8)), ((3.9, 2.2), (4.6, 1.5))):
        _arrow(axis, theme, start, end)
    for start, end in (((6.5, 2.8), (7.3, 2.8)), ((6.5, 1.5), (7.3, 1.5)), ((7.3, 1.25), (6.5, 0.5))):
        _arrow(axis, theme, start, end)
    _arrow(axis, theme, (4.6, 0.4), (1.1, 1.85))


def _score(theme: Theme) -> None:
    hits = _results("score.json")["hits"][::-1]
    legs = sorted({part["leg"] for hit in hits for part in hit["explanation"]["contributions"]})
    _, axis = plt.subplots(figsize=(7.2, 2.4))
    ends = [0.0] * len(hits)
    for leg in legs:
        values = [sum(p["value"] for p in h["explanation"]["contributions"] if p["leg"] == leg) for h in hits]
        axis.barh(range(len(hits)), values, left=ends, label=leg, height=0.62)
        ends = [end + value for end, value in zip(ends, values, strict=True)]
    for place, (end, hit) in enumerate(zip(ends, hits, strict=True)):
        axis.text(end + 0.01, place, f"{hit['score']:.3f}", va="center", color=theme.ink)
    axis.set_yticks(range(len(hits)), [f"{hit['rank']}. {_short(hit['title'] or hit['body'])}" for hit in hits])
    axis.set_xlabel("score: the contributions add up to it")
    axis.margins(x=0.12)
    axis.legend(loc="lower right")


def _short(text: str) -> str:
    return text if len(text) <= 44 else f"{text[:43]}…"


def _learning(theme: Theme) -> None:
    every = _results("learning_curve.json")["curves"]
    curves = [curve for curve in every if (curve["noise"], curve["wrong"]) == (0.3, 0)]
    _, axis = plt.subplots(figsize=(7.2, 2.8))
    for collection in dict.fromkeys(curve["collection"] for curve in curves):
        own = [curve["points"] for curve in curves if curve["collection"] == collection]
        gains = [[100 * (point["ndcg_at_10"] / points[0]["ndcg_at_10"] - 1) for point in points] for points in own]
        verdicts = [fmean(point["feedback"] for point in step) for step in zip(*own, strict=False)]
        steps = list(zip(*gains, strict=False))
        axis.plot(verdicts, [fmean(step) for step in steps], label=collection)
        axis.fill_between(verdicts, [min(step) for step in steps], [max(step) for step in steps], alpha=0.18)
    axis.set_xlabel("verdicts given")
    axis.set_ylabel("gain of nDCG@10, %")
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1))
    axis.grid(axis="y", color=theme.faint, alpha=0.25)


def _latency(theme: Theme) -> None:
    rows = [row for row in _results("side_by_side.json")["plain"] if row["system"] != "FAISS flat"]
    _, axis = plt.subplots(figsize=(7.2, 2.8))
    marks = dict(zip(dict.fromkeys(row["system"] for row in rows), "osD^vPX*", strict=False))
    for place, (system, mark) in enumerate(marks.items()):
        own = sorted((row for row in rows if row["system"] == system), key=lambda row: float(row["p50_ms"]))
        colour = theme.series[0] if system == "ours" else theme.series[1 + (place - 1) % (len(theme.series) - 1)]
        times, recalls = [row["p50_ms"] for row in own], [row["recall"] for row in own]
        size = 5 + 2 * (system == "ours")
        axis.plot(times, recalls, marker=mark, markersize=size, linewidth=0.8, color=colour, label=system)
    axis.axhline(0.99, color=theme.faint, linewidth=0.8, linestyle="--", zorder=0)
    axis.set_xscale("log")
    axis.set_xticks(ticks := [1, 2, 5, 10, 20, 50], [str(tick) for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("median latency of a dense search, ms")
    axis.set_ylabel("recall@10")
    axis.legend(loc="lower right", ncols=2)


def _canvas(width: float, height: float) -> Axes:
    _, axis = plt.subplots(figsize=(width, height))
    axis.set_xlim(0, 10)
    axis.set_ylim(0, 3.6)
    axis.axis("off")
    return axis


def _boxes(axis: Axes, theme: Theme, boxes: dict[str, tuple[float, float, float, str]], marked: Sequence[str]) -> None:
    """Each by its left edge, its middle's height, its width and its text."""
    for name, (x, middle, width, text) in boxes.items():
        fill = theme.marked if name in marked else theme.fill
        shape = {"boxstyle": "round,pad=0.02,rounding_size=0.08", "facecolor": fill, "edgecolor": theme.faint}
        axis.add_patch(FancyBboxPatch((x, middle - 0.33), width, 0.66, **shape))
        axis.text(x + width / 2, middle, text, ha="center", va="center", fontsize=7.5)


def _arrow(
    axis: Axes, theme: Theme, start: tuple[float, float], end: tuple[float, float], *, dashed: bool = False
) -> None:
    line = {"arrowstyle": "-|>", "mutation_scale": 9, "color": theme.faint, "shrinkA": 2, "shrinkB": 2}
    axis.add_patch(FancyArrowPatch(start, end, linestyle="--" if dashed else "-", **line))


DRAWN: dict[str, Draw] = {
    "search": _search,
    "score": _score,
    "feedback": _feedback,
    "learning": _learning,
    "recall-against-latency": _latency,
}

if __name__ == "__main__":
    main()
