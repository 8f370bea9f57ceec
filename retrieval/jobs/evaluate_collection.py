"""Evaluating a collection: its profile's search and each leg alone, on the same judged queries."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from retrieval.adapters.embedders.cached import patiently
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.hit import SearchResult
from retrieval.domain.profile import Profile, leg_name
from retrieval.engine.request import MAX_LIMIT
from retrieval.jobs.evaluate import FUSED, Clock, Progress, Report, evaluate
from retrieval.jobs.judgements import DropSelf, Qrels, Query, WhereFrom
from retrieval.jobs.metrics import Metric


class SearchableCollection(Protocol):
    """What evaluation needs of a collection; ``retrieval.Collection`` is one."""

    @property
    def profile(self) -> Profile:
        """The profile that answers."""

    async def search(
        self, query: str, *, where: dict[str, Any] | None, limit: int, legs: Sequence[str] | None, syntax: bool
    ) -> SearchResult:
        """The best hits; ``legs`` are those to use, None all of the profile's; ``syntax``: quotes mean phrases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionReport:
    """What the evaluation of a collection found."""

    report: Report
    notes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """What searches had to say, such as a leg that could not run, and how many said it."""

    def as_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """Plain values for JSON; the values by query on request."""
        return {**self.report.as_dict(per_query=per_query), "notes": dict(self.notes)}


async def evaluate_collection(
    collection: SearchableCollection,
    queries: Sequence[Query],
    qrels: Qrels,
    *,
    metrics: Sequence[Metric],
    legs: Sequence[str] | None = None,
    where_from: Sequence[WhereFrom] = (),
    drop_self: DropSelf | None = None,
    concurrency: int = 1,
    progress: Progress | None = None,
    clock: Clock = time.perf_counter,
    rng: np.random.Generator | None = None,
) -> CollectionReport:
    """Ask the judged queries of each leg alone and, where there are several, of their fusion.

    ``legs`` restricts the profile; None takes the legs that it gives a weight. The other arguments, and what
    is raised, are as in ``retrieval.jobs.evaluate.evaluate``; a metric that looks deeper than 1000 results
    raises ``InvalidRequestError`` too. The legs come first: one that cannot run is reported at once. An embedder
    that is slow is waited for: an answer without its leg would be measured as the collection's.
    """
    _check_depth(metrics)
    chosen = chosen_legs(collection.profile, legs)
    notes: Counter[str] = Counter()

    async def search(text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> Sequence[str]:
        asked = legs if variant == FUSED else (variant,)
        with patiently():
            result = await collection.search(text, where=where, limit=min(limit, MAX_LIMIT), legs=asked, syntax=False)
        notes.update(result.notes)
        return [hit.item_id for hit in result]

    report = await evaluate(
        search,
        queries,
        qrels,
        metrics=metrics,
        variants=chosen if len(chosen) == 1 else (*chosen, FUSED),
        where_from=where_from,
        drop_self=drop_self,
        concurrency=concurrency,
        progress=progress,
        clock=clock,
        rng=rng,
    )
    return CollectionReport(report=report, notes=MappingProxyType(dict(notes)))


def chosen_legs(profile: Profile, legs: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the legs asked for, else of those that the profile gives a weight.

    Raises ``InvalidProfileError`` for a leg that does not exist.
    """
    if legs is None:
        return tuple(leg for leg, weight in profile.legs.items() if weight)
    return tuple(dict.fromkeys(leg_name(leg).value for leg in legs))


def _check_depth(metrics: Sequence[Metric]) -> None:
    for metric in metrics:
        if metric.cutoff is not None and metric.cutoff > MAX_LIMIT:
            raise InvalidRequestError(
                f"{metric.name} looks at {metric.cutoff} results and a search gives at most {MAX_LIMIT}; "
                "use a smaller cutoff"
            )
