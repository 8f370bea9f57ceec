"""The record of a search: conversion of the request to plain JSON values and back, and the answer. Pure."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import repeat
from operator import itemgetter
from typing import Any
from uuid import UUID

import numpy as np

from retrieval.adapters.store.records.recording_statement import encoded
from retrieval.adapters.store.search.candidate_request import Query
from retrieval.adapters.store.search.candidates import LegResults
from retrieval.domain.errors import InvalidFilterError
from retrieval.domain.learning.context import Context
from retrieval.domain.records import search_record
from retrieval.domain.records.recorded import RecordedSearch
from retrieval.domain.records.retrieval_id import time_of
from retrieval.domain.records.search_record import PLAIN, ComposedAnswer, SearchRecord
from retrieval.domain.records.slate import BY_SCORE, Placed
from retrieval.domain.search.diversity import REFINING, in_steps
from retrieval.domain.search.filters import And, Contains, Filter, Not, as_mapping, field_name, parse_field, parse_where
from retrieval.domain.search.fusion import Candidate, Fused, on_unit_scale
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.reranking import RERANK, Scored, reranked_scores
from retrieval.engine.plan import SearchPlan
from retrieval.engine.ranking import bests_of, signals_of
from retrieval.engine.request import SearchRequest, checked_preferred

_log = logging.getLogger(__name__)


def recorded_request(request: SearchRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """The filter as a mapping, empty without one, and the request without its words and vector, as plain JSON values.

    The request has ``is_whole``: whether the filters could be serialized. ``preferred`` is a list if there are several.
    If the caller gave ``about``, it has its numbers with four digits. The record adds the ``reranker`` that answered,
    the ``space_id`` of a caller's vector, and as ``continued`` the number of the first hits that earlier pages showed.
    """
    condition, phrases, excluded = _split_condition(request.condition)
    mapping, preferred = _mapping(condition), [_mapping(filter_) for filter_ in request.preferred]
    return (
        mapping or {},
        {
            "limit": request.limit,
            "group_by": None if request.group_by is None else field_name(request.group_by),
            "prefixes": list(request.prefixes),
            "phrases": phrases,
            "excluded": excluded,
            "profile": None if request.profile is None else request.profile.as_dict(),
            "is_whole": mapping is not None and None not in preferred,
            "rewrites": list(request.rewrites),
            "preferred": preferred if len(preferred) > 1 else next(iter(preferred), None) or {},
            "entities": sorted(map(list, request.entities)),
            "tags": sorted(request.tags),
            "as_of": None if request.as_of is None else request.as_of.isoformat(),
            **{name: getattr(request, name) for name in PLAIN},
            **({} if request.about is None else {"about": [round(number, 4) for number in request.about.tolist()]}),
        },
    )


def request_of(recorded: RecordedSearch) -> SearchRequest | None:
    """The recorded request; None where its filter could not be serialized."""
    request, preferred = recorded.request, recorded.request["preferred"]
    if not request["is_whole"]:
        return None
    return SearchRequest(
        query=recorded.query,
        vector=None if recorded.vector is None else np.asarray(recorded.vector, dtype=np.float32),
        limit=request["limit"],
        condition=filter_of(recorded.condition, request),
        profile=None if request["profile"] is None else Profile.from_dict(request["profile"]),
        group_by=None if request["group_by"] is None else parse_field(request["group_by"]),
        prefixes=tuple(request["prefixes"]),
        rewrites=tuple(request["rewrites"]),
        preferred=checked_preferred(list(map(parse_where, preferred if isinstance(preferred, list) else [preferred]))),
        entities=frozenset((kind, entity_id) for kind, entity_id in request["entities"]),
        tags=frozenset(request["tags"]),
        as_of=None if request["as_of"] is None else datetime.fromisoformat(request["as_of"]),
        about=np.asarray(request["about"], dtype=np.float32) if "about" in request else None,
        **{name: request[name] for name in PLAIN},
    )


def filter_of(condition: Mapping[str, Any], request: Mapping[str, Any]) -> Filter | None:
    """The filter of a recorded request, with the phrases that an item must contain and must not; None: there is none.

    It is incomplete unless ``request["is_whole"]``.
    """
    parts: list[Filter] = [parsed for parsed in (parse_where(condition),) if parsed is not None]
    parts += [Contains(phrase) for phrase in request["phrases"]]
    parts += [Not(Contains(phrase)) for phrase in request["excluded"]]
    return And(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None


def _split_condition(condition: Filter | None) -> tuple[Filter | None, list[str], list[str]]:
    """The filter without phrases, the phrases that an item must contain, and those that it must not."""
    parts = condition.filters if isinstance(condition, And) else () if condition is None else (condition,)
    others: list[Filter] = []
    phrases, excluded = list[str](), list[str]()
    for part in parts:
        match part:
            case Contains(text):
                phrases.append(text)
            case Not(Contains(text)):
                excluded.append(text)
            case _:
                others.append(part)
    if not (phrases or excluded):
        return condition, phrases, excluded
    return (And(tuple(others)) if len(others) > 1 else others[0] if others else None), phrases, excluded


def _mapping(condition: Filter | None) -> dict[str, Any] | None:
    """The filter as a mapping; None for a filter on the text itself, or one that is nested too deeply."""
    if condition is None:
        return {}
    try:
        mapping = as_mapping(condition)
        parse_where(mapping)
    except (ValueError, InvalidFilterError, RecursionError):
        return None
    return mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """The inputs of learning and exploration, as recorded; by default there was no model and no exploration."""

    model_version: int = 0
    policy: str = search_record.NO_POLICY
    statistics_at: datetime | None = None
    """The time as of which the arms were read; None: no arms were read."""
    cluster: int | None = None
    eligible: int = 0
    pulls: Mapping[str, float] = field(default_factory=dict)
    """The decayed number of events by item id; a missing item has no events."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """The final score by item id, where it differs from the relevance."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weights by signal of the logit stack; empty: no stack computed the scores."""
    signals: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """The pool's signals besides relevance and legs, by name and item id."""

    def explored(self, policy: str, propensity: Mapping[str, float]) -> DecisionRecord:
        """The same inputs and a slate drawn by a policy; ``propensity``: the probability to be shown, by item id."""
        return replace(self, policy=policy, signals={**self.signals, "propensity": propensity})


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredSearch:
    """An answered search with everything that its record needs."""

    retrieval_id: UUID
    collection_id: int
    profile_version: int | None
    """None: the call had its own profile."""
    request: SearchRequest
    context: Context
    plan: SearchPlan
    query: Query
    leg_results: LegResults
    """The candidates of the ranking."""
    ranked: Sequence[Fused]
    """The candidates in the order of fusion, as many as the profile's recording keeps."""
    shown: Sequence[Fused]
    """The hits in order, without their items."""
    slate: Sequence[Placed] = ()
    """The slots of the hits; a hit without a slot is placed by its score."""
    timings_ms: Mapping[str, float]
    seed: int
    decision: DecisionRecord = DecisionRecord()
    reranked: Scored | None = None
    """The reranker's scores of the candidates; None: the candidates were not reranked."""
    continued: int = 0
    """The number of the first hits that earlier pages showed."""

    def record(self) -> SearchRecord:
        """The complete record of the search."""
        decision = self.decision
        retrieved_at = time_of(self.retrieval_id)
        condition, request = recorded_request(self.request)
        request["continued"] = self.continued
        if self.reranked is not None:
            request["reranker"] = self.reranked.reranker
        if self.request.vector is not None or self.request.about is not None:
            request["space_id"] = self.plan.request.space_id
        vector = self.query.vector if self.request.vector is not None else None
        return SearchRecord(
            collection_id=self.collection_id,
            retrieval_id=self.retrieval_id,
            retrieved_at=retrieved_at,
            cluster=decision.cluster,
            query=self.request.query,
            vector=None if vector is None else array("f", vector.tobytes()),
            condition=condition,
            request=search_record.unusual(request),
            profile_version=self.profile_version or 0,
            model_version=decision.model_version,
            policy=decision.policy,
            statistics_at=decision.statistics_at or retrieved_at,
            seed=self.seed,
            eligible=decision.eligible,
            path=self.leg_results.path.value,
            notes=self.plan.notes,
            timings_ms={stage: ms for stage, ms in self.timings_ms.items() if stage != search_record.TOTAL},
            retrieval_time_ms=self.timings_ms[search_record.TOTAL],
            **search_record.context_columns(self.context),
            **_pool(self),
            **_shown(self),
        )


@dataclass(frozen=True, slots=True)
class EncodedRecord:
    """The record of a search encoded as a row, which takes less memory than the search."""

    retrieval_id: UUID
    collection_id: int
    row: bytes | None
    """None: the record could not be encoded."""


Recordable = AnsweredSearch | ComposedAnswer | EncodedRecord
"""What the recorder stores."""


def encoded_record(answered: Recordable) -> EncodedRecord:
    """The encoded record, unless it is encoded already."""
    if isinstance(answered, EncodedRecord):
        return answered
    row: bytes | None = None
    try:
        row = encoded(answered.record())
    except Exception:  # noqa: BLE001 - a search must not fail because of its record
        _log.warning("the record of a search could not be encoded", exc_info=True)
    return EncodedRecord(answered.retrieval_id, answered.collection_id, row)


def _pool(answered: AnsweredSearch) -> dict[str, Any]:
    """The columns of the candidates."""
    # Each leg has about a hundred candidates, so map handles them, without a Python loop.
    leg_results, items = answered.leg_results, list(map(_FUSED_ID, answered.ranked))
    legs = {name: ranking for name, ranking in leg_results.rankings.items() if name != REFINING}
    rows = [_in_order_of(ranking, items) for ranking in legs.values()]
    likeness = leg_results.rankings.get(REFINING)
    brought, bests = leg_results.brought, bests_of(leg_results)
    columns = _signal_columns(answered, bests)
    return {
        "legs": list(legs),
        "bests": [bests[leg] for leg in legs],
        "brought": [brought.get(leg, len(ranking)) for leg, ranking in legs.items()] if brought else (),
        "pool_items": items,
        "pool_scores": [list(map(_SCORE, row)) for row in rows],
        "pool_ranks": [list(map(_RANK, row)) for row in rows],
        "pool_likeness": None if likeness is None else in_steps(map(_SCORE, _in_order_of(likeness, items))),
        "measures": list(columns),
        "pool_values": list(columns.values()),
    }


def _in_order_of(ranking: Sequence[Candidate], items: Sequence[str]) -> list[tuple[Any, ...]]:
    """The ranking's candidates in the order of the items."""
    return list(map(dict(zip(map(_ITEM_ID, ranking), ranking, strict=True)).get, items, repeat(_UNKNOWN)))


_UNKNOWN: tuple[Any, ...] = ("", "", 0, None)
"""The values of a candidate that a leg did not find."""
_FUSED_ID, _ITEM_ID, _RANK, _SCORE = map(itemgetter, range(4))


def _signal_columns(answered: AnsweredSearch, bests: Mapping[str, float]) -> dict[str, list[float | None]]:
    """The signals of reranking, learning and exploration by name, and the final score."""
    decision, profile, ranked = answered.decision, answered.plan.profile, answered.ranked
    columns: dict[str, list[float | None]] = {
        name: [values.get(hit.item_id) for hit in ranked] for name, values in decision.signals.items()
    }
    relevances = [hit.score for hit in ranked]
    if answered.reranked is not None and profile.rerank is not None:
        columns[RERANK] = scores = [answered.reranked.scores.get(hit.item_id) for hit in ranked]
        own = on_unit_scale(relevances, bests, profile)
        relevances = reranked_scores(own, scores, profile.rerank.weight)
    if decision.scores or RERANK in columns:
        columns["score"] = [
            decision.scores.get(hit.item_id, relevance) for hit, relevance in zip(ranked, relevances, strict=True)
        ]
    return columns


def _shown(answered: AnsweredSearch) -> dict[str, Any]:
    """The columns of the hits. The parts of their scores are stored where they do not follow from the pool."""
    hits, ranked, decision, pulls = answered.shown, answered.ranked, answered.decision, answered.decision.pulls
    placed_by_id = {placed.item_id: placed for placed in answered.slate}
    each = [placed_by_id.get(hit.item_id, BY_SCORE) for hit in hits]
    # Ranks follow from the pool only if it has every candidate with a likeness or a score of the stack.
    others = len(decision.scores) or len(answered.leg_results.rankings.get(REFINING, ()))
    is_whole = others <= len(ranked) and answered.reranked is None and bool(decision.weights or not decision.scores)
    is_plain = is_whole and {hit.item_id for hit in hits}.issubset(map(_FUSED_ID, ranked))
    signals = (dict(decision.weights) or None) if is_plain else [signals_of(hit.contributions) for hit in hits]
    return {
        **search_record.shown_columns(
            items=[hit.item_id for hit in hits],
            scores=[hit.score for hit in hits],
            slots=[placed.slot for placed in each],
            propensities=[placed.propensity for placed in each],
            rank_propensities=[placed.rank_propensity for placed in each],
            pulls=[pulls.get(hit.item_id, 0.0) for hit in hits] if pulls else (),
        ),
        "shown_signals": signals,
    }
