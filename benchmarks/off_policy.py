"""Off-policy estimates held against the truth: simulated logs, and the Open Bandit data.

    python benchmarks/off_policy.py [DATA] [--quick]

DATA is the folder of the Open Bandit data (``random`` and ``bts`` within); without it the simulation alone is run.
Results go to ``benchmarks/results/off_policy.json`` and ``.md``; with ``--quick`` nothing is written.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from command import write
from off_policy_simulation import Scenario, adaptive, is_enough, measure, one_place, slates
from open_bandit import PIPELINE, estimated
from report import table

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
    coverage = [
        {
            **_case(row),
            "effective sample": round(row["median_effective_sample"]),
            "refused": f"{row['refused']:.0%}",
            **{name: f"{estimator['coverage']:.3f}" for name, estimator in row["estimators"].items()},
            "difference": None if math.isnan(row["difference"]["bias"]) else f"{row['difference']['coverage']:.3f}",
        }
        for row in results["simulated"]
    ]
    errors = [
        {**_case(row), **{name: f"{1000 * estimator['rmse']:.1f}" for name, estimator in row["estimators"].items()}}
        for row in results["simulated"]
    ]
    page = f"""# Off-policy estimates

Made by `benchmarks/off_policy.py`, {results["runs"]} runs a row, seed {SEED}.

## Simulated logs

Share of the runs whose 95 % interval holds the truth. `refused`: runs in which nothing would be concluded;
below an effective sample of 200 that is the rule. `adaptive` is Thompson sampling that learns as it goes.
`difference`: of the SNIPS of the target and of the recorded policy.

{table(coverage)}

Root mean squared error, in thousandths.

{table(errors)}
"""
    if not results["open_bandit"]:
        return page
    return f"{page}\n## Open Bandit data\n\n{table([_open_bandit_row(row) for row in results['open_bandit']])}\n"


def _case(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("scenario", "searches", "floor")}


def _open_bandit_row(row: dict[str, Any]) -> dict[str, Any]:
    ips, snips = (
        f"{row[name]['value']:.4f} ({row[name]['low']:.4f} to {row[name]['high']:.4f})" for name in ("ips", "snips")
    )
    return {
        "campaign": row["campaign"],
        "target": row["target"],
        "own log": f"{row['on_policy']:.4f}",
        "IPS by the other's log": ips,
        "SNIPS": snips,
        "largest difference to obp": (
            f"{max(abs(row[name]['value'] - row[name]['pipeline']) for name in ('ips', 'snips')):.0e}"
        ),
        "effective sample": round(row["effective_sample_size"]),
        "conclusive": "no" if row["objections"] else "yes",
    }


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
