"""Evaluation: runs judged queries, and reports quality and latency by variant of the search.

The library ``ir-measures`` makes the numbers comparable with published ones.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from statistics import fmean
from types import MappingProxyType
from typing import Any, Protocol

import ir_measures
import numpy as np

from retrieval.adapters.embedders.cached import patiently
from retrieval.adapters.store.items.items import read_items
from retrieval.domain.checks import is_whole
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.frozen import Frozen
from retrieval.domain.learning.context import Context
from retrieval.domain.search.profile import Profile, leg_name
from retrieval.domain.serialization import Serializable, plain
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.collection_search import search
from retrieval.engine.request import MAX_LIMIT
from retrieval.services.judgements import JudgedQuery, Qrels, judged, missing_items
from retrieval.services.significance import Comparison, compare

Run = Mapping[str, Sequence[str]]
"""Item ids by query id, best first, each at most once."""

DEFAULT_METRICS = "nDCG@10,R@100,MRR@10"
_EXAMPLES = "nDCG@10, R@100, MRR@10, AP, P@5, Success@1"
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as the user spelled it, and as ``ir-measures`` knows it."""

    name: str
    measure: ir_measures.Measure

    @property
    def limit(self) -> int:
        """The number of results that the metric uses: its cutoff, or 100 without one."""
        cutoff = self.measure.params.get("cutoff")
        return cutoff if isinstance(cutoff, int) else DEFAULT_DEPTH


def parse_metric(name: str) -> Metric:
    """The metric of that name: ``nDCG@10``, ``R@100``, ``MRR@10`` (the same as ``RR@10``), ``AP`` and so on.

    Raises ``InvalidRequestError`` for a metric that is unknown, malformed, or cannot be computed here.
    """
    spelled = name.strip()
    # ir-measures reports a bad name by whatever fails first: NameError, AssertionError and more.
    try:
        metric = Metric(spelled, ir_measures.parse_measure(spelled))
        usable = is_whole(metric.measure.params.get("cutoff", 1), 1)
    except Exception:  # noqa: BLE001
        usable = False
    if not usable:
        raise InvalidRequestError(f"unknown metric {spelled!r}: use names such as {_EXAMPLES}")
    try:
        # A package or program that is missing shows only on trying the provider.
        measure({"q": ["a"]}, {"q": {"a": 1}}, metric)
    except Exception as error:
        why = " ".join(str(error).split())
        raise InvalidRequestError(f"{spelled} cannot be computed here: {why}; use names such as {_EXAMPLES}") from error
    return metric


def parse_metrics(names: str | Sequence[str] = DEFAULT_METRICS) -> tuple[Metric, ...]:
    """Metrics from a comma-separated text or a sequence of names, in order, each once.

    Raises ``InvalidRequestError`` for an unknown metric, and where there is no metric.
    """
    parts = _COMMA_OUTSIDE_PARENTHESES.split(names) if isinstance(names, str) else names
    spelled = dict.fromkeys(part.strip() for part in parts if part.strip())
    if not spelled:
        raise InvalidRequestError(f"no metric given: use names such as {_EXAMPLES}")
    return tuple(parse_metric(name) for name in spelled)


def measure(run: Run, qrels: Qrels, metric: Metric) -> dict[str, float]:
    """The score of each query by the metric; most metrics are in [0, 1], higher is better.

    Every query of ``qrels`` counts; one without results scores 0. Queries of the run that are not judged are ignored.
    Raises ``InvalidRequestError`` for grades that the metric does not take.
    """
    _check_grades(qrels, metric)
    scores = dict.fromkeys(qrels, 0.0)
    asked = [key for key, items in run.items() if items and key in qrels]
    graded, scored = dict[str, dict[str, int]](), dict[str, dict[str, float]]()
    for number, key in enumerate(asked):
        items, grades = run[key], qrels[key]
        # Some providers take only numbers as ids of queries, and no spaces in those of items.
        ids = {item_id: str(place) for place, item_id in enumerate([*items, *grades])}
        # pytrec_eval crashes the process on a query whose grades are all below 0.
        graded[str(number)] = {ids[item_id]: max(grade, 0) for item_id, grade in grades.items()}
        # Strictly falling whole numbers: the library sorts them to exactly this order and meets no tie.
        scored[str(number)] = {ids[item_id]: float(len(items) - place) for place, item_id in enumerate(items)}
    if asked:
        for result in ir_measures.iter_calc([metric.measure], graded, scored):
            scores[asked[int(result.query_id)]] = float(result.value)
    return scores


_HIGHEST_GRADE = 4
"""The highest grade that gdeval takes, the provider of ERR and of nDCG with exponential gains."""


def _check_grades(qrels: Qrels, metric: Metric) -> None:
    if metric.measure.NAME != "ERR" and metric.measure.params.get("dcg") != "exp-log2":
        return
    highest = max((grade for grades in qrels.values() for grade in grades.values()), default=0)
    if highest > _HIGHEST_GRADE:
        raise InvalidRequestError(
            f"{metric.name} takes grades up to {_HIGHEST_GRADE}, and the judgements have {highest}: use smaller "
            "grades, or another metric, such as nDCG@10"
        )


FUSED = "fused"
"""The variant that is compared with each other one."""

DEFAULT_DEPTH = 100
"""Results asked for when a metric has no cutoff of its own."""

Progress = Callable[[int, int], None]
"""Called with the number of steps done and the number of all steps."""


class SearchFunction(Protocol):
    """One search as the evaluation needs it."""

    async def __call__(self, text: str, *, where: Any, limit: int, variant: str) -> Sequence[str]:
        """The item ids, best first, ``limit`` of them at most; ``variant`` is a leg's name or ``fused``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantReport(Serializable):
    """The measures of one variant."""

    serialized_names = MappingProxyType({"means": "metrics"})
    internal_fields = frozenset({"per_query"})

    variant: str
    means: Mapping[str, float]
    """The means over the judged queries, by metric name."""
    per_query: Mapping[str, Mapping[str, float]]
    """The values by metric name and query id."""
    without_results: int
    """Queries without results; they score 0."""
    median_ms: float
    p95_ms: float
    """Latencies of the searches of the first metric, as the caller saw them."""

    def as_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """Plain values for JSON; the values by query on request."""
        return {**Serializable.as_dict(self), **({"per_query": plain(self.per_query)} if per_query else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Serializable):
    """The result of an evaluation."""

    metrics: tuple[str, ...]
    """The metrics' names as the user spelled them; variants are compared on the first."""
    queries: int
    """Judged queries, each asked of each variant."""
    unjudged: int
    """Queries left out because no item is relevant to them."""
    variants: tuple[VariantReport, ...]
    comparisons: tuple[Comparison, ...]
    """``fused`` against each other variant on the first metric; empty without a fused variant."""
    notes: Mapping[str, int] = field(default_factory=Frozen)
    """The searches' notes, such as a leg that could not run, and the number of searches with each."""

    def as_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """Plain values for JSON; the values by query on request."""
        variants = [variant.as_dict(per_query=per_query) for variant in self.variants]
        return {**Serializable.as_dict(self), "variants": variants}


async def evaluate(
    search: SearchFunction,
    queries: Sequence[JudgedQuery],
    qrels: Qrels,
    *,
    metrics: Sequence[Metric],
    variants: Sequence[str],
    progress: Progress | None = None,
) -> Report:
    """Ask every judged query of each variant, in the order of ``variants``, and measure the rankings.

    Each metric is that of a search for as many results as it uses (100 for a metric without a cutoff), because a search
    for more results compares more candidates, and may rank the first ones otherwise. Raises ``InvalidRequestError`` if
    no query is judged, and the first error of a search.
    """
    judged_queries = judged(queries, qrels)
    for metric in metrics:
        _check_grades(qrels, metric)
    limits = list(dict.fromkeys(metric.limit for metric in metrics))
    rankings = {variant: {limit: dict[str, Sequence[str]]() for limit in limits} for variant in variants}
    seconds = {variant: list[float]() for variant in variants}
    for done, (variant, query) in enumerate(product(variants, judged_queries), 1):
        for limit in limits:
            start = time.perf_counter()
            item_ids = await search(query.text, where=query.where, limit=limit, variant=variant)
            if limit == limits[0]:
                seconds[variant].append(time.perf_counter() - start)
            rankings[variant][limit][query.query_id] = item_ids[:limit]
        if progress is not None:
            progress(done, len(variants) * len(judged_queries))
    relevant = {query.query_id: qrels[query.query_id] for query in judged_queries}
    reports = {
        variant: _variant_report(variant, rankings[variant], seconds[variant], relevant, metrics)
        for variant in variants
    }
    return Report(
        metrics=tuple(metric.name for metric in metrics),
        queries=len(judged_queries),
        unjudged=len(queries) - len(judged_queries),
        variants=tuple(reports.values()),
        comparisons=_comparisons(reports, metrics[0].name),
    )


def _variant_report(
    variant: str, rankings: Mapping[int, Run], seconds: Sequence[float], qrels: Qrels, metrics: Sequence[Metric]
) -> VariantReport:
    per_query = {metric.name: measure(rankings[metric.limit], qrels, metric) for metric in metrics}
    median, p95 = np.percentile(np.array(seconds) * 1000, [50, 95])
    return VariantReport(
        variant=variant,
        means={name: fmean(values.values()) for name, values in per_query.items()},
        per_query=per_query,
        without_results=sum(not item_ids for item_ids in next(iter(rankings.values())).values()),
        median_ms=float(median),
        p95_ms=float(p95),
    )


def _comparisons(reports: Mapping[str, VariantReport], metric: str) -> tuple[Comparison, ...]:
    if FUSED not in reports:
        return ()
    ours = reports[FUSED].per_query[metric]
    others = {name: report.per_query[metric] for name, report in reports.items() if name != FUSED}
    pairs = {name: (list(ours.values()), [values[key] for key in ours]) for name, values in others.items()}
    return tuple(compare(*pair, names=(FUSED, name)) for name, pair in pairs.items())


async def evaluate_collection(
    handle: CollectionHandle,
    queries: Sequence[JudgedQuery],
    qrels: Qrels,
    *,
    metrics: Sequence[Metric],
    legs: Sequence[str] | None = None,
    profile: Profile | None = None,
    progress: Progress | None = None,
) -> Report:
    """Ask the judged queries of each leg alone and, where there are several, of their fusion; nothing is recorded.

    ``profile``: the profile to measure; None: the active one. ``legs`` restricts it; None takes the legs to which it
    gives a weight. Raises what ``evaluate`` raises, and ``InvalidRequestError`` for a metric that uses more than 1000
    results, and for judgements none of whose items is in the collection. The legs come first, so that a leg that cannot
    run is reported at once. The evaluation waits for a slow embedder or reranker, because an answer without it would
    count as the profile's.
    """
    for metric in metrics:
        if metric.limit > MAX_LIMIT:
            raise InvalidRequestError(
                f"{metric.name} looks at {metric.limit} results and a search gives at most {MAX_LIMIT}; "
                "use a smaller cutoff"
            )
    chosen = chosen_legs(profile or handle.stored.profile, legs)
    notes: Counter[str] = Counter()
    place = await handle.place()
    if (missing := await missing_items(partial(read_items, place), judged(queries, qrels), qrels)) is not None:
        notes[missing] += 1
    search_by = partial(search, handle.unrecorded(), context=Context(), profile=profile, syntax=False)

    async def ask(text: str, *, where: Any, limit: int, variant: str) -> Sequence[str]:
        with patiently():
            result = await search_by(text, where=where, limit=limit, legs=legs if variant == FUSED else (variant,))
        if limit == metrics[0].limit:
            notes.update(result.notes)
        return [hit.item_id for hit in result]

    variants = chosen if len(chosen) == 1 else (*chosen, FUSED)
    report = await evaluate(ask, queries, qrels, metrics=metrics, variants=variants, progress=progress)
    return replace(report, notes=Frozen(notes))


def chosen_legs(profile: Profile, legs: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the legs asked for; by default those to which the profile gives a weight.

    Raises ``InvalidProfileError`` for a leg that does not exist.
    """
    if legs is None:
        return tuple(leg for leg, weight in profile.legs.items() if weight)
    return tuple(dict.fromkeys(leg_name(leg).value for leg in legs))
