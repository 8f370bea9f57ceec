"""Evaluation: ask judged queries, and report quality and latency by variant of the search.

The search itself is passed in, so this module knows neither the database nor the legs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from retrieval.domain.errors import InvalidRequestError
from retrieval.jobs.judgements import DropSelf, Qrels, Query, WhereFrom, judged, where_for, without_item
from retrieval.jobs.metrics import Metric, measure
from retrieval.jobs.significance import Comparison, compare_by_query

FUSED = "fused"
"""The variant that is compared with each other one."""

DEFAULT_DEPTH = 100
"""Results asked for when a metric has no cutoff of its own."""

Progress = Callable[[int, int], None]
"""Called with the number of steps done and the number of all steps."""

Clock = Callable[[], float]
"""Seconds from any fixed point, never going back."""


class SearchFunction(Protocol):
    """One search as the evaluation needs it."""

    async def __call__(self, text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> Sequence[str]:
        """At most ``limit`` item ids, best first; ``variant`` is a leg's name or ``fused``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantReport:
    """How one variant did."""

    variant: str
    means: Mapping[str, float]
    """By metric name, over the judged queries."""
    per_query: Mapping[str, Mapping[str, float]]
    """By metric name and query id."""
    without_results: int
    """Queries that got nothing; they score 0."""
    median_ms: float
    p95_ms: float
    """Latencies as the caller felt them: with concurrency they include waiting for a connection."""

    def as_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """Plain values for JSON; the values by query on request."""
        plain: dict[str, Any] = {
            "variant": self.variant,
            "metrics": dict(self.means),
            "without_results": self.without_results,
            "median_ms": self.median_ms,
            "p95_ms": self.p95_ms,
        }
        if per_query:
            plain["per_query"] = {name: dict(values) for name, values in self.per_query.items()}
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an evaluation found."""

    metrics: tuple[str, ...]
    """As the user spelled them; the first is the one that was compared."""
    queries: int
    """Judged queries, each asked once a variant."""
    unjudged: int
    """Queries left out because no item is relevant to them."""
    variants: tuple[VariantReport, ...]
    comparisons: tuple[Comparison, ...]
    """``fused`` against each other variant on the first metric; empty without a fused variant."""

    def as_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """Plain values for JSON; the values by query on request."""
        return {
            "metrics": list(self.metrics),
            "queries": self.queries,
            "unjudged": self.unjudged,
            "variants": [variant.as_dict(per_query=per_query) for variant in self.variants],
            "comparisons": [comparison.as_dict() for comparison in self.comparisons],
        }


@dataclass(frozen=True, slots=True)
class _Ask:
    """One query as it is asked."""

    query_id: str
    text: str
    where: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class _Answer:
    item_ids: tuple[str, ...]
    seconds: float


async def evaluate(
    search: SearchFunction,
    queries: Sequence[Query],
    qrels: Qrels,
    *,
    metrics: Sequence[Metric],
    variants: Sequence[str],
    where_from: Sequence[WhereFrom] = (),
    drop_self: DropSelf | None = None,
    concurrency: int = 1,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
    rng: np.random.Generator | None = None,
) -> Report:
    """Ask every judged query once a variant, in the order of ``variants``, and measure the rankings.

    Each search is asked for as many results as the deepest metric looks at (100 for a metric without a
    cutoff). ``drop_self`` filters the query's own item out of the search, which ranks as if it did not exist. Input
    that cannot be measured raises ``InvalidRequestError`` before the first search; an error of a search ends
    the evaluation and is raised as it is. ``clock`` gives seconds; ``rng`` serves the significance tests.
    """
    _check(metrics, variants, concurrency)
    kept = judged(queries, qrels)
    if drop_self is not None:
        drop_self.check(kept)
    asks = [_ask(query, where_from, drop_self) for query in kept]
    asker = _Asker(search, _depth(metrics), clock)
    answers = await asker.ask_all(asks, variants, concurrency, progress)
    relevant = {query.query_id: qrels[query.query_id] for query in kept}
    reports = tuple(_variant_report(variant, answers[variant], relevant, metrics) for variant in variants)
    return Report(
        metrics=tuple(metric.name for metric in metrics),
        queries=len(kept),
        unjudged=len(queries) - len(kept),
        variants=reports,
        comparisons=_comparisons(reports, metrics[0].name, rng),
    )


@dataclass(frozen=True, slots=True)
class _Asker:
    """Puts queries to the search and times the answers."""

    search: SearchFunction
    depth: int
    clock: Clock

    async def ask_all(
        self, asks: Sequence[_Ask], variants: Sequence[str], concurrency: int, progress: Progress | None
    ) -> dict[str, dict[str, _Answer]]:
        """Answers by variant and query id."""
        total, done = len(variants) * len(asks), 0
        answers: dict[str, dict[str, _Answer]] = {variant: {} for variant in variants}
        # All workers draw from one iterator, which bounds the concurrency without a queue or a semaphore.
        pending = ((variant, ask) for variant in variants for ask in asks)

        async def work() -> None:
            nonlocal done
            for variant, ask in pending:
                answers[variant][ask.query_id] = await self._answer(ask, variant)
                done += 1
                if progress is not None:
                    progress(done, total)

        await _in_parallel(work, min(concurrency, total))
        return answers

    async def _answer(self, ask: _Ask, variant: str) -> _Answer:
        start = self.clock()
        found = await self.search(ask.text, where=ask.where, limit=self.depth, variant=variant)
        seconds = self.clock() - start
        return _Answer(tuple(found)[: self.depth], seconds)


def _check(metrics: Sequence[Metric], variants: Sequence[str], concurrency: int) -> None:
    if not metrics:
        raise InvalidRequestError("no metric given: give at least one, such as nDCG@10")
    if not variants or len(set(variants)) != len(variants):
        raise InvalidRequestError(f"variants are {list(variants)}; name at least one, each once")
    if concurrency < 1:
        raise InvalidRequestError(f"concurrency is {concurrency}; it must be at least 1")


def _depth(metrics: Sequence[Metric]) -> int:
    return max(DEFAULT_DEPTH if metric.cutoff is None else metric.cutoff for metric in metrics)


def _ask(query: Query, where_from: Sequence[WhereFrom], drop_self: DropSelf | None) -> _Ask:
    exclude = None if drop_self is None else drop_self.exclude_for(query)
    return _Ask(query.query_id, query.text, without_item(where_for(query, where_from), exclude))


async def _in_parallel(work: Callable[[], Coroutine[Any, Any, None]], workers: int) -> None:
    """Run that many workers to the end; the first error stops the others and is raised as it is."""
    first: Exception | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
    except ExceptionGroup as errors:
        first = errors.exceptions[0]
    # Raised outside the handler, so that the error keeps its own cause and context.
    if first is not None:
        raise first


def _variant_report(
    variant: str, answers: Mapping[str, _Answer], qrels: Qrels, metrics: Sequence[Metric]
) -> VariantReport:
    evaluation = measure({query_id: answer.item_ids for query_id, answer in answers.items()}, qrels, metrics)
    milliseconds = np.array([answer.seconds for answer in answers.values()]) * 1000
    median, p95 = np.percentile(milliseconds, [50, 95])
    return VariantReport(
        variant=variant,
        means=evaluation.means,
        per_query=evaluation.per_query,
        without_results=sum(not answer.item_ids for answer in answers.values()),
        median_ms=float(median),
        p95_ms=float(p95),
    )


def _comparisons(
    reports: Sequence[VariantReport], metric: str, rng: np.random.Generator | None
) -> tuple[Comparison, ...]:
    fused = next((report for report in reports if report.variant == FUSED), None)
    if fused is None:
        return ()
    ours = fused.per_query[metric]
    return tuple(
        compare_by_query(ours, other.per_query[metric], names=(FUSED, other.variant), rng=rng)
        for other in reports
        if other is not fused
    )
