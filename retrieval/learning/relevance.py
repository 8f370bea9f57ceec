"""Fits the calibration of relevance: logistic regression on judged hits, evaluated on held-out queries. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from retrieval.domain.search.relevance import Calibration, Evidence
from retrieval.domain.serialization import Serializable
from retrieval.learning.arm_table import Floats
from retrieval.learning.logit import sigmoid

FEWEST = 10
"""The fewest relevant hits, and the fewest other hits, that a fit needs."""
FEWEST_FROM_START = 3
"""The same for a fit that starts from another calibration."""

FOLDS = 5
_RIDGE = 1.0
"""The penalty on half the square of a standardised coefficient, in hits, so that none grows without bound."""
_BASE_FROM_START, _RIDGE_FROM_START = 3.0, 10.0
"""The same on the squared distance of the intercept, and of a coefficient, from those of the start."""
_STEPS = 100
_SMALL = 1e-9

_NUMBERS = {"both": (0, 1, 2, 3), "dense": (0, 1), "lexical": (2, 3)}
"""The numbers of an ``Evidence`` that each model uses."""


class JudgedHit(NamedTuple):
    """A hit of a judged query."""

    query: int
    """The number of the query: all hits of a query are held out together."""
    evidence: Evidence
    is_relevant: bool
    weight: float = 1.0


class Bin(NamedTuple):
    """Hits with similar predicted probabilities."""

    hits: int
    told: float
    relevant: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationQuality(Serializable):
    """The quality of probabilities of relevance."""

    hits: int
    relevant: float
    """The share of hits that are relevant, 0 to 1."""
    told: float
    """The mean of the predicted probabilities."""
    error: float
    """The expected calibration error over ten bins of equal size, 0 to 1; see ``calibration_error``."""
    told_apart: float | None
    """The probability that a relevant hit has a higher probability than another hit (AUC); None: all hits are alike."""
    bins: tuple[Bin, ...]


def fit_calibration(
    hits: Mapping[str, Sequence[JudgedHit]], *, space: str, fitted_on: str, start: Calibration | None = None
) -> Calibration:
    """The calibration of the hits, the nearer to ``start``, that of other collections, the fewer hits there are."""
    fitted = {name: _fit_logistic(name, hits.get(name, ()), getattr(start, name) if start else ()) for name in _NUMBERS}
    return Calibration(space=space, fitted_on=fitted_on, **fitted)


def fewest(start: Calibration | Sequence[float] | None) -> int:
    """The number of relevant and of other hits that a fit needs, with and without a calibration to start from."""
    return FEWEST_FROM_START if start else FEWEST


def can_fit(hits: Sequence[JudgedHit], fewest: int = FEWEST) -> bool:
    """True if there are enough hits of both kinds."""
    relevant = sum(hit.is_relevant for hit in hits)
    return min(relevant, len(hits) - relevant) >= fewest


def held_out(name: str, hits: Sequence[JudgedHit], start: Calibration | None = None) -> CalibrationQuality | None:
    """The quality of fits, each measured on the fifth of the queries that it leaves out; None: too few hits."""
    predicted, judged = list[float](), list[bool]()
    for fold in range(FOLDS):
        others = [hit for hit in hits if hit.query % FOLDS != fold]
        own = [hit for hit in hits if hit.query % FOLDS == fold]
        if not own or not can_fit(others, fewest(start)):
            return None
        fitted = fit_calibration({name: others}, space="", fitted_on="", start=start)
        told = fitted.relevances([hit.evidence for hit in own])
        predicted += [probability for probability in told if probability is not None]
        judged += [hit.is_relevant for hit in own]
    return quality_of(predicted, judged)


def quality_of(predicted: Sequence[float], judged: Sequence[bool]) -> CalibrationQuality:
    """The quality of at least one predicted probability."""
    probabilities, relevant = np.asarray(predicted, dtype=np.float64), np.asarray(judged, dtype=np.float64)
    tenths = np.minimum((probabilities * 10).astype(int), 9)
    bins = [tenths == tenth for tenth in range(10)]
    return CalibrationQuality(
        hits=len(predicted),
        relevant=float(relevant.mean()),
        told=float(probabilities.mean()),
        error=calibration_error(probabilities, relevant),
        told_apart=_separation(probabilities, relevant > 0),
        bins=tuple(
            Bin(int(own.sum()), float(probabilities[own].mean()), float(relevant[own].mean()))
            for own in bins
            if own.any()
        ),
    )


def calibration_error(predicted: Floats, rewards: Floats) -> float:
    """The expected calibration error over ten bins of equal size, 0 to 1 (Naeini, Cooper, Hauskrecht, AAAI 2015)."""
    order = np.argsort(predicted, kind="stable")
    parts = np.array_split(order, min(10, len(order)))
    gaps = [len(rows) * abs(float(predicted[rows].mean() - rewards[rows].mean())) for rows in parts]
    return sum(gaps) / len(order)


def _separation(probabilities: Floats, is_relevant: np.ndarray[Any, np.dtype[np.bool_]]) -> float | None:
    """Mann and Whitney's statistic (1947), in which ties count half."""
    relevant, others = np.sort(probabilities[is_relevant]), np.sort(probabilities[~is_relevant])
    if not len(relevant) or not len(others):
        return None
    below = np.searchsorted(others, relevant, side="left") + np.searchsorted(others, relevant, side="right")
    return float(below.sum() / (2 * len(relevant) * len(others)))


def _fit_logistic(name: str, hits: Sequence[JudgedHit], start: tuple[float, ...]) -> tuple[float, ...]:
    """Intercept and coefficients by Newton's method on standardised numbers, penalised towards ``start``."""
    columns = _NUMBERS[name]
    usable = [hit for hit in hits if hit.evidence.tells(name)]
    if not can_fit(usable, fewest(start)):
        return start
    numbers = np.array([[hit.evidence[column] for column in columns] for hit in usable], dtype=np.float64)
    judged = np.array([hit.is_relevant for hit in usable], dtype=np.float64)
    weights = np.array([hit.weight for hit in usable], dtype=np.float64)
    weights *= len(usable) / weights.sum()
    middle, spread = numbers.mean(axis=0), numbers.std(axis=0) + _SMALL
    design = np.column_stack([np.ones(len(usable)), (numbers - middle) / spread])
    if start:
        goal = np.array([start[0] + middle @ start[1:], *(spread * start[1:])])
        ridge = np.diag([_BASE_FROM_START, *[_RIDGE_FROM_START] * len(columns)])
    else:
        goal = np.zeros(len(columns) + 1)
        ridge = np.diag([0.0, *[_RIDGE] * len(columns)])
    coefficients = np.zeros(len(columns) + 1)
    for _ in range(_STEPS):
        predicted = sigmoid(design @ coefficients)
        slope = design.T @ (weights * (predicted - judged)) + ridge @ (coefficients - goal)
        curved = design * (weights * predicted * (1 - predicted))[:, None]
        curve = curved.T @ design + ridge + _SMALL * np.eye(len(coefficients))
        step = np.linalg.solve(curve, slope)
        coefficients -= step
        if np.abs(step).max() < _SMALL:
            break
    slopes = coefficients[1:] / spread
    return (round(float(coefficients[0] - slopes @ middle), 4), *(round(float(slope), 4) for slope in slopes))
