"""Metaphors: what moving away from a failed one does, and whether retrieval improves over a hundred problems.

    python benchmarks/metaphors.py [--quick] [--server URL] [--out FOLDER]

With MiniLM (extra ``local``), over the curated metaphors, through the whole platform. Away: each of 72 problems (those
of ``metaphor_corpus.json``) meets its best metaphor, which fails, and is asked again at every strength, in turn. The
loop: ``examples/metaphor_search_loop.py`` with its simulated world, ten worlds for each setting. The result is the page
``results/metaphors.md``.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np
from command import parser_of, write
from pydantic import SecretStr
from report import table
from server import Server, running

from retrieval import Platform, Settings
from retrieval.adapters.embedders.minilm import MiniLMEmbedder
from retrieval.adapters.llms.sim import SimLLM
from retrieval.apps.metaphors import Metaphor, MetaphorCorpus, MetaphorRetriever, Problem
from retrieval.domain.items.embedding import Vector

HERE = Path(__file__).parent
EXAMPLE = HERE.parent / "examples" / "metaphor_search_loop.py"
STRENGTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
QUARTERS = 4


@dataclass(frozen=True, slots=True)
class Extent:
    """The measured figures."""

    problems: int
    """Problems of each kind, for moving away."""
    worlds: int
    trusted_from: tuple[int, ...]
    """Verdicts from which a model is used; it is fitted at that number, or a few verdicts later."""


FIRST_FIT = {10: 5, 20: 10, 50: 20}
"""For each number of verdicts, the problems after which it is reached: each problem takes two to three."""

LAST_FIT = 60

NORMAL = Extent(36, 10, (20, 10, 50))
QUICK = Extent(2, 1, (20,))


def search_loop() -> ModuleType:
    """The example."""
    spec = importlib.util.spec_from_file_location("metaphor_search_loop", EXAMPLE)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True)
class Again:
    """The answer after a failure, beside the answer to a question that did not move."""

    to_failed: float
    """The mean cosine of what was answered and what failed."""
    to_problem: float
    overlap: float
    """The share of the same metaphors."""


async def away(platform: Platform, problems: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each strength: means over the problems, which are asked at all strengths one after the other."""
    corpus = await MetaphorCorpus.open(platform, "away")
    retrievers = {strength: MetaphorRetriever(corpus, platform=platform, away=strength) for strength in STRENGTHS}
    vectors = await corpus.collection.embeddings([metaphor.id for metaphor in corpus.static])
    questions: Sequence[Vector] = list(await corpus.collection.vectors_of(problems))
    runs: dict[float, list[Again]] = {strength: [] for strength in STRENGTHS}
    for number, (text, question) in enumerate(zip(problems, questions, strict=True)):
        problem = Problem(id=str(number), description=text)
        ((failed, _),) = await retrievers[0.0].retrieve(problem, limit=1)
        usual: set[str] = set()
        for strength, retriever in retrievers.items():
            answer = await retriever.retrieve_after_backtrack(problem, failed, "it did not hold")
            ids = [metaphor.id for metaphor, _ in answer]
            usual = usual or set(ids)
            matrix = np.stack([vectors[metaphor_id] for metaphor_id in ids])
            cosines = float(np.mean(matrix @ vectors[failed.id])), float(np.mean(matrix @ question))
            runs[strength].append(Again(*cosines, len(usual & set(ids)) / len(ids)))
    return [away_row(strength, each, runs[0.0]) for strength, each in runs.items()]


def away_row(strength: float, each: Sequence[Again], usual: Sequence[Again]) -> dict[str, Any]:
    """The means at a strength, and at how many problems the answers are less like what failed."""
    less = [run.to_failed < other.to_failed for run, other in zip(each, usual, strict=True)]
    return {
        "strength": strength,
        "to the failed one": round(float(np.mean([run.to_failed for run in each])), 3),
        "to the problem": round(float(np.mean([run.to_problem for run in each])), 3),
        "of the same five": round(float(np.mean([run.overlap for run in each])), 2),
        "less like it": round(float(np.mean(less)), 2),
    }


async def loop(platform: Platform, trusted_from: int, worlds: int) -> list[dict[str, Any]]:
    """The share solved at the first try by quarter, in each world: with what was learned, and by similarity alone."""
    example = search_loop()
    rows = []
    for seed in range(1, worlds + 1):
        corpus = await MetaphorCorpus.open(platform, f"loop-{trusted_from}-{seed}")
        profile = corpus.collection.profile
        learned = replace(profile.learned, trusted_from=trusted_from)
        await corpus.collection.set_profile(replace(profile, learned=learned))
        moments = FIRST_FIT[trusted_from], LAST_FIT
        learning, similar = await example.run(platform, corpus, SimLLM(), seed, moments)
        world = await example.World.made(seed, MetaphorRetriever(corpus, platform=platform))
        plain = by_thompson(world, corpus.static, example.ATTEMPTS)
        rows.append(
            {
                "learning": by_quarter(learning),
                "similarity": by_quarter(similar),
                "thompson": by_quarter(plain),
                "uses": {"learning": uses_until_right(learning), "thompson": uses_until_right(plain)},
            }
        )
        print(f"trusted from {trusted_from}, world {seed}: {rows[-1]}", file=sys.stderr)
    return rows


def by_thompson(world: Any, metaphors: Sequence[Metaphor], most: int) -> list[int]:
    """The attempt that worked, from 1, or 0, by plain Thompson sampling: a Beta(1, 1) for each metaphor and domain."""
    chance = random.Random(world.seed)  # noqa: S311 - a simulation
    counts: dict[tuple[str, str], list[int]] = {}
    attempts = []
    for problem in world.problems():
        beliefs = {metaphor.id: counts.setdefault((problem.domain, metaphor.id), [1, 1]) for metaphor in metaphors}
        draws = {name: chance.betavariate(*belief) for name, belief in beliefs.items()}
        best = sorted(metaphors, key=lambda metaphor: draws[metaphor.id], reverse=True)[:most]
        attempts.append(0)
        for number, metaphor in enumerate(best, 1):
            is_solved = world.is_solved(problem, metaphor)
            beliefs[metaphor.id][0 if is_solved else 1] += 1
            if is_solved:
                attempts[-1] = number
                break
    return attempts


def uses_until_right(attempts: Sequence[int], tried: int = 3) -> int | None:
    """Outcomes until the first metaphor is right: it then solves eight of the next ten problems. None: it never is."""
    uses = 0
    for start in range(len(attempts) - 9):
        if sum(attempt == 1 for attempt in attempts[start : start + 10]) >= 8:
            return uses
        uses += attempts[start] or tried
    return None


def until_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The number of worlds that came so far, and of outcomes before."""
    found = []
    for name, kind in (("learned", "learning"), ("plain Thompson sampling by domain", "thompson")):
        uses = sorted(row["uses"][kind] for row in rows if row["uses"][kind] is not None)
        last = [row[kind][-1] for row in rows]
        found.append(
            {
                "retrieval": name,
                "right in worlds": f"{len(uses)} of {len(rows)}",
                "outcomes until then, median of these": median(uses) if uses else "never",
                "most": uses[-1] if uses else "never",
                "solved in the last quarter": round(float(np.mean(last)), 2),
            }
        )
    return found


def by_quarter(attempts: Sequence[int]) -> list[float]:
    """The share of problems that the first metaphor solved, in each quarter."""
    return [round(float(np.mean([attempt == 1 for attempt in part])), 4) for part in np.array_split(attempts, QUARTERS)]


def loop_rows(settings: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The means over worlds by quarter, with their standard deviations; similarity from the first setting's worlds."""
    first = next(iter(settings.values()))
    rows = [_row(f"learned, a model trusted from {name} verdicts", rows, "learning") for name, rows in settings.items()]
    return [*rows, _row("similarity alone", first, "similarity")]


def _row(name: str, rows: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    values = np.array([row[kind] for row in rows])
    means, spread = values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(QUARTERS)
    return {"retrieval": name} | {
        f"quarter {number}": f"{mean:.2f} ± {sd:.2f}"
        for number, (mean, sd) in enumerate(zip(means, spread, strict=True), 1)
    }


def rises(rows: Sequence[Mapping[str, Any]]) -> tuple[int, float]:
    """In how many worlds the last quarter beats the first, and the least gain."""
    gains = [row["learning"][-1] - row["learning"][0] for row in rows]
    return sum(gain > 0 for gain in gains), min(gains)


AWAY = """\
{problems} problems. The best metaphor of each fails, and five others are asked for. Mean cosines of these to what
failed and to the problem; the share that is the same as without; the share of problems whose answers are less like
what failed. The default is 0.4."""

LOOP = """\
Five domains, in each of which 8 of 65 metaphors work, at 85 % of the problems; others at 5 %. Up to three metaphors
are tried, and each outcome is recorded. A model is fitted after 5, 10 or 20 problems, when there are some 10, 20 or 50
verdicts, and again after 60; what it expects follows every outcome in between. The share solved at the first try, mean
and standard deviation over {worlds} worlds."""

UNTIL = """\
How many outcomes are recorded, over all domains, until the first metaphor is right: until it solves eight of the next
ten problems. Beside it plain Thompson sampling, Beta(1, 1) for each metaphor in each domain, without similarity."""

RISES = """\
The last quarter is better than the first in {rose} of {worlds} worlds; the least gain is {least:.2f}."""


def page(result: Mapping[str, Any]) -> str:
    """The results for people."""
    rose, least = rises(next(iter(result["loop"].values())))
    parts = [
        "# Metaphors",
        "`python benchmarks/metaphors.py` measures it again. MiniLM, the curated metaphors, the whole platform.",
        "## Away from what failed",
        AWAY.format(**result),
        table(result["away"]),
        "## Over a hundred problems",
        LOOP.format(**result),
        table(loop_rows(result["loop"])),
        RISES.format(rose=rose, least=least, **result),
        "## Until the better one is on top",
        UNTIL,
        table(result["until"]),
    ]
    return "\n\n".join(parts) + "\n"


async def measure(server: Server, extent: Extent) -> dict[str, Any]:
    """All of it."""
    data = json.loads((HERE / "metaphor_corpus.json").read_text(encoding="utf-8"))
    problems = [problem["problem"] for kind in ("work", "life") for problem in data[kind][: extent.problems]]
    url = server.database("metaphors", platform=True)
    settings = Settings(tenant="metaphors", embedder="none", database_url=SecretStr(url))
    async with Platform(settings, embedder=MiniLMEmbedder()) as platform:
        moved = await away(platform, problems)
        loops = {
            str(trusted_from): await loop(platform, trusted_from, extent.worlds) for trusted_from in extent.trusted_from
        }
        until = until_rows(next(iter(loops.values())))
        return {"problems": len(problems), "worlds": extent.worlds, "away": moved, "loop": loops, "until": until}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    options = parser_of(__doc__, "two problems and a world, to see that it runs").parse_args(arguments)
    with running(options.server) as server:
        result = asyncio.run(measure(server, QUICK if options.quick else NORMAL))
    write("metaphors", result, page(result), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
