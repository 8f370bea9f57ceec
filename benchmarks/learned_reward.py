"""The learned reward against tables of rates: its gain in prediction, its calibration, and its cost.

    python benchmarks/learned_reward.py [--seeds N] [--quick]

Simulated (see ``reward_simulation.py``), so the true rates are known. Results go to
``benchmarks/results/learned_reward.{json,md}``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from command import machine, write
from report import table, target_table
from reward_simulation import (
    LESS_ALIKE,
    Floats,
    Log,
    Shape,
    Spread,
    World,
    arms_of_log,
    averaged_tables,
    buckets,
    cells,
    events_of,
    make_log,
    make_world,
    unshrunk,
)
from scipy.special import betaincinv
from targets import target

from retrieval.domain.learning.arm import Arm, ItemArms
from retrieval.learning import shrinkage
from retrieval.learning.learned_model import LearnedReward, learn
from retrieval.learning.shrinkage import Shrinkage, ShrunkEstimate

FULL_SIZE = Shape()


@dataclass(frozen=True, slots=True)
class Extent:
    """The settings of the measurement."""

    seeds: int = 20
    sizes: tuple[int, ...] = (0, 10, 100, 500, 2_000, 5_000, 20_000, 100_000)
    logistic_from: int = 2_000
    shape: Shape = FULL_SIZE
    fit_rows: int = 100_000


QUICK = Extent(seeds=2, sizes=(0, 100, 2_000), shape=Shape(6, 3, 60, 6), fit_rows=2_000)

Answer = tuple[Floats, Floats]
"""Means and effective sample sizes, (domains, complexities, items) each."""


def run(extent: Extent) -> dict[str, Any]:
    """Measure; gives what the JSON file holds."""
    rows = rows_of(extent, Spread())
    less_alike = rows_of(
        replace(extent, sizes=tuple(size for size in extent.sizes if 100 <= size <= 20_000)), LESS_ALIKE
    )
    cost = cost_of(extent)
    about = {**machine(), "seeds": extent.seeds}
    return {"about": about, "rows": rows, "less_alike": less_alike, "cost": cost, "targets": targets(rows, cost)}


def rows_of(extent: Extent, spread: Spread) -> list[dict[str, Any]]:
    """A row for each number of events and model, over the seeds."""
    measured: dict[tuple[int, str], list[dict[str, float]]] = {}
    for seed in range(extent.seeds):
        for size in extent.sizes:
            for name, row in run_once(seed, size, extent, spread).items():
                measured.setdefault((size, name), []).append(row)
        print(f"seed {seed} done", file=sys.stderr, flush=True)
    return [summary(size, name, results) for (size, name), results in measured.items()]


def run_once(seed: int, size: int, extent: Extent, spread: Spread) -> dict[str, dict[str, float]]:
    """Every model on one world with one log; the same seed is the same world at every size."""
    world = make_world(np.random.default_rng([seed, 0]), extent.shape, spread)
    log = make_log(np.random.default_rng([seed, 1]), world, size)
    baseline = log_loss(world, averaged_tables(log, world))
    results = {"truth": {"log_loss": log_loss(world, world.rates)}, "averaged tables": {"log_loss": baseline}}
    for name, model in models(log, world, extent):
        means, sizes = model() if callable(model) else answer(model, log, world)
        results[name] = judge(world, means, sizes, baseline)
    return results


def models(log: Log, world: World, extent: Extent) -> list[tuple[str, LearnedReward | Callable[[], Answer]]]:
    """The compared models, by name."""
    arms = arms_of_log(log, world)
    shrunk = learn([], arms)
    with patch.multiple(shrinkage, MOST_CONCENTRATION=1e4, CONCENTRATION_SPREAD=5.0):
        uncapped = learn([], arms)
    compared: list[tuple[str, LearnedReward | Callable[[], Answer]]] = [
        ("shrinkage", shrunk),
        ("without shrinkage", lambda: unshrunk(log, world)),
        ("without cap", uncapped),
        ("without parent variance", replace(shrunk, shrinkage=certain(shrunk.shrinkage))),
    ]
    if extent.logistic_from <= len(log.item) <= 20_000:
        compared.append(("logistic", learn(events_of(log), arms, kind="logistic")))
    return compared


def certain(model: Shrinkage) -> Shrinkage:
    """An ablation: the estimates of clusters and buckets are taken as known."""
    return replace(
        model,
        anywhere=ShrunkEstimate(model.anywhere.logit, 0.0),
        clusters={key: ShrunkEstimate(shift.logit, 0.0) for key, shift in model.clusters.items()},
        levels={
            kind: level._replace(bucket_variance=0.0, cluster_variance=0.0) for kind, level in model.levels.items()
        },
        buckets={key: ShrunkEstimate(shift.logit, 0.0) for key, shift in model.buckets.items()},
        cluster_shifts={
            bucket: {key: ShrunkEstimate(shift.logit, 0.0) for key, shift in shifts.items()}
            for bucket, shifts in model.cluster_shifts.items()
        },
    )


def answer(model: LearnedReward, log: Log, world: World) -> Answer:
    """Every cell through the public door."""
    items = arms_of_log(log, world)
    means, sizes = np.empty_like(world.logits), np.empty_like(world.logits)
    for domain, complexity in cells(world):
        predictions = model.predict(buckets(domain, complexity), items)
        means[domain, complexity] = predictions.mean
        sizes[domain, complexity] = predictions.effective_sample_size
    return means, sizes


def judge(world: World, rates: Floats, sizes: Floats, baseline: float) -> dict[str, float]:
    """Against the truth, uniformly over all cells."""
    loss = log_loss(world, rates)
    low, high = intervals(rates, sizes)
    return {
        "log_loss": loss,
        "gain": 1 - loss / baseline,
        "calibration_error": calibration(world, rates),
        "coverage": float(((low <= world.rates) & (world.rates <= high)).mean()),
        "width": float((high - low).mean()),
    }


def intervals(means: Floats, sizes: Floats, share: float = 0.9) -> tuple[Floats, Floats]:
    """The ends of the central interval of each Beta distribution, by its mean and effective sample size."""
    outside = (1.0 - share) / 2.0
    low, high = (betaincinv(means * sizes, (1.0 - means) * sizes, part) for part in (outside, 1.0 - outside))
    return low, high


def log_loss(world: World, rates: Floats) -> float:
    """The expected log-loss over all cells, by the true rates."""
    clipped = np.clip(rates, 1e-6, 1 - 1e-6)
    return float(-(world.rates * np.log(clipped) + (1 - world.rates) * np.log(1 - clipped)).mean())


def calibration(world: World, rates: Floats) -> float:
    """The expected calibration error, ten bins of equal size, against the true rates."""
    order = np.argsort(rates.ravel(), kind="stable")
    truth, predicted = world.rates.ravel()[order], rates.ravel()[order]
    gaps = [
        abs(part.mean() - other.mean()) * len(part)
        for part, other in zip(np.array_split(truth, 10), np.array_split(predicted, 10), strict=True)
    ]
    return float(sum(gaps) / truth.size)


def summary(size: int, name: str, results: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Means over the seeds, the spread of the log-loss and the gain, and how often the tables were better."""
    row: dict[str, Any] = {"feedbacks": size, "model": name}
    for key in results[0]:
        values = [each[key] for each in results]
        row[key] = round(float(np.mean(values)), 4)
        if key in {"log_loss", "gain"} and len(values) > 1:
            row[f"{key}_sd"] = round(float(np.std(values, ddof=1)), 4)
    if "gain" in results[0]:
        row["worse_in"] = sum(each["gain"] < -1e-9 for each in results)
    return row


def cost_of(extent: Extent) -> dict[str, float]:
    """Milliseconds of processor time to predict for 200 items in four buckets, the median of 50; seconds to learn."""
    world = make_world(np.random.default_rng(7), Shape())
    log = make_log(np.random.default_rng(8), world, extent.fit_rows)
    arms, events = arms_of_log(log, world), events_of(log)
    started = time.perf_counter()
    shrunk = learn([], arms)
    middle = time.perf_counter()
    fitted = learn(events, arms, kind="logistic")
    ended = time.perf_counter()
    items = [replace(item, arms={**item.arms, "cluster=3": Arm(2.0, 1.0)}) for item in arms[:200]]
    return {
        "events": extent.fit_rows,
        "learn_shrinkage_s": round(middle - started, 3),
        "learn_logistic_s": round(ended - middle, 2),
        "predict_200_shrinkage_ms": round(median_ms(shrunk, items), 2),
        "predict_200_logistic_ms": round(median_ms(fitted, items), 2),
    }


def median_ms(model: LearnedReward, items: Sequence[ItemArms]) -> float:
    """The median of 50 predictions, in processor time: other work on the machine does not count."""
    took = []
    for _ in range(50):
        started = time.thread_time()
        model.predict((*buckets(1, 2), "cluster=3"), items)
        took.append(time.thread_time() - started)
    return 1000 * float(np.median(took))


def targets(rows: Sequence[Mapping[str, Any]], cost: Mapping[str, float]) -> list[dict[str, Any]]:
    """The targets, and this run's results."""
    checks: list[dict[str, Any]] = []
    for row in rows:
        size, model = row["feedbacks"], row["model"]
        if model not in {"shrinkage", "logistic"}:
            continue
        label = f"at {size:,} feedbacks, {model}"
        if size in {5_000, 20_000}:
            checks.append(target(f"lower log-loss {label}", row["gain"], 0.07, "at least 7 %", at_least=True))
        if size in {0, 10, 100}:
            checks.append(target(f"log-loss not worse {label}", row["gain"], 0.0, "on average", at_least=True))
        if size == 20_000:
            checks.append(target(f"calibration error {label}", row["calibration_error"], 0.04, "at most .04"))
        if size in {500, 2_000, 20_000}:
            off = abs(row["coverage"] - 0.9)
            checks.append(target(f"90 % intervals off by, {label}", round(off, 4), 0.03, ".87 to .93 covered"))
    return checks + [
        target(f"predict for 200 items, {model}, ms", cost[f"predict_200_{model}_ms"], 5.0, "at most 5")
        for model in ("shrinkage", "logistic")
    ]


def page(result: Mapping[str, Any]) -> str:
    """The Markdown page."""
    about = result["about"]
    names = ("feedbacks", "model", "log_loss", "log_loss_sd", "gain", "gain_sd", "worse_in")
    honest = ("feedbacks", "model", "calibration_error", "coverage", "width")
    columns = ("averaged tables", "shrinkage", "logistic")
    judged_rows = [row for row in result["rows"] if "gain" in row]
    opening = (
        f"Simulated, {about['seeds']} seeds, {about['date']}: 12 domains × 300 items × 4 complexities, logs skewed by "
        "popularity, judged uniformly over all cells by the true rates. `gain` is how much lower the log-loss is than "
        "that of averaged Beta(1, 1) tables; `worse in` counts the seeds where it is higher."
    )
    parts = [
        "# Learned reward",
        opening,
        "## Targets",
        target_table(result["targets"]),
        "## Log-loss",
        table(result["rows"], names),
        "## Honesty",
        "Coverage and mean width of 90 % intervals of the true rates.",
        table(judged_rows, honest),
        "## A world that is less alike",
        "Items of a cluster have less in common, and differ more by context: the targets are not set for it.",
        table([row for row in result["less_alike"] if row["model"] in columns], (*names[:6], *honest[2:4])),
        "## Cost",
        table([result["cost"]]),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="worlds to average over; 20 unless said otherwise")
    parser.add_argument("--quick", action="store_true", help="a small world, in seconds; prints and writes nothing")
    options = parser.parse_args(arguments)
    extent = QUICK if options.quick else Extent()
    result = run(replace(extent, seeds=options.seeds) if options.seeds else extent)
    if options.quick:
        print(page(result))
    else:
        write("learned_reward", result, page(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
