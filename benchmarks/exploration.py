"""Exploration: regret beside other policies, decay under change, newcomers found and their cost, propensities.

    python benchmarks/exploration.py [--quick]

Everything but the times is simulated with fixed seeds. Results go to ``benchmarks/results/exploration.{json,md}``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import arrivals
import bandits
import numpy as np
import served
from command import machine, parser_of, say, write
from report import table, target_table
from targets import target

HALF_LIFE = 1000
"""The pulls of all arms that stand for 30 days in the simulation."""

POLICIES: Mapping[str, bandits.Policy] = {
    "Thompson, shrunk": bandits.shrunk_thompson,
    "Thompson, Beta(1, 1)": bandits.thompson,
    "Thompson, Beta(1, 1), floor .1": bandits.mixed(bandits.thompson, 0.1),
    "ε-greedy, .05": bandits.mixed(bandits.greedy, 0.05),
    "UCB1": bandits.ucb1,
    "greedy": bandits.greedy,
    "random": bandits.uniform,
}

DEFAULT, BETA, UCB1 = "Thompson, shrunk", "Thompson, Beta(1, 1)", "UCB1"


@dataclass(frozen=True)
class Extent:
    """The size of the simulation."""

    runs: int = 300
    many_runs: int = 1200
    """For the two small differences that targets are about."""
    horizon: int = 10_000
    half_lives: tuple[int, ...] = (250, 500, 700, 1000, 1400, 2000, 4000, 8000)
    arrival_runs: int = 24
    collection: arrivals.Collection = field(default_factory=arrivals.Collection)
    slates: int = 100_000
    timed: int = 400


NORMAL = Extent()
QUICK = Extent(20, 20, 400, (HALF_LIFE,), 2, arrivals.Collection(arriving=40, searches=60, searches_a_day=10), 200, 3)


def run(extent: Extent) -> dict[str, Any]:
    """Simulate and measure; gives what the JSON file holds."""
    result: dict[str, Any] = {
        "about": {
            **machine(),
            "runs": extent.runs,
            "horizon": extent.horizon,
            "arrival_runs": extent.arrival_runs,
            "searches": extent.collection.searches,
            "arriving": extent.collection.arriving,
            "searches_a_day": extent.collection.searches_a_day,
        },
        "stationary": stationary(extent),
    }
    result["change"] = change(extent)
    result["closer"] = closer(extent)
    result["arrivals"] = [row for stack in (False, True) for row in newcomers(extent, stack=stack)]
    result["timings"] = served.timings(extent.timed, 1)
    result["agreement"] = [served.agreement(extent.slates // 2, slots, 2) for slots in (1, 2)]
    return result | {"targets": targets(result)}


def stationary(extent: Extent) -> list[dict[str, Any]]:
    """Ten arms, a gap of .1; the batches' policies see what happened up to the last full hundred."""
    world = bandits.World(horizon=extent.horizon)
    rows = []
    for name, policy in POLICIES.items():
        regret = bandits.simulate(world, policy, extent.runs, 1)
        rows.append({"policy": name, **_regret(regret)})
        say(f"{name}: regret {rows[-1]['regret']}")
    for name in (DEFAULT, BETA):
        for batch in (100, 1000):
            regret = bandits.simulate(world, POLICIES[name], extent.runs, 1, batch=batch)
            rows.append({"policy": f"{name}, batches of {batch:,}", **_regret(regret)})
    return rows


def change(extent: Extent) -> list[dict[str, Any]]:
    """The best arm becomes another one four times within the horizon."""
    world = bandits.World(horizon=extent.horizon, change_every=extent.horizon // 4)
    rows = []
    for name in (DEFAULT, BETA):
        without = bandits.simulate(world, POLICIES[name], extent.runs, 2)
        for half_life in (None, *extent.half_lives):
            regret = without if half_life is None else _decayed(world, name, extent, half_life)
            ratio = regret.mean() / without.mean()
            error = (regret - ratio * without).std() / np.sqrt(extent.runs) / without.mean()
            row = {"policy": name, "half-life": half_life or "none", **_regret(regret)}
            rows.append(row | {"ratio to none": round(float(ratio), 4), "± of it": round(float(error), 4)})
        say(f"{name} under change: {[row['ratio to none'] for row in rows if row['policy'] == name]}")
    return rows


def _decayed(world: bandits.World, name: str, extent: Extent, half_life: int) -> bandits.Floats:
    return bandits.simulate(world, POLICIES[name], extent.runs, 2, half_life=half_life)


def closer(extent: Extent) -> list[dict[str, Any]]:
    """The cost of batches and the gain of decay, with more runs and other seeds than the tables of all policies."""
    still = bandits.World(horizon=extent.horizon)
    moving = replace(still, change_every=extent.horizon // 4)
    policy, runs = POLICIES[DEFAULT], extent.many_runs
    at_once = bandits.simulate(still, policy, runs, 11)
    in_batches = bandits.simulate(still, policy, runs, 11, batch=100)
    rows = [{"what": "batches of 100", **_ratio(in_batches, at_once)}]
    without = bandits.simulate(moving, policy, runs, 12)
    for half_life in (HALF_LIFE, 2 * HALF_LIFE):
        decayed = bandits.simulate(moving, policy, runs, 12, half_life=half_life)
        rows.append({"what": f"half-life {half_life}", **_ratio(decayed, without)})
        say(str(rows[-1]))
    return rows


def _ratio(some: bandits.Floats, others: bandits.Floats) -> dict[str, Any]:
    ratio = some.mean() / others.mean()
    error = (some - ratio * others).std() / np.sqrt(len(some)) / others.mean()
    return {"runs": len(some), "ratio": round(float(ratio), 4), "±": round(float(error), 4)}


def newcomers(extent: Extent, *, stack: bool) -> list[dict[str, Any]]:
    """Each way to fill the slate, in the same worlds."""
    about = replace(extent.collection, stack=stack)
    without = arrivals.simulate(about, arrivals.WAYS["no slots"], extent.arrival_runs, 3)
    rows = []
    for name, way in arrivals.WAYS.items():
        arrival_run = arrivals.simulate(about, way, extent.arrival_runs, 3)
        rows.append({"score": "logit stack" if stack else ".4 / .6", **arrivals.row(name, arrival_run, without)})
        say(f"{rows[-1]['score']}, {name}: found {rows[-1]['top decile found']}, cost {rows[-1]['regret cost']}")
    return rows


def targets(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each target with its figure; the policies are the shipped ones."""
    regret = {row["policy"]: row["regret"] for row in result["stationary"]}
    close = {row["what"]: row["ratio"] for row in result["closer"]}
    arriving = {(row["score"], row["policy"]): row for row in result["arrivals"]}
    slot = arriving[".4 / .6", "1 slot, shrunk"]
    return [
        *(target(f"regret, {name}", regret[name], 175, "at most 175") for name in (DEFAULT, BETA)),
        target("the same, of UCB1's", regret[DEFAULT] / regret[UCB1], 0.3, "at most .3 of it"),
        target("batches of 100 add", close["batches of 100"] - 1, 0.05, "at most 5 %"),
        *(
            target(f"regret under change, half-life {pulls}", close[f"half-life {pulls}"], 0.9, "at most .9 of none")
            for pulls in (HALF_LIFE, 2 * HALF_LIFE)
        ),
        target("top decile found, one slot", slot["top decile found"], 0.99, "at least 99 %", at_least=True),
        target("regret cost, one slot", slot["regret cost"], 0.1, "at most 10 % of that without slots"),
        target(
            "slate of 50 candidates, CPU p95 ms",
            max(timing["CPU p95 ms"] for timing in result["timings"]),
            10,
            "at most 10 ms",
        ),
        *(
            target(
                f"p of {row['slates']:,} slates, slots: {row['slots']}", row["p"], 0.01, "at least .01", at_least=True
            )
            for row in result["agreement"]
        ),
    ]


def page(result: Mapping[str, Any]) -> str:
    """The Markdown page."""
    about = result["about"]
    return f"""# Exploration

{about["date"]}, `benchmarks/exploration.py`. Simulated users, fixed seeds; ± is the standard error.

## Ten arms, a gap of .1

The best arm earns .5, nine earn .4; {about["horizon"]:,} pulls, {about["runs"]} runs. Shrunk: each arm towards the
mean of all with the weight of 8 uses. The Lai-Robbins bound's leading term is 412 at 10,000 pulls.

{table(result["stationary"])}

## Half-lives, with a change every {about["horizon"] // 4:,} pulls

Half-lives are in pulls of all arms together; the shipped one, 30 days, is taken as {HALF_LIFE:,}. Evidence decays
towards the prior.

{table(result["change"])}

Two of these differences again, for the shrunk posterior with more runs and other seeds:

{table(result["closer"], ["what", "runs", "ratio", "±"])}

## Newcomers

{about["arrival_runs"]} runs of {about["searches"]:,} searches; {about["arriving"]} items arrive during the first three
quarters of them in a collection of 100: ten topics, five places, {about["searches_a_day"]} searches a day. Found: the
share of the best tenth of the newcomers that reached 5 uses. Costs are ratios to the regret without slots in the same
worlds. Reserved: an eligible item has the slot in any case; else it competes with who has the place by score.

{table(result["arrivals"])}

## Slates

{served.CANDIDATES} candidates, {served.PLACES} places, with propensities, milliseconds.

{table(result["timings"])}

Served slates against their propensities, each slate with a posterior draw and a seed of its own:

{table(result["agreement"])}

## Targets

{target_table(result["targets"])}
"""


def _regret(total: bandits.Floats) -> dict[str, float]:
    return {
        "regret": round(float(total.mean()), 1),
        "±": round(float(total.std() / np.sqrt(len(total))), 1),
        "p95 of the runs": round(float(np.percentile(total, 95)), 1),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    options = parser_of(__doc__, "a few runs, to see that it works", has_server=False).parse_args(arguments)
    result = run(QUICK if options.quick else NORMAL)
    write("exploration", result, page(result), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
