"""Off-policy estimates held against the truth: simulated logs, and the Open Bandit data.

    python benchmarks/off_policy.py [DATA] [--quick]

DATA is the folder of the Open Bandit data (``random`` and ``bts`` within); without it the simulation alone is run.
Results go to ``benchmarks/results/off_policy.json`` and ``.md``; with ``--quick`` nothing is written.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from command import write
from off_policy_simulation import Scenario, adaptive, is_enough, measure, one_place, slates
from open_bandit import PIPELINE, estimated

RUNS, SEED = 300, 20_260

CASES: tuple[tuple[Scenario, int, float], ...] = (
    (one_place, 500, 0.1),
    (one_place, 2000, 0.1),
    (one_place, 2000, 0.3),
    (one_place, 8000, 0.1),
    (one_place, 8000, 0.3),
    (slates, 500, 0.3),
    (slates, 2000, 0.1),
    (slates, 2000, 0.3),
    (slates, 8000, 0.3),
    (adaptive, 1500, 0.1),
    (adaptive, 1500, 0.2),
    (adaptive, 1500, 0.3),
)


def simulated(runs: int) -> Iterator[dict[str, Any]]:
    """A case at a time: coverage, bias and width by estimator."""
    for scenario, searches, floor in CASES:
        result = measure(scenario, runs=runs, searches=searches, floor=floor, seed=SEED)
        yield {
            "scenario": scenario.__name__,
            "searches": searches,
            "floor": floor,
            "runs": runs,
            "median_effective_sample": float(np.median(result.sample_sizes)),
            "is_enough": is_enough(result),
            "refused": result.refused / runs,
            "difference": result.difference.as_dict(),
            "estimators": {
                f"{estimator.value}{' clipped' if clipped else ''}": coverage.as_dict()
                for (estimator, clipped), coverage in result.by_estimator.items()
            },
        }


def open_bandit(data: Path) -> list[dict[str, Any]]:
    """Each policy's value by the other's log, beside the Open Bandit Pipeline's and its own log's."""
    return [
        {
            "campaign": policy.campaign,
            "target": policy.target,
            "on_policy": policy.on_policy,
            "effective_sample_size": policy.weighing.effective_sample_size,
            "objections": list(policy.weighing.objections()),
            **{
                estimator.value: {
                    **estimate.as_dict(),
                    "pipeline": PIPELINE[policy.campaign, policy.target][estimator.value],
                }
                for estimator, estimate in policy.estimates.items()
                if estimator.value in PIPELINE[policy.campaign, policy.target]
            },
        }
        for policy in estimated(data)
    ]


def report(results: dict[str, Any]) -> str:
    """The results as a page."""
    lines = [
        "# Off-policy estimates",
        "",
        f"Made by `benchmarks/off_policy.py`, {results['runs']} runs a row, seed {SEED}.",
        "",
        "## Simulated logs",
        "",
        "Share of the runs whose 95 % interval holds the truth. `refused`: runs in which nothing would be concluded;",
        "below an effective sample of 200 that is the rule. `adaptive` is Thompson sampling that learns as it goes.",
        "`difference`: of the SNIPS of the target and of the recorded policy.",
        "",
        *_table(
            (
                "scenario",
                "searches",
                "floor",
                "effective sample",
                "refused",
                *results["simulated"][0]["estimators"],
                "difference",
            ),
            [
                (
                    row["scenario"],
                    f"{row['searches']:,}",
                    row["floor"],
                    f"{row['median_effective_sample']:,.0f}",
                    f"{row['refused']:.0%}",
                    *(f"{estimator['coverage']:.3f}" for estimator in row["estimators"].values()),
                    "–" if math.isnan(row["difference"]["bias"]) else f"{row['difference']['coverage']:.3f}",
                )
                for row in results["simulated"]
            ],
        ),
        "",
        "Root mean squared error, in thousandths.",
        "",
        *_table(
            ("scenario", "searches", "floor", *results["simulated"][0]["estimators"]),
            [
                (
                    row["scenario"],
                    f"{row['searches']:,}",
                    row["floor"],
                    *(f"{1000 * estimator['rmse']:.1f}" for estimator in row["estimators"].values()),
                )
                for row in results["simulated"]
            ],
        ),
    ]
    if results["open_bandit"]:
        lines += _open_bandit_lines(results["open_bandit"])
    return "\n".join([*lines, ""])


def _open_bandit_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        (
            row["campaign"],
            row["target"],
            f"{row['on_policy']:.4f}",
            *(
                f"{row[name]['value']:.4f} ({row[name]['low']:.4f} to {row[name]['high']:.4f})"
                for name in ("ips", "snips")
            ),
            f"{max(abs(row[name]['value'] - row[name]['pipeline']) for name in ('ips', 'snips')):.0e}",
            f"{row['effective_sample_size']:,.0f}",
            "no" if row["objections"] else "yes",
        )
        for row in rows
    ]
    columns = (
        "campaign", "target", "own log", "IPS by the other's log", "SNIPS", "largest difference to obp",
        "effective sample", "conclusive",
    )  # fmt: skip
    return ["", "## Open Bandit data", "", *_table(columns, lines)]


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    return [
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
    ]


def main() -> None:
    """Run everything and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, help="the folder of the Open Bandit data")
    parser.add_argument("--quick", action="store_true", help="20 runs, and nothing is written")
    arguments = parser.parse_args()
    runs = 20 if arguments.quick else RUNS
    results = {
        "runs": runs,
        "simulated": list(simulated(runs)),
        "open_bandit": open_bandit(arguments.data) if arguments.data else [],
    }
    if arguments.quick:
        print(report(results))
    else:
        write("off_policy", results, report(results))


if __name__ == "__main__":
    main()
