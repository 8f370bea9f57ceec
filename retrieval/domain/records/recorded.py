"""A recorded search as it is read and shown: its record, and all that follows from the record. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import repeat
from typing import Any
from uuid import UUID

from retrieval.domain.checks import clean_text
from retrieval.domain.learning.context import Context
from retrieval.domain.records.search_record import TOTAL, USUAL, Impression, Matrix, RecordedHit, SearchRecord
from retrieval.domain.records.slate import Slot
from retrieval.domain.search.diversity import REFINING, from_steps
from retrieval.domain.search.fusion import fused_again, leg_features_again, on_unit_scale, values_again
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.reranking import RERANK, reranked_scores
from retrieval.domain.serialization import Serializable

PoolColumn = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPool:
    """The part of a recorded search that another policy needs to answer it. Columns follow ``item_ids``."""

    retrieval_id: UUID
    limit: int
    profile_version: int
    """0: the call's own."""
    is_grouped: bool
    """True if only the best of each group was shown."""
    is_continued: bool = False
    """True if it was a further page of a search."""
    has_least: bool = False
    """True if no hit below a least score or relevance of the request was shown."""
    origin: str = ""
    """The part of an application that composed the answer; empty: a search."""
    seed: int
    item_ids: Sequence[str]
    scores: Mapping[str, PoolColumn]
    """The legs' own scores; None for items that the leg did not return."""
    ranks: Mapping[str, Sequence[int | None]] = field(default_factory=dict)
    """The candidates' ranks in the legs, from 1."""
    profile: Profile | None = None
    """The profile that answered; None: not known."""
    bests: Mapping[str, float] = field(default_factory=dict)
    """The score that a weighted sum takes as 1, by leg."""
    rerank: PoolColumn = ()
    """The reranker's scores; None for items that it was not sent; empty: no reranker answered."""
    reranker: str = ""
    """The reranker's name; empty: no reranker answered."""
    learned: PoolColumn = ()
    """The learned rewards; empty: none counted."""
    effective_sample_size: PoolColumn = ()
    logit_mean: PoolColumn = ()
    affinity: PoolColumn = ()
    """The affinity of the query to the queries that each item was rewarded for; empty: no logit stack was used."""
    length: PoolColumn = ()
    """The logarithm of each item's length; empty: no logit stack counted."""
    model_version: int = 0
    """0: nothing learned counted."""
    eligible: PoolColumn = ()
    """1: Thompson slots may pick it; empty: eligibility was not checked."""
    uses: PoolColumn = ()
    raw_successes: PoolColumn = ()
    propensity: PoolColumn = ()
    """The probability of each item to be shown; empty: the shown items were certain, all others impossible."""
    shown: Mapping[str, float] = field(default_factory=dict)
    """The propensity of each item that was shown."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """The reward of each item that was shown; unrated items are missing."""


def columns_of(signals: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a pool, by the names of their fields, from the ``pool_signals`` of a record."""
    learned = ("learned", "effective_sample_size", "logit_mean", "affinity", "length")
    names = (RERANK, *learned, "eligible", "uses", "raw_successes")
    return {
        "scores": signals.get("legs", {}),
        "ranks": signals.get("ranks", {}),
        "bests": signals.get("bests", {}),
        "propensity": signals.get("propensity", ()),
        **{name: signals.get(name, ()) for name in names},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSearch(SearchRecord):
    """A record with the values computed from it. Its ``request`` and its ``timings_ms`` are complete."""

    pool_signals: Mapping[str, Any]
    """The candidates' signals by name, each in the order of ``pool_items``.

    - ``legs``: raw scores by leg, None for an item that the leg lacks; ``ranks``: the ranks, likewise. If the search
      was refined, both contain ``refining``.
    - ``bests``: by leg, the score that a weighted sum takes as 1.
    - Each of the ``measures``.
    - ``relevance``, ``scaled`` (the relevance from 0 to 1) and ``score``, unless their profile is gone."""
    impressions: Sequence[Impression]


def recorded_search(record: SearchRecord, profile: Profile | None) -> RecordedSearch:
    """The record with what follows from it and from the profile; without one, signals lack weights and values."""
    stored = {column.name: getattr(record, column.name) for column in fields(SearchRecord)}
    signals = pool_signals_of(
        legs=record.legs,
        bests=record.bests,
        brought=record.brought,
        scores=record.pool_scores,
        ranks=record.pool_ranks,
        items=record.pool_items,
        likeness=record.pool_likeness,
        measured=dict(zip(record.measures, record.pool_values, strict=False)),
        profile=profile,
    )
    return RecordedSearch(
        **{
            **stored,
            "request": {**USUAL, **record.request},
            "timings_ms": {**record.timings_ms, TOTAL: record.retrieval_time_ms},
        },
        pool_signals=signals,
        impressions=_impressions(record, signals, profile),
    )


def pool_signals_of(
    *,
    legs: Sequence[str],
    bests: Sequence[float],
    brought: Sequence[int],
    scores: Matrix,
    ranks: Sequence[Sequence[int]],
    items: Sequence[str],
    likeness: Sequence[int] | None,
    measured: Mapping[str, Sequence[float | None]],
    profile: Profile | None,
) -> dict[str, Any]:
    """``RecordedSearch.pool_signals`` of a record's columns; ``measured``: the values of its measures by name."""
    most = dict(zip(legs, brought or repeat(math.inf), strict=False))
    signals: dict[str, Any] = {
        "legs": {leg: list(row) for leg, row in zip(legs, scores or repeat(()), strict=False)},
        "ranks": {
            leg: [rank if 0 < rank <= most[leg] else None for rank in row]
            for leg, row in zip(legs, ranks or repeat(()), strict=False)
        },
        "bests": dict(zip(legs, bests, strict=True)),
        **measured,
    }
    if likeness is not None:
        alike = from_steps(likeness)
        signals["legs"][REFINING], signals["ranks"][REFINING] = alike, _ranks(alike, items)
        signals["bests"][REFINING] = 1.0
    if "relevance" in measured:
        return {**signals, "scaled": measured["relevance"]}
    if profile is None and legs:
        return signals
    profile, columns = profile or Profile(), signals["legs"]
    relevance = fused_again(columns, signals["ranks"], signals["bests"], profile.weights_of(columns), profile.fusion)
    scaled = on_unit_scale(relevance, signals["bests"], profile) if relevance else []
    if RERANK in signals and profile.rerank is not None:
        relevance = scaled = reranked_scores(scaled, signals[RERANK], profile.rerank.weight)
    return {"score": relevance, **signals, "relevance": relevance, "scaled": scaled}


def _ranks(values: Sequence[float | None], items: Sequence[str]) -> list[int | None]:
    """The rank of each value, from 1; equal values are ordered by item id."""
    known = sorted((-value, item, index) for index, (value, item) in enumerate(zip(values, items, strict=True))
                   if value is not None)  # fmt: skip
    ranks: list[int | None] = [None] * len(values)
    for rank, (_, _, index) in enumerate(known, 1):
        ranks[index] = rank
    return ranks


def _impressions(record: SearchRecord, signals: Mapping[str, Any], profile: Profile | None) -> list[Impression]:
    shown = record.shown_signals
    if isinstance(shown, Mapping):
        score_parts: Sequence[Mapping[str, Any]] = _stack_parts(record, signals, shown)
    else:
        score_parts = shown or _parts(record, signals, profile)
    propensities = record.propensities or repeat(1.0)
    columns: dict[str, Iterable[Any]] = {
        "item_id": record.shown_items,
        "score": record.shown_scores,
        "signals": score_parts,
        "slot": map(Slot, record.shown_slots or repeat(Slot.EXPLOIT)),
        "propensity": propensities,
        "rank_propensity": record.rank_propensities or propensities,
        "pulls": record.pulls or repeat(0.0),
    }
    rows = zip(*columns.values(), strict=False)
    return [Impression(rank=rank, **dict(zip(columns, row, strict=True))) for rank, row in enumerate(rows, 1)]


def _parts(record: SearchRecord, signals: Mapping[str, Any], profile: Profile | None) -> list[dict[str, Any]]:
    """The parts of each hit's score, as ``retrieval.domain.search.fusion.fuse`` makes them."""
    index_of = {item_id: index for index, item_id in enumerate(record.pool_items)}
    legs = signals["legs"]
    ranks = {**signals["ranks"], **dict(zip(record.legs, record.pool_ranks, strict=False))}
    # As explanations name them: the weight of one leg alone is 1.
    is_alone = len(legs) == 1 and profile is not None and not profile.signals
    weights = dict.fromkeys(legs, 1.0) if is_alone else profile.weights_of(legs) if profile else {}
    values = {} if profile is None else values_again(legs, ranks, signals["bests"], weights, profile.fusion)
    return [
        {
            leg: {"rank": ranks[leg][index], "raw": raw}
            | ({"weight": weights[leg], "value": values[leg][index]} if values else {})
            for leg, scores in legs.items()
            if index is not None and (raw := scores[index]) is not None
        }
        for index in map(index_of.get, record.shown_items)
    ]


_OF_STACK = {"relevance": "scaled", "learned": "logit_mean", "affinity": "affinity", "length": "length"}
"""The signals of a logit stack beside the legs, each with the name of its values in ``pool_signals``."""


def _stack_parts(
    record: SearchRecord, signals: Mapping[str, Any], weights: Mapping[str, float]
) -> list[dict[str, dict[str, Any]]]:
    """The parts of each hit's score as a stack of those weights makes them."""
    # A candidate that the stack did not score has no length.
    scored = [index for index, length in enumerate(signals["length"]) if length is not None]
    values = {name: signals[column] for name, column in _OF_STACK.items() if column in signals}
    values |= leg_features_again(signals["legs"], signals["bests"])
    parts: list[dict[str, dict[str, Any]]] = [{} for _ in record.pool_items]
    for name, column in values.items():
        if name not in weights:
            continue
        for rank, index in enumerate(sorted(scored, key=lambda index: -column[index]), 1):
            raw, weight = column[index], weights[name]
            parts[index][name] = {"rank": rank, "raw": raw, "weight": weight, "value": weight * raw}
    by_id = dict(zip(record.pool_items, parts, strict=True))
    return [by_id[item_id] for item_id in record.shown_items]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalSummary(Serializable):
    """A recorded search in a list."""

    retrieval_id: UUID
    retrieved_at: datetime
    query: str
    origin: str
    """The part of an application that composed the answer; empty: a search."""
    actor: str
    session: str
    domain: str
    profile_version: int
    """0: the call brought its own profile, or an application composed the answer."""
    path: str
    hits: int
    top_score: float | None
    """The first hit's score; None without hits."""
    retrieval_time_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRetrieval(Serializable):
    """A recorded search with its impressions."""

    retrieval_id: UUID
    retrieved_at: datetime
    collection: str
    origin: str
    """The part of an application that composed the answer; empty: a search."""
    query: str
    is_by_vector: bool
    """True if the caller gave a vector; otherwise the words were embedded."""
    where: Mapping[str, Any]
    """The filter; empty: none."""
    request: Mapping[str, Any]
    """The rest of the request, such as ``limit``, ``group_by`` and the call's own ``profile``."""
    context: Context
    profile_version: int
    """0: the call brought its own profile, or an application composed the answer."""
    model_version: int
    """The version of the learned reward; 0: nothing learned counted."""
    policy: str
    """Name and version of the exploration policy, such as ``off/1``."""
    path: str
    notes: Sequence[str]
    timings_ms: Mapping[str, float]
    retrieval_time_ms: float
    candidates: int
    """The number of candidates on record, for replay and comparisons."""
    impressions: Sequence[Impression]
    """The items that were shown, by rank; those of a further page without the pages before it."""


def retrieval_of(recorded: RecordedSearch, collection: str) -> RecordedRetrieval:
    """The record as callers see it; ``collection`` is the name of its collection."""
    names = {column.name for column in fields(RecordedRetrieval)} & {column.name for column in fields(RecordedSearch)}
    common = {name: getattr(recorded, name) for name in names}
    return RecordedRetrieval(
        **common | {"impressions": recorded.impressions[recorded.request["continued"] :]},
        collection=collection,
        origin=recorded.origin,
        is_by_vector=recorded.vector is not None,
        where=recorded.condition,
        context=context_of(recorded),
        candidates=len(recorded.pool_items),
    )


def context_of(recorded: RecordedSearch) -> Context:
    """The situation that the search was recorded with, without characters that only an imported record can hold."""
    return Context(
        domain=clean_text(recorded.domain),
        complexity=recorded.complexity,
        actor=clean_text(recorded.actor),
        session=clean_text(recorded.session),
        backtracks=recorded.backtrack_count,
        generated=recorded.generation_triggered,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """A search, or an answer that an application composed."""

    retrieval_id: UUID
    retrieved_at: datetime
    origin: str
    """The origin that ``Collection.record_answer`` was given; empty: a search."""
    query: str
    hits: tuple[RecordedHit, ...]
    """By rank; those of a further page without the pages before it."""
