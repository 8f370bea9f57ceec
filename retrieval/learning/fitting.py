"""A model is fitted on examples: the learned reward by item, with relevance, and the stack of both. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retrieval.domain.learning.arm import Arm, ItemArms
from retrieval.domain.learning.context import ANYWHERE
from retrieval.learning import shrinkage
from retrieval.learning.arm_table import Floats
from retrieval.learning.examples import Direction, Example, Examples, arms_of, columns, directions, without_own
from retrieval.learning.learned_model import LearnedReward, learn
from retrieval.learning.stack import (
    AFFINITY,
    LEARNED,
    LENGTH,
    OF_ITEMS,
    RELEVANCE,
    LogitStack,
    affinity_signal,
    fit_stack,
    length_signal,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A model fitted to some examples."""

    reward: LearnedReward
    by_item: LearnedReward
    stack: LogitStack
    shared: LogitStack
    """The stack without what single items earned."""
    arms: Mapping[str, ItemArms]
    """The arms of the examples alone, by item; and every item of a known cluster."""
    directions: Mapping[str, Direction]


def fit(examples: Examples) -> Fitted:
    """Learn from the examples."""
    events = [example.event for example in examples.rated]
    arms = arms_of(events, examples.clusters)
    known = directions(examples.rated)
    by_item = learn(events, arms, kind=shrinkage.KIND)
    shown = [example for example in examples.rated if example.event.relevance is not None]
    signals, said = _signals(examples, shown, known, by_item), columns(shown)
    shared = {name: values for name, values in signals.items() if name not in OF_ITEMS}
    return Fitted(
        reward=learn(events, arms),
        by_item=by_item,
        stack=fit_stack(signals, *said) if shown else LogitStack(),
        shared=fit_stack(shared, *said) if shown else LogitStack(),
        arms={
            **{item_id: ItemArms(item_id=item_id, cluster=cluster) for item_id, cluster in examples.clusters.items()},
            **{item.item_id: item for item in arms},
        },
        directions=known,
    )


def _signals(
    examples: Examples, shown: Sequence[Example], known: Mapping[str, Direction], by_item: LearnedReward
) -> dict[str, Floats]:
    """The stack's signals of rated items, each without what its own question taught: else it would know the answer."""
    legs = sorted({leg for example in shown for leg in example.event.signals})
    signals = {
        RELEVANCE: np.array([example.event.relevance or 0.0 for example in shown]),
        LEARNED: _logits_without_own(examples, shown, by_item),
        AFFINITY: affinity_signal(without_own(shown, known)),
        LENGTH: length_signal([examples.octets.get(example.event.item_id, 0) for example in shown]),
    }
    return signals | {leg: np.array([example.event.signals.get(leg, 0.0) for example in shown]) for leg in legs}


def _logits_without_own(examples: Examples, shown: Sequence[Example], by_item: LearnedReward) -> Floats:
    all_sums, own_sums = _sums(examples.rated, by_question=False), _sums(shown, by_question=True)
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, example in enumerate(shown):
        groups[tuple(sorted(example.event.contexts))].append(place)
    logits = np.zeros(len(shown))
    for buckets, places in groups.items():
        items = []
        for place in places:
            example = shown[place]
            item_id = example.event.item_id
            left = {
                bucket: _minus(all_sums["", item_id, bucket], own_sums[example.question, item_id, bucket])
                for bucket in (ANYWHERE, *buckets)
            }
            items.append(ItemArms(item_id=item_id, arms=left, cluster=examples.clusters.get(item_id)))
        logits[places] = [reward.logit_mean for reward in by_item.predict((ANYWHERE, *buckets), items)]
    return logits


def _sums(shown: Sequence[Example], *, by_question: bool) -> dict[tuple[str | None, str, str], tuple[float, float]]:
    sums: dict[tuple[str | None, str, str], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for example in shown:
        event = example.event
        for bucket in (ANYWHERE, *event.contexts):
            key = (example.question if by_question else "", event.item_id, bucket)
            successes, failures = sums[key]
            sums[key] = successes + event.weight * event.reward, failures + event.weight * (1 - event.reward)
    return sums


def _minus(total: tuple[float, float], own: tuple[float, float]) -> Arm:
    return Arm(max(0.0, total[0] - own[0]), max(0.0, total[1] - own[1]))
