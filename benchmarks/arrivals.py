"""Items arrive in a collection: how many of the good ones are found, and the cost of finding them.

Many runs at once. Each search has a topic and has that topic's items as candidates, each with its own relevance. Users
always look at the first place, less often at later ones, and reward an item that they look at with the probability
1 / (1 + e^-(quality + relevance)).

The model learns each item's quality, with the topic's mean as its prior, updated with each reward or its absence
(Chapelle and Li, NIPS 2011, algorithm 3). Its certainty follows from the number of looks, as in the product: the reward
is Beta with an effective sample size that starts with the topic's and grows by one with each look. The score is 0.4
relevance + 0.6 learned reward, as shipped, or the model that generates the users' rewards: a logit stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.search.profile_parts import LEARNED_SHARE, Exploration, PolicyName
from retrieval.learning.logit import logit
from retrieval.learning.stack import LEARNED, LogitStack

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]

RULES = Exploration()
"""Eligible items: fewer than 5 uses, or younger than 7 days; the best 30."""


@dataclass(frozen=True)
class Collection:
    """Its items, topics and searches."""

    topics: int = 10
    established: int = 100
    """Items that are there when it begins, with 20 looks each."""
    arriving: int = 500
    searches: int = 16_000
    searches_a_day: int = 100
    arrivals_end: float = 0.75
    """The share of the searches after which no item arrives."""
    places: int = 5
    quality_sd: float = 0.8
    """The standard deviation of items in their topic, in logits."""
    topic_sd: float = 0.5
    base_logit: float = -1.0
    relevance_sd: float = 1.0
    stack: bool = False
    """True if the score is the users' own model and not the default combination."""

    def looked_at(self) -> Floats:
        """Shape (places,): the probability that a user looks there, 1 / log2(rank + 1)."""
        return 1 / np.log2(np.arange(self.places) + 2)


@dataclass(frozen=True)
class Way:
    """The way in which the slate is filled."""

    policy: PolicyName = PolicyName.OFF
    slots: int = 1
    beta: bool = False
    floor: float = 0.1
    rate: float = 0.1
    reserved: bool = False
    """Whether a slot goes to an eligible item in any case, without a contest with who has the place by score."""


@dataclass
class Items:
    """All items of all runs; arrays have the shape (runs, items). Item i is of the topic i modulo topics."""

    quality: Floats
    arrives: NDArray[np.int64]
    """The search before which it arrives."""
    mean: Floats
    """The belief about the quality."""
    variance: Floats
    """The variance of that belief."""
    prior_size: Floats
    """Events that the topic is worth."""
    uses: Floats
    successes: Floats

    @classmethod
    def made(cls, about: Collection, runs: int, rng: np.random.Generator) -> Items:
        """Established items have been rated; the others arrive evenly, with their topic's rate as prior."""
        shape = (runs, about.established + about.arriving)
        topic = about.base_logit + about.topic_sd * rng.standard_normal((runs, about.topics))
        mean = topic[:, np.arange(shape[1]) % about.topics]
        quality = mean + about.quality_sd * rng.standard_normal(shape)
        arrives = np.zeros(shape, dtype=np.int64)
        last = int(about.searches * about.arrivals_end)
        arrives[:, about.established :] = rng.integers(1, last, (runs, about.arriving))
        variance, rate = np.full(shape, about.quality_sd**2), expit(mean)
        size = 1 / (variance * rate * (1 - rate))
        items = cls(quality, arrives, mean.copy(), variance, size, np.zeros(shape), np.zeros(shape))
        old = np.broadcast_to(np.arange(about.established), (runs, about.established))
        for _ in range(20):
            relevance = about.relevance_sd * rng.standard_normal(old.shape)
            rates = expit(quality[:, : about.established] + relevance)
            items.learn(old, relevance, rng.random(old.shape) < rates, np.ones(old.shape, dtype=bool))
        return items

    def learn(self, slates: Indices, relevance: Floats, rewarded: Bools, looked: Bools) -> None:
        """One step for each shown item, shape (runs, places); hits that users did not look at have no effect."""
        runs = np.arange(len(slates))[:, None]
        rates = expit(self.mean[runs, slates] + relevance)
        variance = 1 / (1 / self.variance[runs, slates] + looked * rates * (1 - rates))
        self.mean[runs, slates] += looked * variance * (rewarded - rates)
        self.variance[runs, slates] = variance
        self.uses[runs, slates] += looked
        self.successes[runs, slates] += looked & rewarded

    def top_decile(self, about: Collection) -> Bools:
        """The best tenth of the arriving items, by quality."""
        arriving = self.quality[:, about.established :]
        return np.asarray(arriving >= np.quantile(arriving, 0.9, axis=1, keepdims=True))


@dataclass
class Outcome:
    """The figures of each run."""

    regret: Floats
    """Shape (runs, 8): expected rewards missed in each eighth of the searches."""
    earned: Floats
    """Shape (runs,): expected rewards earned."""
    found: Floats
    """Shape (runs,): the share of the top decile that reached as many uses as make an item known."""
    slots: Floats
    """Shape (runs, 8): slots a search in each eighth."""


def simulate(about: Collection, way: Way, runs: int, seed: int) -> Outcome:
    """All searches of all runs. The same seed has the same items, arrivals, relevances and luck whatever the way."""
    items = Items.made(about, runs, np.random.default_rng([seed, 0]))
    world, chance = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    looked_at = about.looked_at()
    outcome = Outcome(np.zeros((runs, 8)), np.zeros(runs), np.zeros(runs), np.zeros((runs, 8)))
    for search in range(about.searches):
        columns = np.arange(world.integers(about.topics), items.uses.shape[1], about.topics)
        relevance = about.relevance_sd * world.standard_normal((runs, len(columns)))
        looks, luck = world.random((2, runs, about.places))
        state = _Candidates(items, columns, relevance, search, about)
        slate, slots = state.slate(way, about.places, chance)
        rates = np.take_along_axis(state.rates, slate, axis=1)
        best = -np.sort(-state.rates, axis=1)[:, : about.places]
        eighth = search * 8 // about.searches
        outcome.regret[:, eighth] += (looked_at * (best - rates)).sum(axis=1)
        outcome.earned += (looked_at * rates).sum(axis=1)
        outcome.slots[:, eighth] += slots
        shown_relevance = np.take_along_axis(relevance, slate, axis=1)
        items.learn(columns[slate], shown_relevance, luck < rates, looks < looked_at)
    good = items.top_decile(about)
    proven = items.uses[:, about.established :] >= RULES.fewer_uses_than
    outcome.found = (good & proven).sum(axis=1) / good.sum(axis=1)
    outcome.slots /= about.searches / 8
    return outcome


class _Candidates:
    """One topic's items at one search; the arrays have the shape (runs, candidates)."""

    def __init__(self, items: Items, columns: Indices, relevance: Floats, search: int, about: Collection) -> None:
        arrives = items.arrives[:, columns]
        self.here = arrives <= search
        # An item that has not arrived earns less than any other.
        self.rates = np.where(self.here, expit(items.quality[:, columns] + relevance), -1.0)
        self.mean = items.mean[:, columns]
        self.uses, self.successes = items.uses[:, columns], items.successes[:, columns]
        self.size = items.prior_size[:, columns] + self.uses
        self.relevance, self.stack = relevance, about.stack
        young = (arrives > 0) & (search - arrives < RULES.younger_than_days * about.searches_a_day)
        self.eligible = self.here & ((self.uses < RULES.fewer_uses_than) & (arrives > 0) | young)

    def slate(self, way: Way, places: int, rng: np.random.Generator) -> tuple[Indices, NDArray[np.int64]]:
        """The items that are shown, shape (runs, places), and how many of them are in slots, shape (runs,)."""
        score = self._score(self.mean)
        if way.policy is PolicyName.UNCERTAINTY_BONUS:
            score = score + way.rate * 0.5 / np.sqrt(self.size + 1)
        order = np.argsort(-np.where(self.here, score, -np.inf), axis=1)
        if way.policy is not PolicyName.THOMPSON_SLOTS:
            return order[:, :places], np.zeros(len(order), dtype=np.int64)
        return self._with_slots(order, way, places, rng)

    def _with_slots(
        self, order: Indices, way: Way, places: int, rng: np.random.Generator
    ) -> tuple[Indices, NDArray[np.int64]]:
        eligible = np.take_along_axis(self.eligible, order, axis=1)
        ranks = np.arange(order.shape[1])
        beyond = eligible & (ranks >= places)
        beyond &= beyond.cumsum(axis=1) <= RULES.most_eligible
        slots = np.minimum(way.slots, beyond.sum(axis=1))
        pool = beyond | (not way.reserved and (ranks >= places - slots[:, None]) & (ranks < places))
        draws = np.take_along_axis(self._draws(way, rng), order, axis=1)
        keys = np.where(rng.random((len(order), 1)) < way.floor, rng.random(order.shape), draws)
        picks = np.take_along_axis(order, np.argsort(-np.where(pool, keys, -np.inf), axis=1), axis=1)
        slate = order[:, :places].copy()
        for slot in range(way.slots):
            filled = slots > slot
            slate[filled, places - 1 - slot] = picks[filled, slot]
        return slate, slots

    def _draws(self, way: Way, rng: np.random.Generator) -> Floats:
        if way.beta:
            rewards = rng.beta(self.successes + 1, self.uses - self.successes + 1)
            return self._score(np.log(rewards / (1 - rewards)))
        means = expit(self.mean)
        if not self.stack:
            return self._score(logit(rng.beta(means * self.size, (1 - means) * self.size)))
        chances = self._score(self.mean)
        sizes = AS_USERS.sample_sizes(chances, means, self.size)
        return rng.beta(chances * sizes, (1 - chances) * sizes)

    def _score(self, quality: Floats) -> Floats:
        if self.stack:
            return expit(quality + self.relevance)
        return (1 - LEARNED_SHARE) * expit(self.relevance) + LEARNED_SHARE * expit(quality)


AS_USERS = LogitStack(weights={LEARNED: 1.0})
"""The users' own model adds quality and relevance."""


def expit(logits: Floats) -> Floats:
    """1 / (1 + e^-x)."""
    return np.asarray(1 / (1 + np.exp(-logits)))


def row(name: str, outcome: Outcome, without: Outcome) -> dict[str, Any]:
    """The figures of one policy, compared with those without slots."""
    total, base = outcome.regret.sum(axis=1), without.regret.sum(axis=1)
    # Both policies' runs have the same items, arrivals and random numbers.
    error = (total - base).std(ddof=1) / np.sqrt(len(total)) / base.mean()
    return {
        "policy": name,
        "top decile found": round(float(outcome.found.mean()), 4),
        "regret": round(float(total.mean()), 1),
        "regret cost": round(float(total.mean() / base.mean() - 1), 4),
        "standard error": round(float(error), 4),
        "cost in the last eighth": round(float(outcome.regret[:, -1].mean() / without.regret[:, -1].mean() - 1), 4),
        "of all rewards": round(float(outcome.earned.mean() / without.earned.mean() - 1), 4),
        "places at stake a search": round(float(outcome.slots.mean()), 3),
    }


WAYS: Mapping[str, Way] = {
    "no slots": Way(),
    "uncertainty bonus .1, no floor": Way(PolicyName.UNCERTAINTY_BONUS),
    "uncertainty bonus .5, no floor": Way(PolicyName.UNCERTAINTY_BONUS, rate=0.5),
    "1 slot, shrunk": Way(PolicyName.THOMPSON_SLOTS),
    "2 slots, shrunk": Way(PolicyName.THOMPSON_SLOTS, slots=2),
    "1 slot, Beta": Way(PolicyName.THOMPSON_SLOTS, beta=True),
    "1 slot, drawn uniformly": Way(PolicyName.THOMPSON_SLOTS, floor=1.0),
    "1 slot, reserved": Way(PolicyName.THOMPSON_SLOTS, reserved=True),
    "2 slots, reserved": Way(PolicyName.THOMPSON_SLOTS, slots=2, reserved=True),
}
