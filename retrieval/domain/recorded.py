"""A recorded search as it is read: its record, and all that follows from the record. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import repeat
from typing import Any

from retrieval.domain.fusion import fused_again, values_again
from retrieval.domain.profile import Profile
from retrieval.domain.refining import REFINING, from_steps
from retrieval.domain.relevance import on_unit_scale
from retrieval.domain.search_record import TOTAL, USUAL, Impression, Matrix, SearchRecord
from retrieval.domain.slate import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSearch(SearchRecord):
    """A record with what follows from it. Its ``request`` and its ``timings_ms`` are whole."""

    pool_signals: Mapping[str, Any]
    """By name, in the order of ``pool_items``: ``legs`` (raw scores by leg, None where the leg does not know the item),
    ``ranks`` (the same of the ranks of what it brought), both of ``refining`` too where the search was refined; the
    ``measures``; ``relevance``, ``scaled`` (that from 0 to 1) and ``score``, unless they followed from a profile that
    is gone. And ``bests``: by leg, the score that a weighted
    sum takes as 1."""
    impressions: Sequence[Impression]


def recorded_search(record: SearchRecord, profile: Profile | None) -> RecordedSearch:
    """The record with what follows from it; ``profile``: the one that answered, None: it is gone, or none did.

    Of a profile that is gone the hits' signals lack weights and values.
    """
    kept = {one.name: getattr(record, one.name) for one in fields(SearchRecord)}
    signals = pool_signals(record, profile)
    return RecordedSearch(
        **{
            **kept,
            "request": {**USUAL, **record.request},
            "timings_ms": {**record.timings_ms, TOTAL: record.retrieval_time_ms},
        },
        pool_signals=signals,
        impressions=_impressions(record, signals, profile),
    )


def pool_signals(record: SearchRecord, profile: Profile | None) -> dict[str, Any]:
    """``RecordedSearch.pool_signals`` of a record."""
    return pool_signals_of(
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
    """The same of a record's columns; ``measured``: the values of its measures by name."""
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
    relevance, scaled = _relevances(signals, profile or Profile())
    return {"score": relevance, **signals, "relevance": relevance, "scaled": scaled}


def _ranks(values: Sequence[float | None], items: Sequence[str]) -> list[int | None]:
    """The rank of each, from 1; equal ones are ordered by item id."""
    known = sorted((-value, item, place) for place, (value, item) in enumerate(zip(values, items, strict=True))
                   if value is not None)  # fmt: skip
    ranks: list[int | None] = [None] * len(values)
    for rank, (_, _, place) in enumerate(known, 1):
        ranks[place] = rank
    return ranks


def _relevances(signals: Mapping[str, Any], profile: Profile) -> tuple[list[float], list[float]]:
    legs, bests = signals["legs"], signals["bests"]
    relevance = fused_again(legs, signals["ranks"], bests, profile.weights_of(legs), profile.fusion)
    return relevance, on_unit_scale(relevance, bests, profile) if relevance else []


def _impressions(record: SearchRecord, signals: Mapping[str, Any], profile: Profile | None) -> list[Impression]:
    made = record.shown_signals or _parts(record, signals, profile)
    propensities = record.propensities or repeat(1.0)
    columns = zip(
        record.shown_items,
        record.shown_scores,
        made,
        record.shown_slots or repeat(Slot.EXPLOIT.value),
        propensities,
        record.rank_propensities or propensities,
        record.pulls or repeat(0.0),
        strict=False,
    )
    return [
        Impression(
            item_id=item_id,
            rank=rank,
            score=score,
            signals=parts,
            slot=Slot(slot),
            propensity=propensity,
            rank_propensity=rank_propensity,
            pulls=pulls,
        )
        for rank, (item_id, score, parts, slot, propensity, rank_propensity, pulls) in enumerate(columns, 1)
    ]


def _parts(record: SearchRecord, signals: Mapping[str, Any], profile: Profile | None) -> list[dict[str, Any]]:
    """What made the score of each hit, as ``retrieval.domain.fusion.fuse`` made it."""
    places = {item_id: place for place, item_id in enumerate(record.pool_items)}
    legs = signals["legs"]
    ranks = {**signals["ranks"], **dict(zip(record.legs, record.pool_ranks, strict=False))}
    weights = {} if profile is None else _weights(legs, profile)
    values = {} if profile is None else values_again(legs, ranks, signals["bests"], weights, profile.fusion)
    return [
        {
            leg: {"rank": ranks[leg][place], "raw": raw}
            | ({"weight": weights[leg], "value": values[leg][place]} if values else {})
            for leg, scores in legs.items()
            if place is not None and (raw := scores[place]) is not None
        }
        for place in map(places.get, record.shown_items)
    ]


def _weights(legs: Mapping[str, Any], profile: Profile) -> Mapping[str, float]:
    """The weights as explanations name them: that of one leg alone is 1."""
    return dict.fromkeys(legs, 1.0) if len(legs) == 1 and not profile.signals else profile.weights_of(legs)
