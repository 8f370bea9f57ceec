"""The platform's targets, and the results of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interleaved import best

LANGCHAIN, BY_HAND, OURS = "langchain-postgres", "by hand", "ours"
LEAST_RECALL = 0.99

Rows = Sequence[Mapping[str, Any]]


def side_by_side_targets(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each target that the run can say something about."""
    checks = [
        _against("plain dense p50, ms", result["plain"], BY_HAND, 1.6),
        _against("plain dense p50, ms", result["plain"], LANGCHAIN, 0.6),
        *(_against(f"p50, filter {name}, ms", rows, BY_HAND, 1.7) for name, rows in result["filtered"].items()),
        *(_least_recall(f"recall@10, filter {name}", rows) for name, rows in result["filtered"].items()),
        _beside_depth_20("words and vectors p50, ms", result["hybrid"], 1.2),
        _beside_depth_20("words and vectors p50 on SciFact, ms", result["quality"].get("rows", []), 1.0),
        _quality_target(result["quality"].get("rows", [])),
        _ingest_target(result["ingest"]),
    ]
    return [target for target in checks if target is not None]


def target(what: str, reached: float, goal: float, rule: str, *, at_least: bool = False) -> dict[str, Any]:
    """One target: the rule in words, the number it comes to in this run, and whether it is met."""
    met = reached >= goal if at_least else reached <= goal
    return {"what": what, "reached": round(reached, 4), "wanted": round(goal, 4), "rule": rule, "met": met}


def _against(what: str, rows: Rows, system: str, share: float) -> dict[str, Any] | None:
    """Our fastest variant with the recall against theirs."""
    own, theirs = best(rows, OURS), best(rows, system)
    if own is None or theirs is None:
        return None
    rule = f"at most {share:.2g} × {system}, {theirs['variant']}: {theirs['p50_ms']} ms"
    return target(what, own["p50_ms"], share * theirs["p50_ms"], rule)


def _least_recall(what: str, rows: Rows) -> dict[str, Any] | None:
    own = best(rows, OURS)
    return None if own is None else target(what, own["recall"], LEAST_RECALL, "at least .99", at_least=True)


def _beside_depth_20(what: str, rows: Rows, share: float) -> dict[str, Any] | None:
    """Our default against langchain's weighted sum at the depth that it documents."""
    own = next((row for row in rows if row["system"] == OURS and row["variant"] != "RRF"), None)
    theirs = next((row for row in rows if row["system"] == LANGCHAIN and row["variant"].endswith("depth 20")), None)
    if own is None or theirs is None:
        return None
    rule = f"at most {share:.2g} × {LANGCHAIN}, {theirs['variant']}: {theirs['p50_ms']} ms"
    return target(what, own["p50_ms"], share * theirs["p50_ms"], rule)


def _quality_target(rows: Rows) -> dict[str, Any] | None:
    own = [row["ndcg_at_10"] for row in rows if row["system"] == OURS]
    if not own:
        return None
    return target("words and vectors nDCG@10, SciFact", max(own), 0.73, "at least .73", at_least=True)


def _ingest_target(rows: Rows) -> dict[str, Any] | None:
    seconds = {row["system"]: row["total"] for row in rows}
    if OURS not in seconds:
        return None
    return target("ingest until both indexes answer, s", seconds[OURS], 7.0, "at most 7 s")


def growth_targets(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each target of the growth benchmark that the run can say something about."""
    rows = [
        target(f"hybrid p95 at {row['items']:,} items, ms", row["p95_ms"], 40, "at most 40 ms")
        for row in result["searches"]
        if row["items"] == 100_000 and row["search"] == "hybrid"
    ]
    tenants = result["tenants"]
    if len(tenants) > 1:
        few, many = tenants[0], tenants[-1]
        for kind in ("dense", "hybrid"):
            limit = 1.2 * few[f"{kind} p95_ms"]
            rule = f"at most 1.2 × that of {few['tenants']:,} tenants: {few[f'{kind} p95_ms']} ms"
            rows.append(target(f"{kind} p95 with {many['tenants']:,} tenants, ms", many[f"{kind} p95_ms"], limit, rule))
    return rows
