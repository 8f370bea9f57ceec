"""How good rankings are: standard metrics, computed by ``ir-measures``.

One well-known library makes the numbers comparable with published ones; only the nDCG that a parameter search
computes hundreds of thousands of times is done here, and tested against the library.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import ir_measures

from retrieval.domain.errors import InvalidRequestError
from retrieval.jobs.judgements import Qrels

Run = Mapping[str, Sequence[str]]
"""Item ids by query id, best first, each at most once."""

DEFAULT_METRICS = "nDCG@10,R@100,MRR@10"
"""What is measured when nothing else is asked for."""

_EXAMPLES = "nDCG@10, R@100, MRR@10, AP, P@5, Success@1"
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as the user spelled it, and as ``ir-measures`` knows it."""

    name: str
    measure: ir_measures.Measure

    @property
    def cutoff(self) -> int | None:
        """How many results it looks at; None when it looks at all."""
        cutoff = self.measure.params.get("cutoff")
        return cutoff if isinstance(cutoff, int) else None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one run scored, by metric name. Most metrics are in [0, 1], higher is better."""

    per_query: Mapping[str, Mapping[str, float]]
    """Values by metric name and query id; each metric has every judged query."""
    means: Mapping[str, float]
    """Arithmetic means over the judged queries."""


def parse_metric(name: str) -> Metric:
    """The metric of that name: ``nDCG@10``, ``R@100``, ``MRR@10`` (the same as ``RR@10``), ``AP`` and so on.

    Raises ``InvalidRequestError`` for a name that is unknown, badly put, or cannot be computed here.
    """
    spelled = name.strip()
    # ir-measures reports a bad name by whatever fails first: NameError, AssertionError and more.
    try:
        metric = Metric(spelled, ir_measures.parse_measure(spelled))
        usable = _cutoff_is_usable(metric.measure) and _can_compute(metric.measure)
    except Exception:  # noqa: BLE001
        usable = False
    if not usable:
        raise InvalidRequestError(f"unknown metric {spelled!r}: use names such as {_EXAMPLES}")
    return metric


def parse_metrics(names: str | Sequence[str] = DEFAULT_METRICS) -> tuple[Metric, ...]:
    """Metrics from a comma-separated text or a sequence of names, in order, each once.

    Raises ``InvalidRequestError`` for an unknown one and for none at all.
    """
    parts = _COMMA_OUTSIDE_PARENTHESES.split(names) if isinstance(names, str) else names
    spelled = dict.fromkeys(part.strip() for part in parts if part.strip())
    if not spelled:
        raise InvalidRequestError(f"no metric given: use names such as {_EXAMPLES}")
    return tuple(parse_metric(name) for name in spelled)


def measure(run: Run, qrels: Qrels, metrics: Sequence[Metric]) -> Evaluation:
    """Score a run against judgements.

    Every query of ``qrels`` counts; one without results scores 0. Queries of the run that are not judged are
    ignored. Raises ``InvalidRequestError`` when a ranking has an item twice, or when there are no judgements
    or metrics.
    """
    if not qrels or not metrics:
        raise InvalidRequestError("nothing to measure: give at least one judged query and one metric")
    by_measure: dict[ir_measures.Measure, dict[str, float]] = {
        metric.measure: dict.fromkeys(qrels, 0.0) for metric in metrics
    }
    scored = {key: _scores(key, items) for key, items in run.items() if items and key in qrels}
    if scored:
        # pytrec_eval crashes the process on a query whose grades are all below 0.
        grades = {key: {item_id: max(v, 0) for item_id, v in qrels[key].items()} for key in scored}
        for result in ir_measures.iter_calc(list(by_measure), grades, scored):
            by_measure[result.measure][result.query_id] = float(result.value)
    per_query = {metric.name: by_measure[metric.measure] for metric in metrics}
    return Evaluation(per_query, {name: fmean(values.values()) for name, values in per_query.items()})


class Ndcg:
    """nDCG at one cutoff for many rankings of the same judged queries, fast enough for a parameter search.

    Gain is the relevance itself and the discount log2(rank + 1), as in trec_eval. See Järvelin and
    Kekäläinen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20(4), 2002.
    """

    def __init__(self, qrels: Qrels, cutoff: int = 10) -> None:
        if cutoff < 1:
            raise InvalidRequestError(f"nDCG@{cutoff}: the cutoff must be at least 1")
        self.name = f"nDCG@{cutoff}"
        self._discounts = [1 / math.log2(rank + 1) for rank in range(1, cutoff + 1)]
        self._gains = {key: {k: v for k, v in grades.items() if v > 0} for key, grades in qrels.items()}
        self._ideals = {key: self._dcg(sorted(g.values(), reverse=True)) for key, g in self._gains.items()}

    def score(self, query_id: str, ranking: Sequence[str]) -> float:
        """nDCG in [0, 1] of distinct item ids, best first; 0 when the query has no relevant item."""
        ideal = self._ideals.get(query_id, 0.0)
        if not ideal:
            return 0.0
        gain = self._gains[query_id].get
        return self._dcg([gain(item_id, 0) for item_id in ranking[: len(self._discounts)]]) / ideal

    def _dcg(self, gains: Sequence[int]) -> float:
        return sum(gain * discount for gain, discount in zip(gains, self._discounts, strict=False))


def _cutoff_is_usable(measure: ir_measures.Measure) -> bool:
    if "cutoff" not in measure.params:
        return True
    cutoff = measure.params["cutoff"]
    return isinstance(cutoff, int) and not isinstance(cutoff, bool) and cutoff >= 1


def _can_compute(measure: ir_measures.Measure) -> bool:
    """Whether a provider is there: some need packages of their own, which shows only when one tries."""
    qrels, run = {"q": {"a": 1, "b": 0}}, {"q": {"a": 2.0, "b": 1.0}}
    return any(True for _ in ir_measures.iter_calc([measure], qrels, run))


def _scores(query_id: str, items: Sequence[str]) -> dict[str, float]:
    """Strictly falling whole numbers: the library sorts them to exactly this order and meets no tie."""
    scores = {item_id: float(len(items) - place) for place, item_id in enumerate(items)}
    if len(scores) != len(items):
        twice = next(item_id for place, item_id in enumerate(items) if item_id in items[:place])
        raise InvalidRequestError(f"query {query_id!r}: item {twice!r} was found twice; rank each item once")
    return scores
