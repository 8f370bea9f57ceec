"""The default profile of an embedding space: tuned on SciFact's train queries, checked on other sets.

    python benchmarks/default_weights.py DATA [--embedder minilm]

DATA holds the folders scifact, cranfield, tickets_hadoop, locomo and vaswani in BEIR's format; without scifact there is
nothing to do, and what else is missing is skipped. Weights and refining are chosen on the train queries alone.
The collections are kept in the database of the settings, so that a second run starts warm.
The result goes to ``benchmarks/results/default_weights_<provider>.json``; ``retrieval/engine/plan.py`` states it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from command import write_json
from tasks import CRANFIELD, LOCOMO, SCIFACT, SCIFACT_TRAIN, TICKETS, VASWANI, Task

from retrieval import Platform, connect
from retrieval.collection import handle_of
from retrieval.domain.search.diversity import PoolVectors, Refining
from retrieval.domain.search.profile import Fusion, FusionKind
from retrieval.engine.collection_search import leg_rankings
from retrieval.services.evaluate import measure as score
from retrieval.services.evaluate import parse_metric
from retrieval.services.judgements import Qrels
from retrieval.services.tune import LegRankings, Setting, grid, tune, vectors_of
from retrieval.settings import Settings

SUM = Fusion(kind=FusionKind.WEIGHTED_SUM)
CHECKS = (SCIFACT, CRANFIELD, TICKETS, LOCOMO, VASWANI)
SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
"""The shares of refining that are tried with the weights of the default profile."""


@dataclass
class TaskRankings:
    """A task's rankings, once for all settings."""

    rankings: LegRankings
    qrels: Qrels
    depth: int
    vectors: PoolVectors

    def mean(self, setting: Setting) -> float:
        """nDCG@10 of the setting over the task's queries."""
        run = {key: setting.rank(rankings, self.depth, self.vectors) for key, rankings in self.rankings.items()}
        return fmean(score(run, {key: self.qrels[key] for key in run}, parse_metric("nDCG@10")).values())


async def measure(platform: Platform, data: Path, task: Task) -> TaskRankings:
    """Ask each leg once a query."""
    collection = await task.ingested(platform, data)
    queries, qrels = task.queries(data)
    rankings, handle = {}, handle_of(collection)
    for query in queries:
        rankings[query.query_id] = await leg_rankings(handle, query.text, where=query.where)
    print(f"{task.name}: {len(rankings)} queries", file=sys.stderr)
    return TaskRankings(rankings, qrels, collection.profile.depth, await vectors_of(handle, rankings.values()))


async def main(data: Path, embedder: str) -> None:
    """Tune, check, write the result."""
    settings = Settings().changed(embedder=embedder)
    async with connect(settings=settings) as platform:
        train = await measure(platform, data, SCIFACT_TRAIN)
        checks = {
            task.name: await measure(platform, data, task) for task in CHECKS if (data / task.collection).is_dir()
        }
        collection = await platform.collection(SCIFACT_TRAIN.collection)
        space = (await collection.info()).space
    equal = Setting({"dense": 1.0, "lexical": 1.0})
    report = tune(train.rankings, train.qrels, equal, depth=train.depth, vectors=train.vectors)
    between = [Setting({"dense": share, "lexical": 1 - share}, SUM) for share in (0.45, 0.55, 0.65, 0.75)]
    refined = [Setting({"dense": 0.65, "lexical": 0.35}, SUM, Refining(share=share)) for share in SHARES]
    candidates = [*grid(with_refining=True), *between, *refined]
    table = [
        {
            "setting": setting.describe(),
            **setting.as_dict(),
            "scifact train": round(train.mean(setting), 4),
            **{name: round(task.mean(setting), 4) for name, task in checks.items()},
        }
        for setting in candidates
    ]
    table.sort(key=lambda row: -float(str(row["scifact train"])))
    result = {"space": space, "metric": "nDCG@10", "verdict": report.reason, "settings": table}
    write_json(f"default_weights_{embedder}", result)
    for row in table:
        print(*(f"{row[name]:.4f}" for name in ("scifact train", *checks)), row["setting"])
    print(report.reason)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--embedder", default="minilm")
    arguments = parser.parse_args()
    if not (arguments.data / "scifact").is_dir():
        sys.exit(f"{arguments.data} holds no scifact folder; give the folder of the test collections")
    asyncio.run(main(arguments.data, arguments.embedder))
