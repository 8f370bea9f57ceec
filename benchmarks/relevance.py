"""Relevance: the local model's calibration is fitted on train queries, and measured on sets it has not seen.

    python benchmarks/relevance.py DATA [--cranqrel FILE]

DATA holds the folders scifact and tickets_hadoop in BEIR's format, and cranfield, vaswani and locomo, which are skipped
where they are missing. Fitted on SciFact's train queries, on every second query of tickets_hadoop, and on questions
that nothing answers: the queries of one of these sets asked of the other's items. Each set weighs the same, what
nothing answers a fifth of a set each. Cranfield, Vaswani and LoCoMo are not looked at before the fit.

Also measured: what a few judged queries of a set bring, from the start that is shipped and without, told on the set's
other queries (the mean of 20 draws); and with Cranfield's grades (``cranqrel`` of Glasgow's distribution: query,
document, 1 to 4, a line), how the error hangs on what is called relevant. The papers that Cranfield's questions were
taken from, which stand in that file and not among the judgements, are then left out of the hits.
The collections are kept in the database of the settings, so that a second run starts warm.
The result goes to ``benchmarks/results/relevance.json``; ``retrieval/domain/search/relevance.py`` ships it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from command import write_json
from tasks import CRANFIELD, LOCOMO, SCIFACT, SCIFACT_TRAIN, TICKETS, VASWANI, Task

from retrieval import Platform, connect
from retrieval.collection import handle_of
from retrieval.domain.search.relevance import Calibration
from retrieval.learning.relevance import CalibrationQuality, JudgedHit, fit_calibration, held_out, quality_of
from retrieval.services.calibrate import judged_hits
from retrieval.services.judgements import JudgedQuery, Qrels
from retrieval.settings import Settings

UNANSWERED_WEIGHT = 0.2
"""The weight of the questions without an answer, in sets."""
UNANSWERED = 150
"""Most queries of another set that are asked of a set's items."""

FEW = (5, 10, 20, 40)
"""Judged queries of a set that a calibration of its own is fitted on."""
DRAWS = 20
"""Choices of these queries, and of hits that are relevant by chance alone."""
MOST_OF_SET = 0.7
"""More of a set's queries than this leave too few to measure on."""

OPERATIONS = (
    "Restart the payment service after a deploy; watch the error rate for ten minutes.",
    "Rotate the TLS certificates of the gateway every 60 days, before they expire.",
    "The nightly backup of PostgreSQL runs at 02:00; restore drills happen each quarter.",
    "When the disk of a Kafka broker is full, lower retention, then add a volume.",
    "Page the on-call engineer if the queue holds more than 10,000 jobs for five minutes.",
    "Scale the search nodes up before the sale; scale them down on the day after.",
    "A connection timeout to the database mostly means that the pool is exhausted.",
    "Drain a Kubernetes node before the kernel update, and uncordon it afterwards.",
)
"""Notes of people who run servers."""
ABOUT_THEM = (
    "when do backups run",
    "connection timeout to the database",
    "broker disk full",
    "renew certificates",
    "who is paged when jobs pile up",
)
ABOUT_OTHERS = (
    "apple pie",
    "apple pie recipe",
    "how long does bread rise",
    "football world cup winner",
    "cheap flights to Lisbon",
    "piano lessons for children",
)

Hits = Mapping[str, Sequence[JudgedHit]]


async def hits_of(
    platform: Platform, data: Path, task: Task, judged: tuple[Sequence[JudgedQuery], Qrels] | None = None
) -> Hits:
    """The hits of the task's queries, or of those given."""
    collection = await task.ingested(platform, data)
    queries, qrels = judged or task.queries(data)
    hits = await judged_hits(handle_of(collection), [query for query in queries if query.query_id in qrels], qrels)
    print(f"{task.name}: {len(queries)} queries, {len(hits['both'])} hits", file=sys.stderr)
    return hits


def unanswered(data: Path, task: Task, *, half: int | None = None) -> tuple[list[JudgedQuery], Qrels]:
    """Queries of the task, of which another collection holds no answer."""
    queries = [JudgedQuery(query_id=query.query_id, text=query.text) for query in task.queries(data)[0]]
    queries = queries if half is None else queries[half::2]
    some = queries[:: max(1, len(queries) // UNANSWERED)][:UNANSWERED]
    return some, {query.query_id: {} for query in some}


def weighed(hits: Hits, weight: float) -> dict[str, list[JudgedHit]]:
    """The hits, which weigh so much together."""
    return {name: [hit._replace(weight=weight / len(some)) for hit in some] for name, some in hits.items()}


def together(*sets: Hits) -> dict[str, list[JudgedHit]]:
    """The hits of several sets, each query with a number of its own."""
    return {
        name: [
            hit._replace(query=hit.query * len(sets) + place)
            for place, one_set in enumerate(sets)
            for hit in one_set[name]
        ]
        for name in ("both", "dense", "lexical")
    }


def measure(calibration: Calibration, hits: Hits) -> dict[str, Any]:
    """The error of the calibration on the hits, by model."""
    return {name: _honest(calibration, some).as_dict() for name, some in hits.items()}


def _honest(calibration: Calibration, hits: Sequence[JudgedHit]) -> CalibrationQuality:
    relevances = calibration.relevances([hit.evidence for hit in hits])
    pairs = [
        (relevance, hit.is_relevant) for relevance, hit in zip(relevances, hits, strict=True) if relevance is not None
    ]
    return quality_of([relevance for relevance, _ in pairs], [judged for _, judged in pairs])


def by_chance(calibration: Calibration, hits: Sequence[JudgedHit]) -> float:
    """The error that would be measured if every hit were relevant with exactly the reported probability."""
    relevances = [
        relevance for relevance in calibration.relevances([hit.evidence for hit in hits]) if relevance is not None
    ]
    draws = np.random.default_rng(0).random((DRAWS, len(relevances))) < np.array(relevances)
    return statistics.mean(quality_of(relevances, outcome).error for outcome in draws.tolist())


def with_few(calibration: Calibration, hits: Hits) -> dict[int, dict[str, float]]:
    """The error on a set's other queries, by the number of judged ones, of fits from the start and without."""
    by_query: dict[int, list[JudgedHit]] = {}
    for hit in hits["both"]:
        by_query.setdefault(hit.query, []).append(hit)
    chance = np.random.default_rng(0)
    by_size: dict[int, dict[str, float]] = {}
    for few in FEW:
        if few > MOST_OF_SET * len(by_query):
            continue
        errors: dict[str, list[float]] = {"from the start": [], "without": []}
        for _ in range(DRAWS):
            sample = set(chance.choice(sorted(by_query), few, replace=False).tolist())
            judged = {"both": [hit for query in sample for hit in by_query[query]]}
            rest = [hit for query, some in by_query.items() if query not in sample for hit in some]
            for name, start in (("from the start", calibration), ("without", None)):
                fitted = fit_calibration(judged, space="", fitted_on="", start=start)
                errors[name].append(_honest(fitted if fitted.both else calibration, rest).error)
        by_size[few] = {name: statistics.mean(some) for name, some in errors.items()}
    return by_size


def read_grades(cranqrel: Path) -> dict[str, dict[str, int]]:
    """Cranfield's grades by query and document: 1 is a complete answer, 4 of minimum interest."""
    grades: dict[str, dict[str, int]] = {}
    for line in cranqrel.read_text(encoding="utf-8").splitlines():
        query, document, grade = line.split()
        grades.setdefault(query, {})[document] = int(grade)
    return grades


async def by_grade(platform: Platform, data: Path, grades: Mapping[str, Mapping[str, int]]) -> dict[str, Hits]:
    """Cranfield's hits by the worst grade that counts as relevant, without the paper that the question is from."""
    queries, qrels = CRANFIELD.queries(data)
    source = {query: next(iter(set(graded) - set(qrels[query])), "") for query, graded in grades.items()}
    asked = [replace(query, where={"item_id": {"ne": source[query.query_id]}}) for query in queries]
    handle = handle_of(await CRANFIELD.ingested(platform, data))
    sets: dict[str, Hits] = {}
    for worst in (1, 2, 3, 4):
        relevant = {
            query: {item_id: int(grades[query].get(item_id, worst) <= worst) for item_id in judged}
            for query, judged in qrels.items()
        }
        sets[f"grades 1 to {worst}"] = await judged_hits(handle, asked, relevant)
    return sets


async def main(data: Path, cranqrel: Path | None) -> None:
    """Fit, measure, write the result."""
    settings = Settings().changed(embedder="minilm")
    async with connect(settings=settings) as platform:
        tickets, judgements = TICKETS.queries(data)
        fitted = together(
            weighed(await hits_of(platform, data, SCIFACT_TRAIN), 1),
            weighed(await hits_of(platform, data, TICKETS, (tickets[::2], judgements)), 1),
            weighed(await hits_of(platform, data, TICKETS, unanswered(data, SCIFACT_TRAIN)), UNANSWERED_WEIGHT),
            weighed(await hits_of(platform, data, SCIFACT, unanswered(data, TICKETS, half=0)), UNANSWERED_WEIGHT),
        )
        calibration = fit_calibration(
            fitted,
            space="minilm/all-MiniLM-L6-v2",
            fitted_on="SciFact's train queries, half of tickets_hadoop's, and questions that nothing answers",
        )
        answered = {"scifact": await hits_of(platform, data, SCIFACT)}
        answered["tickets_hadoop, other half"] = await hits_of(platform, data, TICKETS, (tickets[1::2], judgements))
        there = [task for task in (CRANFIELD, VASWANI, LOCOMO) if (data / task.collection).is_dir()]
        for task in there:
            answered[task.name] = await hits_of(platform, data, task)
        unanswerable = {}
        for task in (SCIFACT, *there):
            other = CRANFIELD if task is SCIFACT else SCIFACT
            if other in (SCIFACT, *there):
                name = f"{task.name}, {other.name}'s queries"
                unanswerable[name] = await hits_of(platform, data, task, unanswered(data, other))
        graded = {} if cranqrel is None else await by_grade(platform, data, read_grades(cranqrel))
        notes = await operations(platform, calibration)
    own = {name: held_out("both", hits["both"]) for name, hits in answered.items()}
    result = {
        "calibration": calibration.as_dict(),
        "sets": {name: measure(calibration, hits) for name, hits in (answered | unanswerable).items()},
        "error by chance": {name: by_chance(calibration, hits["both"]) for name, hits in answered.items()},
        "calibrated on the set itself, other fifths": {
            name: calibration.as_dict() for name, calibration in own.items() if calibration
        },
        "calibrated on a few queries": {name: with_few(calibration, hits) for name, hits in answered.items()},
        "cranfield by grade": {name: measure(calibration, hits)["both"] for name, hits in graded.items()},
        "operations": notes,
    }
    write_json("relevance", result)
    show(result)


async def operations(platform: Platform, calibration: Calibration) -> dict[str, Any]:
    """The relevance of the best hit of each question about the notes, and of those about other things."""
    collection = await platform.collection("operations")
    space = await collection.space()
    own = replace(calibration, space=space.name if space else "")
    await collection.set_profile(replace(collection.profile, calibration=own))
    await collection.add([{"_id": str(number), "text": text} for number, text in enumerate(OPERATIONS)])
    relevances = {text: (await collection.search(text)).hits[0].relevance for text in (*ABOUT_THEM, *ABOUT_OTHERS)}
    return {
        "about them": {text: relevances[text] for text in ABOUT_THEM},
        "others": {text: relevances[text] for text in ABOUT_OTHERS},
    }


def show(result: Mapping[str, Any]) -> None:
    """A line a set and model: hits, share relevant, mean probability, calibration error, AUC."""
    print(json.dumps(result["calibration"]))
    for name, models in result["sets"].items():
        for model, figures in models.items():
            print(f"{name:32} {model:8} {_line(figures)}")
    for name, figures in result["calibrated on the set itself, other fifths"].items():
        print(f"{name:32} {'own':8} {_line(figures)}")
    for name, figures in result["cranfield by grade"].items():
        print(f"{'cranfield, ' + name:32} {'both':8} {_line(figures)}")
    for name, few in result["calibrated on a few queries"].items():
        text = ", ".join(f"{n}: {e['from the start']:.3f} ({e['without']:.3f})" for n, e in few.items())
        print(f"{name:32} by chance {result['error by chance'][name]:.3f}; error by judged queries (no start) {text}")
    print(json.dumps(result["operations"], indent=1))


def _line(figures: Mapping[str, Any]) -> str:
    apart = "–" if figures["told_apart"] is None else f"{figures['told_apart']:.3f}"
    shares = f"{figures['hits']:6} hits, {figures['relevant']:.3f} relevant, {figures['told']:.3f} told"
    return f"{shares}, error {figures['error']:.3f}, told apart {apart}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cranqrel", type=Path, help="Cranfield's judgements with their grades")
    arguments = parser.parse_args()
    if not (arguments.data / "scifact").is_dir() or not (arguments.data / "tickets_hadoop").is_dir():
        sys.exit(f"{arguments.data} holds no scifact or no tickets_hadoop; give the folder of the test collections")
    asyncio.run(main(arguments.data, arguments.cranqrel))
