"""A published model: the learned reward, the stack with relevance, and which combinations may be used. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.learning.arm import Arm, ItemArms
from retrieval.domain.learning.context import ANYWHERE
from retrieval.domain.search.profile_parts import LEARNED_SHARE, Combination, Learned
from retrieval.learning import logistic, shrinkage
from retrieval.learning import stack as stacks
from retrieval.learning.arm_table import Floats, arm_table
from retrieval.learning.examples import Direction, Event, Examples, arms_of, columns, directions, without_own
from retrieval.learning.logistic import RANK, RELEVANCE, SHRUNK, Logistic, design_of, fit_logistic, logistic_mean
from retrieval.learning.logit import sigmoid
from retrieval.learning.shrinkage import Posterior, Shrinkage, fit_shrinkage, posterior
from retrieval.learning.stack import LogitStack

ENOUGH_FOR_LOGISTIC = 2_000
"""The number of events from which the logistic model predicts better than shrinkage alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedReward:
    """A learned reward, made by ``learn``; without events the expected reward is one half, with full uncertainty."""

    shrinkage: Shrinkage = field(default_factory=Shrinkage)
    logistic: Logistic | None = None
    """None: the shrunk rate is the prediction."""
    events: int = 0

    @property
    def kind(self) -> str:
        """``shrinkage`` or ``logistic``."""
        return shrinkage.KIND if self.logistic is None else logistic.KIND

    def predict(
        self,
        buckets: Sequence[str],
        items: Sequence[ItemArms],
        relevance: Sequence[float | None] | None = None,
        *,
        signals: Mapping[str, Sequence[float | None]] | None = None,
        ranks: Sequence[int | None] | None = None,
    ) -> Posterior:
        """The reward of each item in the context of these buckets, in order.

        ``relevance``, and ``signals`` by name, have a number from 0 to 1 per item; None, as a whole or inside: unknown.
        ``ranks`` serve to evaluate the model on shown items; without them every item counts as shown at rank 1.
        """
        shrunk = posterior(self.shrinkage, buckets, items)
        if self.logistic is None:
            return shrunk
        columns = {RELEVANCE: relevance, RANK: ranks, **(signals or {})}
        numbers = {name: np.array(each, dtype=np.float64) for name, each in columns.items() if each is not None}
        numbers[SHRUNK] = shrunk.mean
        fitted, by_inputs = logistic_mean(self.logistic, buckets, items, numbers)
        effects = self.logistic.effects.get("item", {})
        # An item that the logistic model does not know has its shrunk rate, changed by the slopes.
        is_known = np.array([item.item_id in effects for item in items])
        mean = np.where(is_known, fitted, shrunk.logit_mean + by_inputs)
        return Posterior(sigmoid(mean), shrunk.effective_sample_size, mean)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; see ``from_dict``."""
        stored = {"kind": self.kind, "events": self.events, shrinkage.KIND: self.shrinkage.as_dict()}
        return stored if self.logistic is None else stored | {logistic.KIND: self.logistic.as_dict()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Reads the result of ``as_dict``."""
        return cls(
            shrinkage=Shrinkage.from_dict(stored[shrinkage.KIND]),
            logistic=Logistic.from_dict(stored[logistic.KIND]) if stored["kind"] == logistic.KIND else None,
            events=int(stored["events"]),
        )


def learn(events: Sequence[Event], arms: Sequence[ItemArms] = (), *, kind: str | None = None) -> LearnedReward:
    """Learn from the events, and from every item with all its arms.

    Without ``arms``, they are the sums of the events. Fade the events first (see ``faded``), by the half-life of the
    arms. An item's cluster is that of its arms. Default ``kind``: ``logistic`` from 2,000 events, else ``shrinkage``.
    """
    kind = kind or (logistic.KIND if len(events) >= ENOUGH_FOR_LOGISTIC else shrinkage.KIND)
    shrunk = fit_shrinkage(arm_table(arms or arms_of(events)))
    if kind == shrinkage.KIND:
        return LearnedReward(shrinkage=shrunk, events=len(events))
    clusters = {item.item_id: item.cluster for item in arms if item.cluster is not None}
    # Events without a time come first.
    ordered = sorted(events, key=lambda event: event.occurred_at.timestamp() if event.occurred_at else -math.inf)
    design = design_of(ordered, clusters, rates_before(ordered, clusters))
    return LearnedReward(shrinkage=shrunk, logistic=fit_logistic(design), events=len(events))


CUTS = (0.1, 0.25, 0.5, 0.75, 1.0)
"""The shares of the events at which a model is fitted, which predicts the events up to the next cut."""


def rates_before(events: Sequence[Event], clusters: Mapping[str, int]) -> Floats:
    """The shrunk rate of each event's item in its context, from earlier events only, (events,).

    ``events`` are in order of time. NaN for the first tenth, which has too few events before it. Rates from all *other*
    events would reveal an event's own reward: with an effect of the item in the model, the total without the event
    determines it.
    """
    rates = np.full(len(events), np.nan)
    ends = [round(cut * len(events)) for cut in CUTS]
    for start, end in pairwise(ends):
        before = arms_of(events[:start], clusters)
        model = fit_shrinkage(arm_table(before))
        arms = {item.item_id: item for item in before}
        rows_by_context: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for row in range(start, end):
            rows_by_context[events[row].contexts].append(row)
        for contexts, rows in rows_by_context.items():
            ids = [events[row].item_id for row in rows]
            items = [arms.get(item) or ItemArms(item_id=item, cluster=clusters.get(item)) for item in ids]
            rates[rows] = posterior(model, contexts, items).mean
    return rates


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedModel:
    """An immutable version of a model that was learned from a collection's feedback."""

    version: int
    reward: LearnedReward
    """The reward in a sum; it includes relevance where that predicts better."""
    by_item: LearnedReward
    """The reward in a stack, beside relevance: by the item and similar items alone."""
    stack: LogitStack
    passed: frozenset[Combination]
    """The combinations that were better than relevance alone on held-out searches."""
    share: float = LEARNED_SHARE
    """The share of the learned reward in the sum of the trial."""
    space_id: int | None = None
    """The embedding space of the queries for which items were rewarded; None: there are none."""

    def serves(self, learned: Learned) -> bool:
        """True if the profile's setting passed its trial, or is trusted without a trial."""
        return self.has_passed(learned) or self.is_trusted(learned)

    def has_passed(self, learned: Learned) -> bool:
        """True if the profile's setting is that of the trial, and passed."""
        is_tried = learned.combination is not Combination.SUM or learned.share == self.share
        return is_tried and learned.combination in self.passed

    def is_trusted(self, learned: Learned) -> bool:
        """True if the model has enough verdicts for the profile to use it whatever the outcome of its trial."""
        if learned.trusted_from is None or self.reward.events < learned.trusted_from:
            return False
        # A stack that was fitted without impressions has no weights.
        return learned.combination is Combination.SUM or (
            learned.combination is Combination.LOGIT_STACK and any(self.stack.weights.values())
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "reward": self.reward.as_dict(),
            "by_item": self.by_item.as_dict(),
            "stack": self.stack.as_dict(),
            "passed": sorted(self.passed),
            **self.settings(),
        }

    def settings(self) -> dict[str, Any]:
        """The collection's settings that it was fitted for, as plain JSON values."""
        return {"share": self.share, "space_id": self.space_id}

    @classmethod
    def from_dict(cls, version: int, stored: Mapping[str, Any]) -> Self:
        """Reads the result of ``as_dict``. Raises ``InvalidRequestError`` for the model of another release."""
        try:
            return cls(
                version=version,
                reward=LearnedReward.from_dict(stored["reward"]),
                by_item=LearnedReward.from_dict(stored["by_item"]),
                stack=LogitStack.from_dict(stored["stack"]),
                passed=frozenset(map(Combination, stored["passed"])),
                share=float(stored["share"]),
                space_id=stored["space_id"],
            )
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            raise InvalidRequestError(
                f"model {version} cannot be read by this release ({written(error)}); learn it again, with the job learn"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A model fitted to some examples."""

    reward: LearnedReward
    by_item: LearnedReward
    stack: LogitStack
    shared: LogitStack
    """The stack without the rewards of single items."""
    arms: Mapping[str, ItemArms]
    directions: Mapping[str, Direction]


def fit(examples: Examples) -> Fitted:
    """Fit a model to the examples."""
    events = examples.rated
    arms = arms_of(events, examples.clusters)
    rewarded = directions(events)
    by_item = learn(events, arms, kind=shrinkage.KIND)
    shown = [event for event in events if event.relevance is not None]
    signals, verdicts = _signals(examples, shown, arms, rewarded, by_item), columns(shown)
    shared = {name: values for name, values in signals.items() if name not in stacks.OF_ITEMS}
    return Fitted(
        reward=learn(events, arms),
        by_item=by_item,
        stack=stacks.fit_stack(signals, *verdicts) if shown else LogitStack(),
        shared=stacks.fit_stack(shared, *verdicts) if shown else LogitStack(),
        arms={
            **{item_id: ItemArms(item_id=item_id, cluster=cluster) for item_id, cluster in examples.clusters.items()},
            **{item.item_id: item for item in arms},
        },
        directions=rewarded,
    )


def _signals(
    examples: Examples,
    shown: Sequence[Event],
    arms: Sequence[ItemArms],
    rewarded: Mapping[str, Direction],
    by_item: LearnedReward,
) -> dict[str, Floats]:
    """The stack's signals of rated items, each without the verdicts on its own question, which it is to predict."""
    legs = sorted({leg for event in shown for leg in event.signals})
    signals = {
        RELEVANCE: np.array([event.relevance or 0.0 for event in shown]),
        stacks.LEARNED: _logits_without_own(shown, arms, by_item),
        stacks.AFFINITY: stacks.affinity_signal(without_own(shown, rewarded)),
        stacks.LENGTH: stacks.length_signal([examples.octets.get(event.item_id, 0) for event in shown]),
    }
    return signals | {leg: np.array([event.signals.get(leg, 0.0) for event in shown]) for leg in legs}


def _logits_without_own(shown: Sequence[Event], arms: Sequence[ItemArms], by_item: LearnedReward) -> Floats:
    whole = {item.item_id: item for item in arms}
    events_of: dict[str | None, list[Event]] = defaultdict(list)
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for position, event in enumerate(shown):
        events_of[event.question].append(event)
        groups[tuple(sorted(event.contexts))].append(position)
    own = {(question, item.item_id): item.arms for question, events in events_of.items() for item in arms_of(events)}
    logits = np.zeros(len(shown))
    for contexts, positions in groups.items():
        buckets, items = (ANYWHERE, *contexts), []
        for event in (shown[position] for position in positions):
            item, mine = whole[event.item_id], own[event.question, event.item_id]
            items.append(replace(item, arms={bucket: _without(item.arms[bucket], mine[bucket]) for bucket in buckets}))
        logits[positions] = by_item.predict(buckets, items).logit_mean
    return logits


def _without(total: Arm, own: Arm) -> Arm:
    return Arm(max(0.0, total.successes - own.successes), max(0.0, total.failures - own.failures))
