"""What the platform wants to reach, and what one run says about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interleaved import best

LANGCHAIN, LLAMA, BY_HAND, OURS = "langchain-postgres", "llama-index", "by hand", "ours"

Rows = Sequence[Mapping[str, Any]]


def side_by_side_targets(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each target that the run can say something about."""
    found = [
        *_filter_targets(result["filtered"].get("2 %", []), result["overhead"]["dense"].get("overhead_us", 0.0) / 1e3),
        _against("plain dense p50, ms", result["plain"], [LANGCHAIN], 1 / 2),
        _against("hybrid p50, ms", result["hybrid"], [LANGCHAIN, LLAMA], 1 / 5),
        _quality_target(result["quality"].get("rows", [])),
        _ingest_target(result["ingest"]),
    ]
    return [target for target in found if target is not None]


def target(what: str, reached: float, wanted: float, rule: str, *, at_least: bool = False) -> dict[str, Any]:
    """One target: the rule in words, the number it comes to in this run, and whether it is met."""
    met = reached >= wanted if at_least else reached <= wanted
    return {"what": what, "reached": round(reached, 4), "wanted": round(wanted, 4), "rule": rule, "met": met}


def _filter_targets(rows: Rows, overhead_ms: float) -> list[dict[str, Any] | None]:
    own = next((row for row in rows if row["system"] == OURS), None)
    hand = [row for row in rows if row["system"] == BY_HAND and row["variant"] != "default"]
    floor = best(hand, BY_HAND)
    if own is None or floor is None:
        return []
    limit = 1.3 * (floor["p50_ms"] + overhead_ms)
    rule = f"at most 1.3 × (by hand, {floor['variant']}: {floor['p50_ms']} ms + our fixed overhead)"
    return [
        target("recall@10 with a 2 % filter", own["recall"], 0.99, "at least .99", at_least=True),
        target("p50 with a 2 % filter, ms", own["p50_ms"], limit, rule),
    ]


def _against(what: str, rows: Rows, systems: Sequence[str], share: float) -> dict[str, Any] | None:
    """Our fastest variant with the recall against the fastest of theirs."""
    own = best(rows, OURS)
    theirs = [row for system in systems if (row := best(rows, system)) is not None]
    if own is None or not theirs:
        return None
    fastest = min(theirs, key=lambda row: float(row["p50_ms"]))
    rule = f"at most {share:.2g} × {fastest['system']}, {fastest['variant']}: {fastest['p50_ms']} ms"
    return target(what, own["p50_ms"], share * fastest["p50_ms"], rule)


def _quality_target(rows: Rows) -> dict[str, Any] | None:
    own = [row["ndcg_at_10"] for row in rows if row["system"] == OURS]
    theirs = [row for row in rows if row["system"] in (LANGCHAIN, LLAMA)]
    if not own or not theirs:
        return None
    top = max(theirs, key=lambda row: float(row["ndcg_at_10"]))
    rule = f"at least {top['system']}, {top['variant']}: {top['ndcg_at_10']} + .05"
    return target("hybrid nDCG@10, SciFact", max(own), top["ndcg_at_10"] + 0.05, rule, at_least=True)


def _ingest_target(rows: Rows) -> dict[str, Any] | None:
    seconds = {row["system"]: row["total"] for row in rows}
    if OURS not in seconds or LANGCHAIN not in seconds:
        return None
    rule = f"at most 1/3 of {LANGCHAIN}: {seconds[LANGCHAIN]} s"
    return target("ingest until both indexes answer, s", seconds[OURS], seconds[LANGCHAIN] / 3, rule)


def growth_targets(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each target of the growth benchmark that the run can say something about."""
    found = [
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
            found.append(
                target(f"{kind} p95 with {many['tenants']:,} tenants, ms", many[f"{kind} p95_ms"], limit, rule)
            )
    return found
