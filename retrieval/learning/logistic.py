"""A logistic model of the reward, and its fit to events. Pure.

    logit p = intercept + Σ slopes × numbers
            + Σ effects of item, item cluster, bucket, item cluster in bucket, item in bucket

Every effect has a normal prior around 0, so an unseen effect adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from retrieval.domain.learning.arm import ItemArms
from retrieval.domain.learning.context import ANYWHERE
from retrieval.learning.arm_table import Floats, Ints, kind_of
from retrieval.learning.examples import Event
from retrieval.learning.logit import logit, sigmoid

if TYPE_CHECKING:
    from scipy.sparse import csr_array


KIND = "logistic"

EDGE = 0.01
"""Relevances and signals are clipped to this distance from 0 and 1, so that no logit exceeds ±4.6."""

RELEVANCE = "relevance"
SHRUNK = "shrunk rate"
RANK = "rank"


class Slope(NamedTuple):
    """The weight of an input."""

    weight: float
    centre: float
    """Subtracted from the input; a missing input counts as equal to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """A fitted model."""

    intercept: float
    slopes: Mapping[str, Slope] = field(default_factory=dict)
    """The slopes of the logits of ``relevance``, of the signals and of the shrunk rate, and of ln ``rank``."""
    effects: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The effects by group, such as ``item in domain=physics``, and then by item, cluster or bucket."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; see ``from_dict``."""
        return {
            "intercept": self.intercept,
            "slopes": {name: list(slope) for name, slope in self.slopes.items()},
            "effects": {group: dict(effects) for group, effects in self.effects.items()},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Reads the result of ``as_dict``."""
        return cls(
            intercept=float(stored["intercept"]),
            slopes={name: Slope(*map(float, slope)) for name, slope in stored["slopes"].items()},
            effects={
                group: {key: float(effect) for key, effect in effects.items()}
                for group, effects in stored["effects"].items()
            },
        )


def groups_of(contexts: Sequence[str], item_id: str, cluster: int | None) -> list[tuple[str, str, str]]:
    """Block, group and key of every effect on an item in a context; ``contexts`` are without ``ANYWHERE``."""
    groups = [("item", "item", item_id)]
    if cluster is not None:
        groups.append(("item cluster", "item cluster", str(cluster)))
    for bucket in contexts:
        kind = kind_of(bucket)
        groups.append(("bucket", "bucket", bucket))
        groups.append((f"item in {kind}", f"item in {bucket}", item_id))
        if cluster is not None:
            groups.append((f"item cluster in {kind}", f"item cluster in {bucket}", str(cluster)))
    return groups


def logistic_mean(
    model: Logistic, buckets: Sequence[str], items: Sequence[ItemArms], numbers: Mapping[str, Floats]
) -> tuple[Floats, Floats]:
    """The expected logit of each item in these buckets, (items,); and the slopes' part but that of the shrunk rate.

    ``numbers``: probabilities by the name of their slope, (items,) each; NaN, or a missing name: unknown. ``rank`` is
    the rank, from 1; without it every item counts as shown at rank 1.
    """
    contexts = [bucket for bucket in dict.fromkeys(buckets) if bucket != ANYWHERE]
    total, by_inputs = np.full(len(items), model.intercept), np.zeros(len(items))
    for name, slope in model.slopes.items():
        if name != RANK or name in numbers:
            values = numbers.get(name, np.full(len(items), np.nan))
            number = np.log(values) if name == RANK else number_of(values)
            part = slope.weight * np.nan_to_num(number - slope.centre, nan=0.0)
            total = total + part
            by_inputs = by_inputs if name == SHRUNK else by_inputs + part
    each = [groups_of(contexts, item.item_id, item.cluster) for item in items]
    effects = [sum(model.effects.get(group, {}).get(key, 0.0) for _, group, key in groups) for groups in each]
    return total + np.array(effects), by_inputs


def number_of(probabilities: Floats) -> Floats:
    """The logits, which slopes multiply; NaN stays NaN."""
    return logit(np.clip(probabilities, EDGE, 1 - EDGE))


SCALES = (0.12, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0)
"""The prior standard deviations that are tried for each block of effects."""

USUAL_SCALE = 0.5
"""The median of a lognormal prior on scales, which dominates while held-out events are few."""

MOST_FOR_SCALES = 20_000

NUMBER_SPREAD = 1.0

INTERCEPT_SPREAD = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Events as a matrix; n rows, p columns, the first of them the intercept."""

    matrix: csr_array
    reward: Floats
    """(n,), 0 to 1."""
    weight: Floats
    """(n,)."""
    block: Ints
    """(p,): the index in ``blocks``; -1: the intercept, -2: a slope."""
    blocks: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    """(p,): group and key; a slope's group is empty."""
    centres: Mapping[str, float]


def design_of(events: Sequence[Event], clusters: Mapping[str, int], shrunk: Floats | None = None) -> Design:
    """The matrix of the events. ``shrunk``: the shrunk rate before each event, (events,)."""
    from scipy.sparse import csr_array, hstack

    numbers, centres = _numbers(events, shrunk)
    columns = {("", name): position for position, name in enumerate(["intercept", *centres])}
    block_of: list[str] = ["intercept", *["slope"] * len(centres)]
    index: list[int] = []
    starts = [0]
    for event in events:
        for block, group, key in groups_of(event.contexts, event.item_id, clusters.get(event.item_id)):
            column = columns.setdefault((group, key), len(columns))
            if column == len(block_of):
                block_of.append(block)
            index.append(column)
        starts.append(len(index))
    wide = numbers.shape[1]
    shape = (len(events), len(columns) - wide)
    effects = csr_array((np.ones(len(index)), np.array(index) - wide, np.array(starts)), shape=shape)
    matrix = csr_array(hstack([csr_array(numbers), effects]))
    blocks = tuple(sorted(set(block_of) - {"intercept", "slope"}))
    number = {name: position for position, name in enumerate(blocks)} | {"intercept": -1, "slope": -2}
    return Design(
        matrix=matrix,
        reward=np.array([event.reward for event in events]),
        weight=np.array([event.weight for event in events]),
        block=np.array([number[name] for name in block_of], dtype=np.int64),
        blocks=blocks,
        columns=tuple(columns),
        centres=centres,
    )


def fit_logistic(design: Design) -> Logistic:
    """The MAP model of a design with at least one row."""
    weights = _map(design, _variances(design, choose_spreads(design))).tolist()
    slopes: dict[str, Slope] = {}
    effects: dict[str, dict[str, float]] = {}
    for (group, key), weight in zip(design.columns[1:], weights[1:], strict=True):
        if group:
            effects.setdefault(group, {})[key] = weight
        else:
            slopes[key] = Slope(weight, design.centres[key])
    return Logistic(intercept=weights[0], slopes=slopes, effects=effects)


def choose_spreads(design: Design) -> dict[str, float]:
    """The prior standard deviation of each block that predicts held-out events, every fifth, best: block by block."""
    is_held_out = np.arange(len(design.reward)) % 5 == 4
    fit_rows = _some(np.flatnonzero(~is_held_out), MOST_FOR_SCALES)
    test_rows = _some(np.flatnonzero(is_held_out), MOST_FOR_SCALES // 4)
    spreads = dict.fromkeys(design.blocks, USUAL_SCALE)
    if not len(fit_rows) or not len(test_rows):
        return spreads
    training, test = _rows(design, fit_rows), _rows(design, test_rows)
    weights = np.zeros(training.matrix.shape[1])

    def cost(spreads: Mapping[str, float]) -> float:
        """The negative log posterior of the scales, on the held-out rows; each fit starts from the last one."""
        nonlocal weights
        weights = _map(training, _variances(training, spreads), weights, tolerance=1e-6)
        scores = test.matrix @ weights
        losses = np.logaddexp(0.0, scores) - test.reward * scores
        penalty = sum(math.log(spread / USUAL_SCALE) ** 2 for spread in spreads.values()) / (2 * 0.7**2)
        return float(losses @ test.weight + penalty)

    best = cost(spreads)
    for block in design.blocks:
        for step in (1, -1):
            position = SCALES.index(spreads[block]) + step
            while 0 <= position < len(SCALES) and (new := cost(spreads | {block: SCALES[position]})) < best:
                best, spreads[block] = new, SCALES[position]
                position += step
    return spreads


def _map(design: Design, variances: Floats, start: Floats | None = None, tolerance: float = 1e-8) -> Floats:
    """Minimise the penalised log-loss by Newton steps, each found by conjugate gradients.

    Nocedal and Wright, Numerical Optimization, 7.1. Scalar products are computed as sums, because BLAS would start
    threads that mostly wait for each other. Ends when a step reduces the loss by less than the share ``tolerance``.
    """
    matrix, reward, weight, precision = design.matrix, design.reward, design.weight, 1.0 / variances
    transposed = matrix.T.tocsr()
    squared = transposed.power(2)

    def loss(weights: Floats) -> float:
        scores = matrix @ weights
        losses = weight * (np.logaddexp(0.0, scores) - reward * scores)
        return float(losses.sum() + (precision * weights**2).sum() / 2)

    weights = np.zeros(len(variances)) if start is None else start
    least = loss(weights)
    for _ in range(50):
        rate = sigmoid(matrix @ weights)
        slope, curve = transposed @ (weight * (rate - reward)) + precision * weights, weight * rate * (1.0 - rate)
        hessian = partial(_along, matrix, transposed, curve, precision)
        step = _conjugate(hessian, 1.0 / (squared @ curve + precision), -slope)
        halvings = (step / 2**times for times in range(20))
        shortened = next((part for part in halvings if loss(weights + part) <= least), np.zeros(len(step)))
        weights = weights + shortened
        before, least = least, loss(weights)
        if before - least <= tolerance * abs(least):
            break
    return weights


def _along(matrix: csr_array, transposed: csr_array, curve: Floats, precision: Floats, direction: Floats) -> Floats:
    """The Hessian times a direction."""
    return np.asarray(transposed @ (curve * (matrix @ direction)) + precision * direction, dtype=np.float64)


def _conjugate(hessian: Callable[[Floats], Floats], scale: Floats, target: Floats) -> Floats:
    """The solution of Hessian × step = target, with a relative error of 1 %, preconditioned by ``scale``."""
    step, residual = np.zeros(len(target)), target.copy()
    direction = scaled = scale * residual
    before = float((residual * scaled).sum())
    enough = before * 1e-4
    for _ in range(100):
        if before <= enough:
            break
        product = hessian(direction)
        length = before / float((direction * product).sum())
        step, residual = step + length * direction, residual - length * product
        scaled = scale * residual
        after = float((residual * scaled).sum())
        direction, before = scaled + after / before * direction, after
    return step


def _numbers(events: Sequence[Event], shrunk: Floats | None) -> tuple[Floats, dict[str, float]]:
    """The intercept's ones and each slope's input, (events, 1 + slopes), centred; missing inputs are 0."""
    numbers: dict[str, Floats] = {}
    if shrunk is not None:
        numbers[SHRUNK] = number_of(shrunk)
    for name in sorted({RELEVANCE, *(name for event in events for name in event.signals)}):
        number = [event.relevance if name == RELEVANCE else event.signals.get(name) for event in events]
        numbers[name] = number_of(np.array(number, dtype=np.float64))
    ranks = np.array([event.rank for event in events], dtype=np.float64)
    numbers[RANK] = np.log(ranks)
    numbers = {name: number for name, number in numbers.items() if np.isfinite(number).any()}
    centres = {name: 0.0 if name == RANK else float(np.nanmean(number)) for name, number in numbers.items()}
    columns = [np.nan_to_num(number - centres[name], nan=0.0) for name, number in numbers.items()]
    return np.column_stack([np.ones(len(events)), *columns]), centres


def _variances(design: Design, spreads: Mapping[str, float]) -> Floats:
    # The indexes -2 and -1 of slopes and intercept select the last two.
    by_block = np.array([*(spreads[block] for block in design.blocks), NUMBER_SPREAD, INTERCEPT_SPREAD])
    return np.asarray(by_block[design.block] ** 2, dtype=np.float64)


def _rows(design: Design, rows: Ints) -> Design:
    return replace(design, matrix=design.matrix[rows], reward=design.reward[rows], weight=design.weight[rows])


def _some(rows: Ints, most: int) -> Ints:
    """At most ``most`` of the rows, evenly spread."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
