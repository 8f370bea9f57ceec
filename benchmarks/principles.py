"""Principles: are new ones surfaced and judged, do good ones rise and bad ones sink; and how much meaning counts.

    python benchmarks/principles.py [--quick] [--server URL] [--out DIRECTORY]

The first part is simulated with fixed seeds, by the functions that choose what a session is started with. The second
asks the real store, with the local embedding model. Results go to ``benchmarks/results/principles.{json,md}``.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import principle_contest as contest
import principle_world as world
from command import parser_of, write
from principle_similarity import by_weight
from report import table, target_table
from targets import target


@dataclass(frozen=True)
class Extent:
    """The size of the simulation."""

    seeds: int = 40
    contests: int = 100
    """Times that each contest is held."""
    about: world.About = field(default_factory=world.About)
    weights: tuple[float, ...] = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
    histories: int = 3


USES = contest.CONTESTS[0].uses
NORMAL = Extent()
QUICK = Extent(2, 2, world.About(established=12, arriving=12, sessions=80), (1.0,), 1)


def run(extent: Extent) -> dict[str, Any]:
    """Simulate; gives what the JSON file holds."""
    outcomes = {
        name: [world.simulate(extent.about, policy, status, seed) for seed in range(extent.seeds)]
        for name, (policy, status) in world.POLICIES.items()
    }
    rows = [_row(name, runs, outcomes[world.OLD]) for name, runs in outcomes.items()]
    return {
        "about": {"seeds": extent.seeds, **vars(extent.about)},
        "policies": rows,
        "bad": [_over_time(name, runs, lambda run: run.bad) for name, runs in outcomes.items()],
        "helpfulness": [_over_time(name, runs, lambda run: run.helpfulness) for name, runs in outcomes.items()],
        "contests": {"times": extent.contests, "rows": contest.rows(extent.contests)},
        "targets": targets(rows),
    }


def _row(name: str, runs: Sequence[world.RunResult], old: Sequence[world.RunResult]) -> dict[str, Any]:
    good = [_good(run) for run in runs]
    more = [statistics.fmean(a.helpfulness) - statistics.fmean(b.helpfulness) for a, b in zip(runs, old, strict=True)]
    rises = [when - _arrived(run, name) for run, of in zip(runs, good, strict=True)
             for name, when in run.risen.items() if name in of]  # fmt: skip
    return {
        "policy": name,
        "good newcomers shown": _share(runs, good, lambda run: run.shown),
        "judged": _share(runs, good, lambda run: run.rated),
        "risen": _share(runs, good, lambda run: run.risen),
        "risen, of those without tags": _share(
            runs, [_untagged(*of) for of in zip(runs, good, strict=True)], lambda run: run.risen
        ),
        "sessions until risen, median": statistics.median(rises) if rises else "never",
        "helpfulness": round(statistics.fmean(statistics.fmean(run.helpfulness) for run in runs), 3),
        "more than the first": round(statistics.fmean(more), 3),
        "±": round(statistics.stdev(more) / len(more) ** 0.5, 4) if len(more) > 1 else 0.0,
    }


def _good(outcome: world.RunResult) -> set[str]:
    """The good newcomers that had at least the last quarter of the sessions to be found in: all of them."""
    assert outcome.state is not None  # noqa: S101 - for the type checker
    return {name for name in outcome.state.arrived if outcome.state.helps[name] >= world.GOOD}


def _untagged(outcome: world.RunResult, names: set[str]) -> set[str]:
    assert outcome.state is not None  # noqa: S101 - for the type checker
    return {name for name in names if not outcome.state.known[name].tags}


def _arrived(outcome: world.RunResult, name: str) -> int:
    assert outcome.state is not None  # noqa: S101 - for the type checker
    return outcome.state.arrived[name]


def _share(
    runs: Sequence[world.RunResult], good: Sequence[set[str]], of: Callable[[world.RunResult], dict[str, int]]
) -> float:
    hits = sum(len(names & of(run).keys()) for run, names in zip(runs, good, strict=True))
    return round(hits / max(1, sum(map(len, good))), 3)


def _over_time(
    name: str, runs: Sequence[world.RunResult], of: Callable[[world.RunResult], list[float]]
) -> dict[str, Any]:
    """The mean in each quarter of the sessions."""
    row: dict[str, Any] = {"policy": name}
    for quarter in range(4):
        part = [value for run in runs for value in _quarter(of(run), quarter)]
        row[f"quarter {quarter + 1}"] = round(statistics.fmean(part), 3)
    return row


def _quarter(values: list[float], quarter: int) -> list[float]:
    size = len(values) // 4
    return values[quarter * size : (quarter + 1) * size]


def targets(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The targets, and the results."""
    by_name = {row["policy"]: row for row in rows}
    ours, without = by_name[world.OURS], by_name[world.NO_EXPLORATION]
    return [
        target("good newcomers shown", ours["good newcomers shown"], 0.95, "at least 95 %", at_least=True),
        target("good newcomers risen", ours["risen"], 0.8, "at least 80 %", at_least=True),
        target("helpfulness beyond the first policy's", ours["more than the first"], 0.0, "above 0", at_least=True),
        target(
            "helpfulness, to that without exploration",
            ours["helpfulness"] / without["helpfulness"],
            0.95,
            "at least .95",
            at_least=True,
        ),
    ]


def page(result: dict[str, Any]) -> str:
    """The Markdown page."""
    about = result["about"]
    weights = table(result["similarity"]) if result.get("similarity") else "Not measured in this run."
    return f"""# Principles

`benchmarks/principles.py`.

## New principles

Simulated, {about["seeds"]} seeds; ± is the standard error of the paired difference. {about["established"]} principles
are there, judged five times each; {about["arriving"]} arrive during the first three quarters of {about["sessions"]}
sessions, {about["sessions_a_day"]} a day. A session has {about["session_tags"]} of {about["topics"]} tags and is shown
{about["places"]} principles, of which {about["judged"]:.0%} are judged. How probably a principle helps is hidden,
Beta(1.2, 1.2) distributed, and {about["elsewhere"]} of that in a session with none of its tags; every
{about["untagged"]}th newcomer has no tags, and helps anywhere. Good: at least
{world.GOOD}; bad: at most {world.BAD}. Risen: shown for its score after at least {world.KNOWN_FROM} verdicts.
Helpfulness is the true one of what was shown. Where something is explored newcomers are candidates, which their score
does not show until they have proved themselves.

{table(result["policies"])}

The share of bad ones in what was shown:

{table(result["bad"])}

The mean helpfulness of what was shown:

{table(result["helpfulness"])}

## Until the better one is on top

Of some new principles one is better, and only verdicts tell which: each one that is shown is judged. Each contest is
held {result["contests"]["times"]} times, over {USES:,} verdicts. Uses: verdicts on all of them until the
better one is believed to be the best, and is from then on; 0: the order at the start was right. The product explores
what was used fewer than 5 times or is younger than 7 days, so a good one that began badly may stay behind; plain
Thompson sampling never stops to try.

{table(result["contests"]["rows"])}

## How much similarity counts

The real store with the local model: principles and situations of `benchmarks/data`, each situation with the principles
that help. Verdicts are random, up to 20 for each principle, and say nothing about what fits; means over several such
histories. Worth is the discounted sum of the principle scores of those that help among the first five, to the best
possible one.

{weights}

## Targets

{target_table(result["targets"])}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    options = parser_of(__doc__, "a few runs of the simulation, to see that it works").parse_args(arguments)
    extent = QUICK if options.quick else NORMAL
    result = run(extent)
    if not options.quick:
        result["similarity"] = asyncio.run(by_weight(options.server, extent.weights, extent.histories))
    write("principles", result, page(result), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
