"""The headline figures of a side-by-side run: README's table, and a line of ``results/trend.md``.

``python benchmarks/headline.py`` writes both from ``results/side_by_side.json`` again.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from command import RESULTS
from interleaved import best
from targets import LEAST_RECALL

README = Path(__file__).parents[1] / "README.md"

SYSTEMS: Mapping[str, str] = {
    "ours": "Retrieval",
    "by hand": "by hand, HNSW",
    "langchain-postgres": "langchain-postgres",
    "llama-index": "LlamaIndex",
    "LanceDB": "LanceDB",
    "Chroma": "Chroma",
}
"""README's columns."""

BEGIN, END = "<!-- side by side -->", "<!-- end of side by side -->"

_TREND = """# Trend

The headline figures of each run of `side_by_side.py`, by commit: ours / the best peer's (by hand is none) with a recall
of at least .99 in the same run, p50 in milliseconds. Runs differ in what else the machine did; compare within a line.

| date | commit | dense | 2 % filter | 10 % filter | words and vectors | nDCG@10, SciFact | ingest, s |
|---|---|---|---|---|---|---|---|
"""

Rows = Sequence[Mapping[str, Any]]
Cells = dict[str, float | None]


def readme_table(result: Mapping[str, Any]) -> str:
    """README's table; the best of each row is bold."""
    names = [name for name in SYSTEMS if any(row["system"] == name for row in result["plain"])]
    lines = ["| | " + " | ".join(SYSTEMS[name] for name in names) + " |", "|" + "---|" * (len(names) + 1)]
    for what, cells, choose in _rows(result):
        values = [value for value in cells.values() if value is not None]
        best_value = choose(values) if values else None
        cells_text = [_text(cells.get(name), is_best=cells.get(name) == best_value) for name in names]
        lines.append(f"| {what} | " + " | ".join(cells_text) + " |")
    return "\n".join(lines)


def trend_line(result: Mapping[str, Any], commit: str) -> str:
    """Ours and the best peer's, of one run."""
    pairs = [_pair(cells, choose) for _, cells, choose in _rows(result)]
    dense, tenth, fiftieth, both, quality, ingest = (pairs[place] for place in (3, 5, 4, 6, 7, 9))
    cells = (result["about"]["date"], commit, dense, fiftieth, tenth, both, quality, ingest)
    return "| " + " | ".join(cells) + " |"


def write(result: Mapping[str, Any], commit: str) -> None:
    """Bring README's table up to date, and add the run to the trend."""
    page = README.read_text(encoding="utf-8")
    marked = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    table = f"{BEGIN}\n{readme_table(result)}\n{END}"
    README.write_text(marked.sub(lambda _: table, page), encoding="utf-8")
    trend = RESULTS / "trend.md"
    former = trend.read_text(encoding="utf-8") if trend.exists() else _TREND
    lines = [line for line in former.splitlines() if f"| {commit} |" not in line]
    trend.write_text("\n".join([*lines, trend_line(result, commit)]) + "\n", encoding="utf-8")


def commit_of(folder: Path) -> str:
    """The commit of the checkout, or "unknown"."""
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return process.stdout.strip() or "unknown"


def _rows(result: Mapping[str, Any]) -> list[tuple[str, Cells, Callable[[list[float]], float]]]:
    filtered = result["filtered"]
    quality = result["quality"].get("rows", [])
    top = {name: max(rows, key=lambda row: float(row["ndcg_at_10"])) for name, rows in _by_system(quality).items()}
    fused = {
        name: min(rows, key=lambda row: float(row["p50_ms"])) for name, rows in _by_system(result["hybrid"]).items()
    }
    return [
        ("recall@10 as it comes, 10 % of the items match", _as_it_comes(filtered["10 %"]), max),
        ("the same, 2 % match", _as_it_comes(filtered["2 %"]), max),
        ("the same, 2 % match, far from the question", _as_it_comes(filtered["2 %, far from the question"]), max),
        ("dense p50, ms, recall ≥ .99", _fastest(result["plain"]), min),
        ("2 % filter p50, ms, recall ≥ .99", _fastest(filtered["2 %"]), min),
        ("10 % filter p50, ms, recall ≥ .99", _fastest(filtered["10 %"]), min),
        ("words and vectors, p50, ms, at its fastest", {name: row["p50_ms"] for name, row in fused.items()}, min),
        ("the same, nDCG@10 on SciFact at its best", {name: row["ndcg_at_10"] for name, row in top.items()}, max),
        ("p50 of that, ms", {name: row["p50_ms"] for name, row in top.items()}, min),
        (
            "ingest until all indexes answer, s",
            {row["system"]: row["total"] for row in result["ingest"] if row["system"] in SYSTEMS},
            min,
        ),
    ]


def _by_system(rows: Rows) -> dict[str, list[Mapping[str, Any]]]:
    return {name: own for name in SYSTEMS if (own := [row for row in rows if row["system"] == name])}


def _as_it_comes(rows: Rows) -> Cells:
    return {name: own[0]["recall"] for name, own in _by_system(rows).items()}


def _fastest(rows: Rows) -> Cells:
    variants = {name: best(own, name) for name, own in _by_system(rows).items()}
    return {name: row["p50_ms"] if row and row["recall"] >= LEAST_RECALL else None for name, row in variants.items()}


def _pair(cells: Cells, choose: Callable[[list[float]], float]) -> str:
    peers = [value for name, value in cells.items() if name not in ("ours", "by hand") and value is not None]
    return f"{_text(cells.get('ours'))} / {_text(choose(peers) if peers else None)}"


def _text(value: float | None, *, is_best: bool = False) -> str:
    if value is None:
        return "–"
    text = f"{value:.3f}".lstrip("0") if value < 1 else f"{value:.1f}"
    return f"**{text}**" if is_best else text


if __name__ == "__main__":
    write(json.loads((RESULTS / "side_by_side.json").read_text(encoding="utf-8")), commit_of(README.parent))
