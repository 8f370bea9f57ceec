"""The gate: a learned reward is used only once it has beaten what is in use."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from retrieval.domain.arm import ItemArms
from retrieval.domain.errors import InvalidRequestError
from retrieval.learning.arm_table import Floats
from retrieval.learning.calibration import calibration_error, log_losses
from retrieval.learning.event import Event, in_order
from retrieval.learning.learned_reward import LearnedReward

FEWEST = 100
"""Held-out events below which nothing is concluded."""

Z_ONE_SIDED_95 = 1.6448536269514722


class OffPolicy(NamedTuple):
    """What off-policy evaluation says of the recorded traffic."""

    candidate_lower: float | None
    """The lower confidence bound of the candidate's value; None: the log does not support an estimate."""
    incumbent_value: float | None
    """The value of what is in use; None likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the candidate is published, and why."""

    published: bool
    reason: str
    metrics: Mapping[str, float | None]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"published": self.published, "reason": self.reason, "metrics": dict(self.metrics)}


def held_out_split(
    events: Sequence[Event], *, share: float = 0.2, groups: Sequence[str] | None = None
) -> tuple[list[Event], list[Event]]:
    """Events to learn from, and events to judge by.

    By time: the latest are held out. With ``groups``, one an event, such as its session: whole groups are held out,
    always the same ones. Raises ``InvalidRequestError`` for a share outside 0 to 1 or lengths that differ.
    """
    if not 0 < share < 1:
        raise InvalidRequestError(f"the held-out share is {share}; it must be between 0 and 1")
    if groups is None:
        ordered = in_order(events)
        cut = len(ordered) - round(share * len(ordered))
        return ordered[:cut], ordered[cut:]
    if len(groups) != len(events):
        raise InvalidRequestError(f"there are {len(events)} events and {len(groups)} groups; give one for each")
    apart = {group: _place(group) < share for group in set(groups)}
    pairs = list(zip(events, groups, strict=True))
    return [event for event, group in pairs if not apart[group]], [event for event, group in pairs if apart[group]]


def predicted(model: LearnedReward, events: Sequence[Event], arms: Sequence[ItemArms]) -> Floats:
    """The mean that the model expects of each event, at the rank where it was shown, (events,).

    ``arms`` must not contain the events themselves. An item without arms is taken as new.
    """
    known = {item.item_id: item for item in arms}
    found = np.empty(len(events))
    by_context: dict[tuple[str, ...], list[int]] = {}
    for row, event in enumerate(events):
        by_context.setdefault(event.contexts, []).append(row)
    for contexts, rows in by_context.items():
        shown = [events[row] for row in rows]
        names = sorted({name for event in shown for name in event.signals})
        answers = model.predict(
            contexts,
            [known.get(event.item_id) or ItemArms(item_id=event.item_id) for event in shown],
            [event.relevance for event in shown],
            signals={name: [event.signals.get(name) for event in shown] for name in names},
            ranks=[event.rank for event in shown],
        )
        found[rows] = [answer.mean for answer in answers]
    return found


def is_better(
    candidate: LearnedReward,
    incumbent: LearnedReward | None,
    held_out: Sequence[Event],
    arms: Sequence[ItemArms],
    off_policy: OffPolicy | None = None,
    *,
    margin: float = 0.0,
) -> Verdict:
    """Whether the candidate may be published.

    Its log-loss on the held-out events must be lower than the incumbent's by more than the margin, with 95 % confidence
    (paired, one-sided), and its off-policy lower bound must not be below the incumbent's value. Where the log supports
    no such estimate, log-loss decides and the reason says so. With no incumbent, the candidate has to beat the constant
    that fits the held-out rewards best. ``arms`` are those from before the held-out events.
    """
    if len(held_out) < FEWEST:
        reason = f"{len(held_out)} held-out events; at least {FEWEST} are needed to conclude"
        return Verdict(published=False, reason=reason, metrics={"held_out": len(held_out)})
    compared = _compare(candidate, incumbent, held_out, arms)
    value = off_policy or OffPolicy(None, None)
    metrics = compared | {
        "held_out": len(held_out),
        "candidate_value_lower": value.candidate_lower,
        "incumbent_value": value.incumbent_value,
    }
    published, reason = _judge(compared["gain_lower"], margin, value)
    return Verdict(published=published, reason=reason, metrics=metrics)


def _compare(
    candidate: LearnedReward, incumbent: LearnedReward | None, held_out: Sequence[Event], arms: Sequence[ItemArms]
) -> dict[str, float]:
    rewards = np.array([event.reward for event in held_out])
    weights = np.array([event.weight for event in held_out])
    if not weights.sum() > 0:
        raise InvalidRequestError("the held-out events have no weight; hold out others")
    mine = predicted(candidate, held_out, arms)
    constant = np.full(len(rewards), np.average(rewards, weights=weights))
    theirs = constant if incumbent is None else predicted(incumbent, held_out, arms)
    my_loss, their_loss = log_losses(mine, rewards), log_losses(theirs, rewards)
    gain, error = _paired(their_loss - my_loss, weights)
    return {
        "candidate_log_loss": float(np.average(my_loss, weights=weights)),
        "incumbent_log_loss": float(np.average(their_loss, weights=weights)),
        "gain": gain,
        "gain_lower": gain - Z_ONE_SIDED_95 * error,
        "candidate_calibration_error": calibration_error(mine, rewards),
    }


def _paired(gains: Floats, weights: Floats) -> tuple[float, float]:
    """The weighted mean and its standard error."""
    mean = float(np.average(gains, weights=weights))
    return mean, math.sqrt(float(((weights * (gains - mean)) ** 2).sum())) / float(weights.sum())


def _judge(gain_lower: float, margin: float, value: OffPolicy) -> tuple[bool, str]:
    if not gain_lower > margin:
        return (
            False,
            f"held-out log-loss is not surely lower: the gain is at least {gain_lower:.4f}, not above {margin:g}",
        )
    gained = f"held-out log-loss is lower by at least {gain_lower:.4f}"
    if value.candidate_lower is None or value.incumbent_value is None:
        return True, f"{gained}; the log does not support an off-policy estimate"
    bounds = f"{value.candidate_lower:.4f} against {value.incumbent_value:.4f}"
    if value.candidate_lower < value.incumbent_value:
        return False, f"{gained}, but the off-policy lower bound is worse: {bounds}"
    return True, f"{gained}, and the off-policy lower bound is not worse: {bounds}"


def _place(group: str) -> float:
    """A number from 0 to 1 that depends on the group's name alone."""
    digest = hashlib.blake2b(group.encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
