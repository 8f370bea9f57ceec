"""The Open Bandit data (small): two policies on the same shop, so that each can be estimated from the other's log.

Saito and others, "Open Bandit Dataset and Pipeline", NeurIPS 2021 Datasets and Benchmarks. The folder holds
``random/<campaign>/<campaign>.csv.gz`` and ``bts/...``: one row an impression, with item, position, click, propensity.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from off_policy_numpy import Floats, Ints, Traffic, estimates, weigh

from retrieval.domain.learning.off_policy import Estimate, Estimator, Weighing

CAMPAIGNS = ("all", "men", "women")
POSITIONS = 3

PIPELINE: dict[tuple[str, str], dict[str, float]] = {
    ("all", "bts"): {"ips": 0.005035366932711512, "snips": 0.0052530721964214695},
    ("all", "random"): {"ips": 0.0023596395168460037, "snips": 0.002333713893161806},
    ("men", "bts"): {"ips": 0.005656266700835461, "snips": 0.005739864701951365},
    ("men", "random"): {"ips": 0.003008626327256482, "snips": 0.0031894231622774027},
    ("women", "bts"): {"ips": 0.0058056917829497874, "snips": 0.005833036087191038},
    ("women", "random"): {"ips": 0.00743757754192316, "snips": 0.0023730461434477677},
}
"""Results of the Open Bandit Pipeline, by campaign and target: obp 0.4.1, ``InverseProbabilityWeighting`` and
``SelfNormalizedInverseProbabilityWeighting``, ``estimate_policy_value(reward, action, pscore, action_dist, position)``
with the columns and the targets below."""


class Log(NamedTuple):
    """The impressions of one policy in one campaign: columns of equal length."""

    item: Ints
    position: Ints
    """From 0."""
    click: Floats
    propensity: Floats


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """One policy's value by the other's log, and by its own."""

    campaign: str
    target: str
    estimates: dict[Estimator, Estimate]
    weighing: Weighing
    on_policy: float
    """The mean click in the target's own log."""


def read_log(data: Path, policy: str, campaign: str) -> Log:
    """The log of ``random`` or ``bts`` in a campaign."""
    with gzip.open(data / policy / campaign / f"{campaign}.csv.gz", "rt", encoding="utf-8") as lines:
        names = ("item_id", "position", "click", "propensity_score")
        rows = np.array([[float(row[name]) for name in names] for row in csv.DictReader(lines)])
    item, position, click, propensity = rows.T
    return Log(item.astype(np.int64), position.astype(np.int64) - 1, click, propensity)


def targets(logs: dict[str, Log]) -> dict[str, Floats]:
    """Each policy's probabilities by item and position, shape (items, 3): uniform, and as often as BTS showed each."""
    items = 1 + max(int(log.item.max()) for log in logs.values())
    probabilities = np.zeros((items, POSITIONS))
    np.add.at(probabilities, (logs["bts"].item, logs["bts"].position), 1.0)
    return {"random": np.full((items, POSITIONS), 1 / items), "bts": probabilities / probabilities.sum(axis=0)}


def estimated(data: Path) -> list[Estimated]:
    """Each policy by the other's log, in every campaign."""
    rows = []
    for campaign in CAMPAIGNS:
        logs = {policy: read_log(data, policy, campaign) for policy in ("random", "bts")}
        chances = targets(logs)
        for target, source in (("bts", "random"), ("random", "bts")):
            log = logs[source]
            traffic = Traffic.of_rows(
                propensity=log.propensity, target=chances[target][log.item, log.position], reward=log.click
            )
            rows.append(
                Estimated(
                    campaign=campaign,
                    target=target,
                    estimates=estimates(traffic),
                    weighing=weigh(traffic),
                    on_policy=float(logs[target].click.mean()),
                )
            )
    return rows
