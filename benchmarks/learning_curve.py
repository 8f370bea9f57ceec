"""Does search get better by its users' feedback? Simulated users on judged collections; quality on what they never ask.

    python benchmarks/learning_curve.py DATA [--tasks …] [--seeds 3] [--feedback 2000] [--wrong 0 0.1 0.3]
                                         [--noise 0.3] [--quick]

DATA holds the test collections in BEIR's format; without them there is nothing to do. The users ask some of a
collection's questions; the quality is nDCG@10 on others, none of which is asked. Everything goes the way that it goes
in use: searches are recorded, feedback is given by the platform's call, and the jobs ``clusters`` and ``learn`` run
every 250 verdicts. Writes ``benchmarks/results/learning_curve.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from server import running
from simulated_users import Users
from tasks import CRANFIELD, LOCOMO, SCIFACT, SCIFACT_TRAIN, TICKETS, VASWANI, Task

from retrieval import Collection, Platform, connect, read_items
from retrieval.adapters.embedders.minilm import MiniLMEmbedder
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.jobs.registry import job_named
from retrieval.jobs.run import run_job
from retrieval.services.evaluate import measure as score
from retrieval.services.evaluate import parse_metrics
from retrieval.services.judgements import JudgedQuery, Qrels, where_for, without_item
from retrieval.services.workplace import JobTarget

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
EVERY = 250
"""Verdicts from one look at the quality to the next."""
_HELD_OUT = 300


class Remembering:
    """The local model, which makes the vector of a text once for all crowds."""

    def __init__(self) -> None:
        self._model = MiniLMEmbedder()
        self._made: dict[tuple[TextRole, str], Any] = {}
        self.space = self._model.space

    async def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """One vector a text."""
        missing = [text for text in dict.fromkeys(texts) if (role, text) not in self._made]
        if missing:
            vectors = await self._model.embed(missing, role)
            self._made |= {(role, text): vector for text, vector in zip(missing, vectors, strict=True)}
        return np.stack([self._made[role, text] for text in texts])

    async def aclose(self) -> None:
        """Close the model."""
        await self._model.aclose()


@dataclass(frozen=True, slots=True)
class World:
    """A collection with the questions that users ask, and those that nobody asks."""

    name: str
    task: Task
    asked: Sequence[JudgedQuery]
    held_out: Sequence[JudgedQuery]
    qrels: Qrels

    def where(self, query: JudgedQuery) -> dict[str, Any] | None:
        """The filter of a question, which never finds the item that it was made from."""
        leaves_out = self.task.self_id()
        where = where_for(query, self.task.filters())
        return without_item(where, leaves_out.exclude_for(query)) if leaves_out else where


def _scifact(data: Path) -> World:
    asked, relevant = SCIFACT_TRAIN.queries(data)
    held_out, qrels = SCIFACT.queries(data)
    return World("scifact", SCIFACT, asked, held_out, {**relevant, **qrels})


def _halves(task: Task, data: Path) -> World:
    queries, qrels = task.queries(data)
    random.Random(0).shuffle(queries)  # noqa: S311 - a split keeps no secret
    half = len(queries) // 2
    return World(task.name, task, queries[:half], queries[half:][:_HELD_OUT], qrels)


def _other_conversations(data: Path) -> World:
    queries, qrels = LOCOMO.queries(data)
    names = sorted({str(query.metadata["conversation"]) for query in queries})
    asked = [query for query in queries if query.metadata["conversation"] in names[::2]]
    others = [query for query in queries if query.metadata["conversation"] not in names[::2]]
    random.Random(0).shuffle(others)  # noqa: S311 - a sample keeps no secret
    return World("locomo, other conversations", LOCOMO, asked, others[:_HELD_OUT], qrels)


WORLDS = {
    "scifact": _scifact,
    "cranfield": lambda data: _halves(CRANFIELD, data),
    "tickets_hadoop": lambda data: _halves(TICKETS, data),
    "vaswani": lambda data: _halves(VASWANI, data),
    "locomo": lambda data: _halves(LOCOMO, data),
    "locomo-others": _other_conversations,
}


@dataclass(frozen=True, slots=True)
class Crowd:
    """Users of a world: which ones, and how they err."""

    seed: int
    noise: float
    """The share of clicks that go astray."""
    wrong: float
    """The share of verdicts that say the opposite."""


async def curve(
    platform: Platform, data: Path, world: World, crowd: Crowd, *, feedback: int, learned: Learned
) -> list[dict[str, Any]]:
    """The quality after so much feedback, for one crowd of users."""
    collection = await platform.collection(f"{world.name} {crowd}")
    await collection.ingest(read_items(data / world.task.collection / "corpus.jsonl.gz"))
    await collection.set_profile(replace(collection.profile, learned=learned), note="learns")
    users = Users(world.asked, world.qrels, crowd.seed, noise=crowd.noise, wrong=crowd.wrong)
    points = [await _point(collection, world, given=0, searches=0)]
    given, due = 0, EVERY
    for searches, query in enumerate(users, 1):
        result = await collection.search(query.text, where=world.where(query), syntax=False)
        said = users.verdicts(query, result)
        events = [
            Feedback(retrieval_id=result.retrieval_id, item_id=item, helpful=helped) for item, helped in said.items()
        ]
        if events:
            given += (await platform.feedback_each(events)).recorded
        if given >= due:
            due += EVERY
            outcome = await _learn(platform, collection)
            points.append(await _point(collection, world, given=given, searches=searches) | outcome)
            print(f"{world.name}, {crowd}: {points[-1]}", file=sys.stderr, flush=True)
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


async def _point(collection: Collection, world: World, *, given: int, searches: int) -> dict[str, Any]:
    unrecorded, run = collection.unrecorded(), {}
    for query in world.held_out:
        hits = await unrecorded.search(query.text, where=world.where(query), limit=10, syntax=False)
        run[query.query_id] = [hit.item_id for hit in hits]
    judged = {query.query_id: world.qrels[query.query_id] for query in world.held_out}
    ndcg = score(run, judged, parse_metrics("nDCG@10")).means["nDCG@10"]
    return {"feedback": given, "searches": searches, "ndcg_at_10": round(ndcg, 4)}


async def run(given: argparse.Namespace, url: str) -> dict[str, Any]:
    """Every crowd's curve."""
    curves = []
    learned = Learned(combination=Combination(given.combination))
    async with connect(url, embedder=Remembering()) as platform:
        for name in given.tasks:
            world = WORLDS[name](given.data)
            for crowd in itertools.starmap(Crowd, itertools.product(range(given.seeds), given.noise, given.wrong)):
                points = await curve(platform, given.data, world, crowd, feedback=given.feedback, learned=learned)
                curves.append({"collection": world.name, **asdict(crowd), "points": points})
    return {"combination": given.combination, "curves": curves, "summary": summary(curves)}


def summary(curves: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The gain after 500 verdicts and at the end, and the worst moment on the way, by collection and kind of crowd."""
    rows = []
    kinds = [(one["collection"], one["noise"], one["wrong"]) for one in curves]
    for collection, noise, wrong in dict.fromkeys(kinds):
        alike = zip(curves, kinds, strict=True)
        chosen = [one["points"] for one, kind in alike if kind == (collection, noise, wrong)]
        start = chosen[0][0]["ndcg_at_10"]
        gains = [[point["ndcg_at_10"] / start - 1 for point in points] for points in chosen]
        early = [
            gain[max(place for place, point in enumerate(points) if point["feedback"] < 500 + EVERY)]
            for gain, points in zip(gains, chosen, strict=True)
        ]
        published = [next((p["feedback"] for p in points if p.get("published")), None) for points in chosen]
        rows.append(
            {
                "collection": collection,
                "stray_clicks": noise,
                "wrong_verdicts": wrong,
                "seeds": len(chosen),
                "start": start,
                "gain_early": round(fmean(early), 4),
                "gain_mean": round(fmean(gain[-1] for gain in gains), 4),
                "gain_least": round(min(gain[-1] for gain in gains), 4),
                "worst_on_the_way": round(min(map(min, gains)), 4),
                "published_after": published,
            }
        )
    return rows


def written(result: Mapping[str, Any]) -> str:
    """The summary as a page."""
    lines = [
        "# Learning curve",
        "",
        "Simulated users (`benchmarks/learning_curve.py`) ask some of a collection's questions, click by position and",
        "relevance, and say whether what they clicked on helped. A share of the clicks goes astray, and a share of the",
        "verdicts is wrong.",
        f"The gain of nDCG@10 on questions that nobody asks, with the combination `{result['combination']}`.",
        "",
        "| collection | stray clicks | wrong verdicts | seeds | start | at 500 | end | least | worst | model from |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['collection']} | {row['stray_clicks']:.0%} | {row['wrong_verdicts']:.0%} | {row['seeds']} "
        f"| {row['start']:.4f} | {row['gain_early']:+.1%} | {row['gain_mean']:+.1%} | {row['gain_least']:+.1%} "
        f"| {row['worst_on_the_way']:+.1%} | {', '.join(str(one or '–') for one in row['published_after'])} |"
        for row in result["summary"]
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tasks", nargs="+", choices=tuple(WORLDS), default=list(WORLDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--feedback", type=int, default=2000)
    parser.add_argument("--combination", choices=tuple(Combination), default=Combination.LOGIT_STACK)
    parser.add_argument("--wrong", nargs="+", type=float, default=[0.0, 0.1, 0.3], help="share of wrong verdicts")
    parser.add_argument("--noise", nargs="+", type=float, default=[0.3], help="share of clicks that go astray")
    parser.add_argument("--quick", action="store_true", help="one crowd and 300 verdicts; nothing is written")
    given = parser.parse_args(arguments)
    missing = [name for name in ("scifact", "cranfield") if not (given.data / name).is_dir()]
    if missing:
        print(f"error: {given.data} holds no {missing[0]}; name the folder of the test collections", file=sys.stderr)
        return 1
    if given.quick:
        given.seeds, given.feedback, given.wrong, given.noise = 1, 300, [0.0], [0.3]
    with running() as server:
        result = asyncio.run(run(given, server.database("learning_curve", platform=True)))
    if not given.quick:
        (RESULTS / "learning_curve.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (RESULTS / "learning_curve.md").write_text(written(result), encoding="utf-8")
    print(written(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
