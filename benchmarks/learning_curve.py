"""Does search get better by its users' feedback? Simulated users on judged collections; quality on what they never ask.

    python benchmarks/learning_curve.py DATA [--tasks …] [--seeds 0 1 2] [--wrong 0 0.1 0.3] [--noise 0.3] [--quick]

DATA holds the test collections in BEIR's format; without them there is nothing to do. NFCorpus is not among those of
the project: it is measured if DATA holds it too. The users ask some of a collection's questions; the quality is nDCG@10
on others, none of which is asked. Everything goes the way that it goes in use: searches are recorded, feedback is given
by the platform's call, and the jobs ``clusters`` and ``learn`` run after 250, 500, 1,000 and 2,000 verdicts. Each
collection is filled once, and each crowd has a copy of it. Writes ``benchmarks/results/learning_curve.json`` and
``.md`` after each crowd, so a run that is stopped leaves what it found.
With ``--add`` these keep the crowds of earlier runs, which must have started from the same quality.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from command import RESULTS, write_json
from server import Server, running
from simulated_users import Users
from tasks import CRANFIELD, LOCOMO, NFCORPUS, SCIFACT, SCIFACT_TRAIN, TICKETS, VASWANI, Task

from retrieval import Collection, Platform, SearchResult, Settings, connect
from retrieval.adapters.embedders.minilm import MiniLMEmbedder
from retrieval.domain.items.embedding import TextRole, Vectors
from retrieval.domain.learning.feedback import Feedback
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.jobs.registry import job_named
from retrieval.jobs.run import run_job
from retrieval.services.evaluate import measure as score
from retrieval.services.evaluate import parse_metric
from retrieval.services.judgements import JudgedQuery, Qrels
from retrieval.services.workplace import JobTarget

FOLDER = Path(__file__).parent
LOOKS = (250, 500, 1000, 2000)
"""Verdicts after which the collection learns, and the quality is measured."""
EARLY = 500
"""The look that the summary names beside the last one."""
PATIENT = Settings(embedding_budget_seconds=600)
"""However busy the machine is, no search gives up its dense leg."""
AT_ONCE = 20
"""Searches that are made side by side, and whose verdicts come together."""
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

    def where(self, query: JudgedQuery) -> Any:
        """The filter of a question, which never finds the item that it was made from."""
        return query.where


def _scifact(data: Path) -> World:
    queries, relevant = SCIFACT_TRAIN.queries(data)
    held_out, qrels = SCIFACT.queries(data)
    return World("scifact", SCIFACT, queries, held_out, {**relevant, **qrels})


def _halves(task: Task, data: Path) -> World:
    queries, qrels = task.queries(data)
    random.Random(0).shuffle(queries)  # noqa: S311 - a split keeps no secret
    half = len(queries) // 2
    return World(task.name, task, queries[:half], queries[half:][:_HELD_OUT], qrels)


def _other_conversations(data: Path) -> World:
    queries, qrels = LOCOMO.queries(data)
    names = sorted({str(query.metadata["conversation"]) for query in queries})
    own_queries = [query for query in queries if query.metadata["conversation"] in names[::2]]
    others = [query for query in queries if query.metadata["conversation"] not in names[::2]]
    random.Random(0).shuffle(others)  # noqa: S311 - a sample keeps no secret
    return World("locomo, other conversations", LOCOMO, own_queries, others[:_HELD_OUT], qrels)


def _nfcorpus(data: Path) -> World:
    queries, qrels = NFCORPUS.queries(data)
    random.Random(0).shuffle(queries)  # noqa: S311 - a split keeps no secret
    return World("nfcorpus", NFCORPUS, queries[:200], queries[200:], qrels)


WORLDS = {
    "scifact": _scifact,
    "nfcorpus": _nfcorpus,
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


@dataclass(frozen=True, slots=True)
class Place:
    """A world as a database that holds its collection, and the quality before anybody said anything."""

    world: World
    database: str
    start: float


async def fill(server: Server, data: Path, world: World, learned: Learned, embedder: Remembering) -> Place:
    """The world's collection, searched by a profile that learns, in a database that crowds get copies of."""
    database = f"learning_{world.task.collection}_{len(server.made)}"
    async with connect(server.database(database, platform=True), settings=PATIENT, embedder=embedder) as platform:
        collection = await world.task.ingested(platform, data)
        await collection.set_profile(replace(collection.profile, learned=learned), note="learns")
        return Place(world, database, await _quality(collection, world))


async def curve(platform: Platform, place: Place, crowd: Crowd, looks: Sequence[int]) -> list[dict[str, Any]]:
    """The quality after each number of verdicts, for one crowd of users."""
    world = place.world
    collection = await platform.collection(world.task.collection)
    users = Users(world.asked, world.qrels, crowd.seed, noise=crowd.noise, wrong=crowd.wrong)
    points: list[dict[str, Any]] = [{"look": 0, "feedback": 0, "searches": 0, "ndcg_at_10": place.start}]
    count, searches, users_in_turn = 0, 0, iter(users)
    for due in looks:
        while count < due:
            queries = list(itertools.islice(users_in_turn, AT_ONCE))
            results = await asyncio.gather(*(_searched(collection, query) for query in queries))
            events = [
                Feedback(retrieval_id=result.retrieval_id, item_id=item, helpful=helped)
                for query, result in zip(queries, results, strict=True)
                for item, helped in users.verdicts(query, result).items()
            ]
            count, searches = count + (await platform.feedback_each(events)).recorded, searches + len(queries)
        outcome = await _learn(platform, collection)
        # Without a model a search ranks as at the start.
        quality = await _quality(collection, world) if (await collection.info()).model_version else place.start
        points.append({"look": due, "feedback": count, "searches": searches, "ndcg_at_10": quality} | outcome)
        print(f"{world.name}, {crowd}: {points[-1]}", file=sys.stderr, flush=True)
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


async def _quality(collection: Collection, world: World) -> float:
    unrecorded, run = collection.unrecorded(), {}
    held_out = iter(world.held_out)
    while queries := list(itertools.islice(held_out, AT_ONCE)):
        results = await asyncio.gather(*(_searched(unrecorded, query) for query in queries))
        for query, result in zip(queries, results, strict=True):
            run[query.query_id] = [hit.item_id for hit in result]
    judged = {query.query_id: world.qrels[query.query_id] for query in world.held_out}
    return round(fmean(score(run, judged, parse_metric("nDCG@10")).values()), 4)


async def _searched(collection: Collection, query: JudgedQuery) -> SearchResult:
    result = await collection.search(query.text, where=query.where, syntax=False)
    if result.notes:  # one without a vector, for example, would be evaluated by what users never see
        raise RuntimeError(f"{query.text!r}: {result.notes}")
    return result


async def run(options: argparse.Namespace, server: Server) -> dict[str, Any]:
    """Every crowd's curve, all collections with the first seed first."""
    curves: list[dict[str, Any]] = []
    learned, embedder = Learned(combination=Combination(options.combination)), Remembering()
    places = [await fill(server, options.data, WORLDS[name](options.data), learned, embedder) for name in options.tasks]
    if options.add:
        curves += earlier(options, places)
    result: dict[str, Any] = {}
    for seed, place, noise, wrong in itertools.product(options.seeds, places, options.noise, options.wrong):
        crowd = Crowd(seed, noise, wrong)
        copied = server.copy("learning_crowd", place.database)
        async with connect(copied, settings=PATIENT, embedder=embedder) as platform:
            points = await curve(platform, place, crowd, LOOKS[:1] if options.quick else LOOKS)
        curves.append({"collection": place.world.name, **asdict(crowd), "points": points})
        result = {
            "combination": options.combination,
            "curves": curves,
            "summary": (rows := summary(curves)),
            "means": means(rows),
        }
        if not options.quick:
            write_json("learning_curve", result)
            (RESULTS / "learning_curve.md").write_text(page_of(result), encoding="utf-8")
    return result


def earlier(options: argparse.Namespace, places: Sequence[Place]) -> list[dict[str, Any]]:
    """The curves in the results of the crowds that this run does not repeat.

    Raises ``RuntimeError`` where the quality before any verdict is another now: curves from there do not compare.
    """
    stored = json.loads((RESULTS / "learning_curve.json").read_text(encoding="utf-8"))
    if stored["combination"] != options.combination:
        raise RuntimeError(f"the results are of {stored['combination']}, not {options.combination}")
    starts = {place.world.name: place.start for place in places}
    own = set(itertools.product(starts, options.seeds, options.noise, options.wrong))
    curves = [
        curve
        for curve in stored["curves"]
        if (curve["collection"], curve["seed"], curve["noise"], curve["wrong"]) not in own
    ]
    for curve in curves:
        then = curve["points"][0]["ndcg_at_10"]
        if (now := starts.get(curve["collection"], then)) != then:
            raise RuntimeError(f"{curve['collection']} starts at {now}, and at {then} in the results; run all again")
    return curves


def summary(curves: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The gain early and at the end, and the worst moment on the way, by collection and kind of crowd."""
    alike: dict[tuple[str, float, float], list[list[dict[str, Any]]]] = defaultdict(list)
    for curve in curves:
        alike[curve["collection"], curve["noise"], curve["wrong"]].append(curve["points"])
    rows = []
    for (collection, noise, wrong), crowds in alike.items():
        gains = [[point["ndcg_at_10"] / points[0]["ndcg_at_10"] - 1 for point in points] for points in crowds]
        early = [
            [gain for gain, point in zip(gained, points, strict=True) if point["look"] <= EARLY][-1]
            for gained, points in zip(gains, crowds, strict=True)
        ]
        rows.append(
            {
                "collection": collection,
                "stray_clicks": noise,
                "wrong_verdicts": wrong,
                "seeds": len(crowds),
                "start": crowds[0][0]["ndcg_at_10"],
                "gain_early": round(fmean(early), 4),
                "gain_mean": round(fmean(gained[-1] for gained in gains), 4),
                "gain_least": round(min(gained[-1] for gained in gains), 4),
                "worst_on_the_way": round(min(map(min, gains)), 4),
                "published_after": [
                    next((point["look"] for point in points if point.get("published")), None) for points in crowds
                ],
            }
        )
    return rows


def means(summary: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The mean over collections by kind of crowd, each collection weighing the same; the worst moment of any."""
    kinds: dict[tuple[float, float], list[Mapping[str, Any]]] = defaultdict(list)
    for row in summary:
        kinds[row["stray_clicks"], row["wrong_verdicts"]].append(row)
    return [
        {
            "stray_clicks": noise,
            "wrong_verdicts": wrong,
            "collections": len(rows),
            "crowds": sum(row["seeds"] for row in rows),
            "gain_early": round(fmean(row["gain_early"] for row in rows), 4),
            "gain_mean": round(fmean(row["gain_mean"] for row in rows), 4),
            "worst_on_the_way": min(row["worst_on_the_way"] for row in rows),
        }
        for (noise, wrong), rows in kinds.items()
    ]


def page_of(result: Mapping[str, Any]) -> str:
    """The summary as a page."""
    lines = [
        "# Learning curve",
        "",
        "Simulated users (`benchmarks/learning_curve.py`) ask some of a collection's questions, click by position and",
        "relevance, and say whether what they clicked on helped. A share of the clicks goes astray, and a share of the",
        "verdicts is wrong.",
        f"The gain of nDCG@10 on questions that nobody asks, with the combination `{result['combination']}`.",
        f"A model is tried after {', '.join(map(str, LOOKS))} verdicts; `model from` is the first of these with one.",
        "",
        "| collection | stray clicks | wrong verdicts | seeds | start | at 500 | end | least | worst | model from |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['collection']} | {row['stray_clicks']:.0%} | {row['wrong_verdicts']:.0%} | {row['seeds']} "
        f"| {row['start']:.4f} | {row['gain_early']:+.1%} | {row['gain_mean']:+.1%} | {row['gain_least']:+.1%} "
        f"| {row['worst_on_the_way']:+.1%} | {', '.join(str(look or '–') for look in row['published_after'])} |"
        for row in result["summary"]
    ]
    lines += [
        "",
        "The mean over the collections, each weighing the same, and the worst moment of any crowd:",
        "",
        "| stray clicks | wrong verdicts | collections | crowds | at 500 | end | worst |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['stray_clicks']:.0%} | {row['wrong_verdicts']:.0%} | {row['collections']} | {row['crowds']} "
        f"| {row['gain_early']:+.1%} | {row['gain_mean']:+.1%} | {row['worst_on_the_way']:+.1%} |"
        for row in result["means"]
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tasks", nargs="+", choices=tuple(WORLDS), default=list(WORLDS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="the crowds, by their seeds")
    parser.add_argument("--add", action="store_true", help="add to the results instead of replacing them")
    parser.add_argument("--combination", choices=tuple(Combination), default=Combination.LOGIT_STACK)
    parser.add_argument("--wrong", nargs="+", type=float, default=[0.0, 0.1, 0.3], help="share of wrong verdicts")
    parser.add_argument("--noise", nargs="+", type=float, default=[0.3], help="share of clicks that go astray")
    parser.add_argument("--quick", action="store_true", help="one crowd and 250 verdicts; nothing is written")
    options = parser.parse_args(arguments)
    missing = [name for name in ("scifact", "cranfield") if not (options.data / name).is_dir()]
    if missing:
        print(f"error: {options.data} holds no {missing[0]}; name the folder of the test collections", file=sys.stderr)
        return 1
    if not (options.data / NFCORPUS.collection).is_dir():
        print(f"NOT MEASURED: {options.data} holds no {NFCORPUS.collection}", file=sys.stderr)
        options.tasks = [name for name in options.tasks if name != NFCORPUS.name]
    if options.quick:
        options.seeds, options.wrong, options.noise = [0], [0.0], [0.3]
    with running() as server:
        print(page_of(asyncio.run(run(options, server))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
