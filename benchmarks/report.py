"""The pages that a run writes: Markdown tables made from what its JSON file holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interleaved import best

Rows = Sequence[Mapping[str, Any]]

_HEADINGS = {
    "system": "system",
    "variant": "variant",
    "recall": "recall@10",
    "hits": "hits",
    "p50_ms": "p50 ms",
    "p95_ms": "p95 ms",
    "ndcg_at_10": "nDCG@10",
    "total": "total s",
    "what": "target",
    "reached": "reached",
    "wanted": "wanted",
    "rule": "which is",
    "met": "met",
    "function": "function",
    "calls": "calls",
    "own_us": "own µs",
    "with_callees_us": "with callees µs",
}

_INGEST = (
    "Seconds until every item can be found by vector and by words, precomputed vectors; for a system in PostgreSQL the "
    "bytes of its tables and indexes."
)


def table(rows: Rows, columns: Sequence[str] | None = None) -> str:
    """A Markdown table; a column that a row lacks is empty there."""
    names = list(columns or dict.fromkeys(name for row in rows for name in row))
    heads = [_HEADINGS.get(name, name.replace("_", " ")) for name in names]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(_cell(row.get(name)) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def target_table(targets: Rows) -> str:
    """The table of a run's targets (``targets.target``)."""
    return table(targets, ("what", "reached", "wanted", "rule", "met"))


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def equal_recall(rows: Rows) -> list[Mapping[str, Any]]:
    """The fastest variant of each system with a recall of .99, or the variant with the highest recall."""
    systems = dict.fromkeys(row["system"] for row in rows)
    return [row for system in systems if (row := best(rows, system)) is not None]


def side_by_side_page(result: Mapping[str, Any], results: Path) -> str:
    """The page of ``side_by_side.py``; ``results`` is where other benchmarks' JSON files may lie."""
    about = result["about"]
    opening = (
        f"{about['items']:,} × {about['dimensions']} clustered vectors with texts of about 100 words, {about['cores']} "
        f"cores, {about['memory_gb']} GB, {about['date']}. One run, interleaved: see [benchmarks](../README.md) for "
        "how, and why this is fair. Milliseconds differ between machines; compare the rows."
    )
    parts = [
        "# Side by side",
        opening,
        _versions(about),
        "## Targets",
        target_table(result["targets"]),
        "## Dense search at equal recall",
        "Each system's fastest variant with a recall of at least .99 (the most it reaches, where it reaches less).",
        table(equal_recall(result["plain"])),
        _filters(result["filtered"]),
        "## Hybrid search",
        "Top 10 by words and vector, on the same items.",
        table(result["hybrid"]),
        _quality(result["quality"]),
        "## Ingest",
        _INGEST,
        table(result["ingest"]),
        _overhead(result["overhead"]),
        _lexical(results),
        "## Every variant",
        "### Without a filter",
        table(result["plain"]),
        *(f"### Filter: {name}\n\n{table(rows)}" for name, rows in result["filtered"].items()),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _versions(about: Mapping[str, Any]) -> str:
    server = ", ".join(f"{name} {value}" for name, value in about["server"].items())
    peers = ", ".join(f"{name} {value}" for name, value in about["peers"].items()) or "none installed"
    missing = f" Not compared, because not installed: {', '.join(about['skipped'])}." if about["skipped"] else ""
    return f"Server, the same for all: {server}. Peers: {peers}.{missing}"


def _filters(filtered: Mapping[str, Rows]) -> str:
    rows = [
        {"items that match": name, "system": row["system"], **{key: row[key] for key in row if key != "system"}}
        for name, measured in filtered.items()
        for row in equal_recall(measured)
    ]
    return f"## Filtered search at equal recall\n\n{table(rows)}"


def _quality(quality: Mapping[str, Any]) -> str:
    if "skipped" in quality:
        return f"## Hybrid quality\n\nNot measured: {quality['skipped']}"
    text = (
        f"SciFact, {quality['documents']:,} abstracts, {quality['queries']} test queries, the same MiniLM vectors for "
        "all. The weights of our weighted sum were tuned on other queries of this set, its train queries; RRF has none."
    )
    return f"## Hybrid quality\n\n{text}\n\n{table(quality['rows'])}"


def _overhead(overhead: Mapping[str, Any]) -> str:
    names = ("through_the_api_us", "in_the_server_us", "overhead_us", "python_cpu_us", "messages")
    rows = [{"search": kind, **{name: part.get(name) for name in names}} for kind, part in overhead.items()]
    costs = [
        f"Processor time of Python in a {kind} search, under a profiler:\n\n{table(part['top_costs'])}"
        for kind, part in overhead.items()
    ]
    text = (
        "Medians in microseconds: a top-10 search through the public API, and the sum of what the server says that its "
        "statements took. The rest is Python, the driver and the way to the server and back. On a busy machine all of "
        "it takes longer; Python's own processor time hardly does."
    )
    return "\n\n".join(["## Fixed overhead", text, table(rows), *costs])


def _lexical(results: Path) -> str:
    """The results of the separate lexical benchmark, if it was run."""
    path = results / "lexical.json"
    if not path.exists():
        return ""
    content = json.loads(path.read_text(encoding="utf-8"))
    return f"## Lexical search\n\nFrom `lexical_latency.py`:\n\n```json\n{json.dumps(content, indent=2)}\n```"


def _first(rows: Rows, settings: Mapping[str, Any]) -> int:
    """The first row with the same search: rows of one search are consecutive."""
    return [row["search"] for row in rows].index(settings["search"])


def growth_page(result: Mapping[str, Any]) -> str:
    """The page of ``growth.py``."""
    about = result["about"]
    parts = [
        "# Growth",
        f"The platform alone, {about['cores']} cores, {about['memory_gb']} GB, {about['date']}.",
        "## With items",
        f"{about['dimensions']} dimensions, texts of about 100 words, two filterable attributes. Milliseconds, top 10.",
        table(sorted(result["searches"], key=lambda row: (_first(result["searches"], row), row["items"]))),
        "Loading, until both indexes answer, and what lies on the disk: rows, and indexes by kind.",
        table(result["loads"]),
    ]
    if result.get("tenants"):
        text = (
            f"Each tenant has {about['tenant_items']} items of {about['tenant_dimensions']} dimensions; tenants are "
            "drawn at random, databases of different sizes asked in turn. Milliseconds, top 10."
        )
        parts += ["## With tenants", text, table(result["tenants"])]
    parts += ["## Targets", target_table(result["targets"])]
    return "\n\n".join(parts) + "\n"
