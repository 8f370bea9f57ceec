"""A simulated world for the learned reward: contexts, items, and how often each item helps in each context.

12 domains × 4 complexities × 300 items of 12 clusters. The logit of a true rate is the sum of normal effects of the
cluster, the item, the domain, the complexity, the cluster in the domain, the item in the domain and the item in the
complexity. Logs are skewed by popularity, which goes with quality; the test is uniform over all 14,400 cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma

from retrieval.domain.learning.arm import Arm, ItemArms
from retrieval.learning.examples import Event

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of the world."""

    domains: int = 12
    complexities: int = 4
    items: int = 300
    clusters: int = 12


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of each kind of effect, on the logit scale.

    Chosen so that the world is as hard as this: the truth has a log-loss of .50, averaged tables come to .68, .66, .64
    and .60 after 1,000, 5,000, 20,000 and 100,000 events, and a logistic model that is told these very numbers to .62,
    .59, .57 and .55. ``LESS_ALIKE``, tried first, is as hard for tables, but harder for that model: everything
    gains less in it, and the results show it too.
    """

    base: float = -0.3
    cluster: float = 0.9
    item: float = 0.8
    domain: float = 0.3
    complexity: float = 0.2
    cluster_in_domain: float = 0.8
    item_in_domain: float = 0.6
    item_in_complexity: float = 0.5
    quality_in_popularity: float = 0.5
    chance_in_popularity: float = 2.0


LESS_ALIKE = Spread(cluster=0.6, item=0.85, cluster_in_domain=0.7, item_in_domain=0.85, item_in_complexity=0.6)
"""Items of a cluster have less in common, so that less can be known before an item was used."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The truth."""

    logits: Floats
    """(domains, complexities, items)."""
    cluster: Ints
    """(items,)."""
    popularity: Floats
    """(items,): the share of the log."""

    @property
    def rates(self) -> Floats:
        """(domains, complexities, items)."""
        return np.asarray(1.0 / (1.0 + np.exp(-self.logits)), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """Feedback; arrays (events,)."""

    domain: Ints
    complexity: Ints
    item: Ints
    reward: Floats

    def first(self, count: int) -> Log:
        """The first ``count`` events."""
        return Log(self.domain[:count], self.complexity[:count], self.item[:count], self.reward[:count])


def make_world(rng: np.random.Generator, shape: Shape | None = None, spread: Spread | None = None) -> World:
    """A world at random."""
    size, sd = shape or Shape(), spread or Spread()
    cluster = rng.integers(0, size.clusters, size.items)
    quality = rng.normal(0, sd.cluster, size.clusters)[cluster] + rng.normal(0, sd.item, size.items)
    domain = rng.normal(0, sd.domain, size.domains)
    complexity = rng.normal(0, sd.complexity, size.complexities)
    of_cluster = rng.normal(0, sd.cluster_in_domain, (size.clusters, size.domains))[cluster].T
    in_domain = rng.normal(0, sd.item_in_domain, (size.domains, size.items)) + of_cluster + domain[:, None]
    in_complexity = rng.normal(0, sd.item_in_complexity, (size.complexities, size.items)) + complexity[:, None]
    popularity = np.exp(sd.quality_in_popularity * quality + sd.chance_in_popularity * rng.normal(size=size.items))
    logits = sd.base + quality + in_domain[:, None, :] + in_complexity[None, :, :]
    return World(logits, cluster, popularity / popularity.sum())


def make_log(rng: np.random.Generator, world: World, count: int) -> Log:
    """``count`` events, by popularity, in random contexts."""
    domains, complexities, items = world.logits.shape
    domain, complexity = rng.integers(0, domains, count), rng.integers(0, complexities, count)
    item = rng.choice(items, count, p=world.popularity)
    helped = rng.random(count) < world.rates[domain, complexity, item]
    return Log(domain, complexity, item, helped.astype(np.float64))


def buckets(domain: int, complexity: int) -> tuple[str, ...]:
    """The context buckets of a cell."""
    return ("", f"domain={domain}", f"complexity={complexity}")


def events_of(log: Log) -> list[Event]:
    """The log as events."""
    rows = zip(log.domain.tolist(), log.complexity.tolist(), log.item.tolist(), log.reward.tolist(), strict=True)
    return [Event(item_id=str(item), buckets=buckets(d, c), reward=reward) for d, c, item, reward in rows]


def arms_of_log(log: Log, world: World) -> list[ItemArms]:
    """Every item with its arms."""
    tables = {
        "": counts(log, np.zeros_like(log.item), 1, world),
        "domain": counts(log, log.domain, world.logits.shape[0], world),
        "complexity": counts(log, log.complexity, world.logits.shape[1], world),
    }
    return [
        ItemArms(item_id=str(item), arms=_arms(tables, item), cluster=int(world.cluster[item]))
        for item in range(len(world.cluster))
    ]


def _arms(tables: dict[str, tuple[Floats, Floats]], item: int) -> dict[str, Arm]:
    return {
        f"{kind}={bucket}" if kind else "": Arm(float(won[bucket, item]), float(failures[bucket, item]))
        for kind, (won, failures) in tables.items()
        for bucket in range(len(won))
        if won[bucket, item] + failures[bucket, item] > 0
    }


def counts(log: Log, bucket: Ints, size: int, world: World) -> tuple[Floats, Floats]:
    """Successes and failures, (buckets, items) each."""
    won, failures = np.zeros((2, size, len(world.cluster)))
    np.add.at(won, (bucket, log.item), log.reward)
    np.add.at(failures, (bucket, log.item), 1.0 - log.reward)
    return won, failures


def averaged_tables(log: Log, world: World) -> Floats:
    """The baseline: the mean of Beta(1, 1) estimates by (domain, item) and (complexity, item), as rates."""
    by_domain = counts(log, log.domain, world.logits.shape[0], world)
    by_complexity = counts(log, log.complexity, world.logits.shape[1], world)
    first, second = ((won + 1) / (won + failures + 2) for won, failures in (by_domain, by_complexity))
    return np.asarray((first[:, None, :] + second[None, :, :]) / 2, dtype=np.float64)


def unshrunk(log: Log, world: World) -> tuple[Floats, Floats]:
    """An ablation: the same sum of logits from Beta(1, 1) estimates, with nothing shrunk; means and sample sizes."""
    tables = [
        counts(log, log.domain, world.logits.shape[0], world),
        counts(log, log.complexity, world.logits.shape[1], world),
        counts(log, np.zeros_like(log.item), 1, world),
    ]
    logits = [np.log(won + 1) - np.log(failures + 1) for won, failures in tables]
    variances = [polygamma(1, won + 1) + polygamma(1, failures + 1) for won, failures in tables]
    mean = logits[0][:, None, :] + logits[1][None, :, :] - logits[2][None, :, :]
    rates = 1.0 / (1.0 + np.exp(-mean))
    variance = variances[0][:, None, :] + variances[1][None, :, :]
    return rates, np.asarray(1.0 / (variance * rates * (1.0 - rates)), dtype=np.float64)


def cells(world: World) -> Sequence[tuple[int, int]]:
    """Every context."""
    domains, complexities, _ = world.logits.shape
    return [(domain, complexity) for domain in range(domains) for complexity in range(complexities)]
