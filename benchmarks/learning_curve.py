"""Does search get better by its users' feedback? Simulated users on SciFact; quality on queries they never ask.

    python benchmarks/learning_curve.py DATA [--seeds 3] [--feedback 2000] [--combination logit_stack] [--quick]

DATA holds the folder scifact in BEIR's format; without it there is nothing to do. The users ask the train queries; the
quality is nDCG@10 on the test queries, none of which is asked. Everything goes the way that it goes in use: searches
are recorded, feedback is given by the platform's call, and the jobs ``clusters`` and ``learn`` run every 100 verdicts.
Writes ``benchmarks/results/learning_curve.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hybrid_quality import embedded
from server import running
from simulated_users import Users
from tasks import SCIFACT, SCIFACT_TRAIN

from retrieval import Collection, Item, Platform, connect, read_items
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.jobs.registry import job_named
from retrieval.jobs.run import run_job
from retrieval.services.evaluate import measure as score
from retrieval.services.evaluate import parse_metrics
from retrieval.services.judgements import JudgedQuery, Qrels
from retrieval.services.workplace import JobTarget

FOLDER = Path(__file__).parent
RESULTS, CACHE = FOLDER / "results", FOLDER / ".cache"
EVERY = 100
"""Verdicts from one look at the quality to the next."""


async def curve(
    platform: Platform, data: Path, items: Sequence[Item], vectors: Any, *, seed: int, feedback: int, learned: Learned,
    wrong: float,
) -> list[dict[str, Any]]:  # fmt: skip
    """The quality after so much feedback, for one crowd of users."""
    collection = await platform.collection(f"scifact {seed} {learned.combination} {wrong}")
    await collection.add(items, embeddings=vectors)
    await collection.set_profile(replace(collection.profile, learned=learned), note="learns")
    queries, relevant = SCIFACT_TRAIN.queries(data)
    test, qrels = SCIFACT.queries(data)
    users = Users(queries, relevant, seed, wrong=wrong)
    points = [await _point(collection, test, qrels, given=0, searches=0)]
    given, due = 0, EVERY
    for searches, query in enumerate(users, 1):
        result = await collection.search(query.text)
        said = users.verdicts(query, result)
        events = [
            Feedback(retrieval_id=result.retrieval_id, item_id=item, helpful=helped) for item, helped in said.items()
        ]
        if events:
            given += (await platform.feedback_each(events)).recorded
        if given >= due:
            due += EVERY
            outcome = await _learn(platform, collection)
            points.append(await _point(collection, test, qrels, given=given, searches=searches) | outcome)
            print(f"seed {seed}, {learned.combination}: {points[-1]}", file=sys.stderr, flush=True)
        if given >= feedback:
            return points
    return points


async def _learn(platform: Platform, collection: Collection) -> dict[str, Any]:
    started = time.perf_counter()
    for name in ("clusters", "learn"):
        target = JobTarget(platform.tenant_id, await collection.refresh())
        report = await run_job(platform.workplace, job_named(name), target)
        if report.outcome != "done":
            raise RuntimeError(f"job {name}: {report}")
    await collection.refresh()
    return {
        "published": report.details["published"],
        "reason": report.details["reason"],
        "job_seconds": round(time.perf_counter() - started, 1),
    }


async def _point(
    collection: Collection, test: Sequence[JudgedQuery], qrels: Qrels, *, given: int, searches: int
) -> dict[str, Any]:
    found = await collection.unrecorded().search_each([query.text for query in test], limit=10, syntax=False)
    run = {query.query_id: [hit.item_id for hit in hits] for query, hits in zip(test, found, strict=True)}
    ndcg = score(run, qrels, parse_metrics("nDCG@10")).means["nDCG@10"]
    return {"feedback": given, "searches": searches, "ndcg_at_10": round(ndcg, 4)}


async def run(given: argparse.Namespace, url: str) -> dict[str, Any]:
    """Every crowd's curve."""
    lines = read_items(given.data / SCIFACT.collection / "corpus.jsonl.gz")
    items = [line.item for line in lines if line.item is not None]
    CACHE.mkdir(exist_ok=True)
    queries, _ = SCIFACT.queries(given.data)
    vectors, _ = await embedded(items, queries, CACHE, lambda text: print(text, file=sys.stderr))
    curves = []
    async with connect(url) as platform:
        for seed in range(given.seeds):
            for combination in given.combination:
                for wrong in given.wrong:
                    points = await curve(
                        platform, given.data, items, vectors, seed=seed, feedback=given.feedback, wrong=wrong,
                        learned=Learned(combination=Combination(combination)),
                    )  # fmt: skip
                    curves.append({"seed": seed, "combination": combination, "wrong": wrong, "points": points})
    return {"collection": "scifact", "noise": 0.3, "curves": curves, "summary": summary(curves)}


def summary(curves: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The gain at the end and the worst moment on the way, against the start, by combination."""
    rows = []
    for combination, wrong in sorted({(one["combination"], one["wrong"]) for one in curves}):
        chosen = [one["points"] for one in curves if (one["combination"], one["wrong"]) == (combination, wrong)]
        start = chosen[0][0]["ndcg_at_10"]
        gains = [points[-1]["ndcg_at_10"] / start - 1 for points in chosen]
        worst = min(point["ndcg_at_10"] / start - 1 for points in chosen for point in points)
        rows.append(
            {
                "combination": combination,
                "wrong_verdicts": wrong,
                "seeds": len(chosen),
                "start": start,
                "end_mean": round(sum(points[-1]["ndcg_at_10"] for points in chosen) / len(chosen), 4),
                "gain_mean": round(sum(gains) / len(gains), 4),
                "gain_least": round(min(gains), 4),
                "worst_on_the_way": round(worst, 4),
            }
        )
    return rows


def written(result: dict[str, Any]) -> str:
    """The summary as a page."""
    lines = [
        "# Learning curve",
        "",
        "Simulated users on SciFact (`benchmarks/learning_curve.py`): they ask train queries, click by position and",
        "relevance with 30 % noise, and say whether what they clicked on helped. nDCG@10 on test queries,",
        "which nobody asks.",
        "",
        "| combination | wrong verdicts | seeds | start | end | gain | least gain | worst moment |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['combination']} | {row['wrong_verdicts']:.0%} | {row['seeds']} | {row['start']:.4f} "
        f"| {row['end_mean']:.4f} | {row['gain_mean']:+.1%} | {row['gain_least']:+.1%} "
        f"| {row['worst_on_the_way']:+.1%} |"
        for row in result["summary"]
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--feedback", type=int, default=2000)
    parser.add_argument("--combination", nargs="+", default=["logit_stack", "sum"])
    parser.add_argument("--wrong", nargs="+", type=float, default=[0.0], help="share of verdicts that are wrong")
    parser.add_argument("--quick", action="store_true", help="one crowd and 300 verdicts; nothing is written")
    given = parser.parse_args(arguments)
    if not (given.data / "scifact").is_dir():
        print(f"error: {given.data} holds no scifact folder; name the folder of the test collections", file=sys.stderr)
        return 1
    if given.quick:
        given.seeds, given.feedback = 1, 300
    with running() as server:
        result = asyncio.run(run(given, server.database("learning_curve", platform=True)))
    if not given.quick:
        (RESULTS / "learning_curve.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (RESULTS / "learning_curve.md").write_text(written(result), encoding="utf-8")
    print(written(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
