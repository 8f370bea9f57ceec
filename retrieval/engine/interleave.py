"""Interleaving: two profiles answer one search, and their hits are mixed by team draft and recorded."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from retrieval.adapters.store.records.recording_statement import encoded
from retrieval.adapters.store.records.recordings import store_recordings
from retrieval.domain.checks import written
from retrieval.domain.errors import InvalidRequestError, RetrievalError
from retrieval.domain.learning.context import Context
from retrieval.domain.records.retrieval_id import time_of, uuid7
from retrieval.domain.records.search_record import TOTAL, SearchRecord, context_columns, shown_columns, unusual
from retrieval.domain.search.filters import Filter, Where
from retrieval.domain.search.hit import Hit, SearchResult
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.profile_parts import Exploration, Recording
from retrieval.engine.answers import learned_state
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.collection_search import search
from retrieval.engine.conditions import parsed_filter
from retrieval.engine.ranking import signals_of
from retrieval.engine.record import recorded_request
from retrieval.engine.request import SearchRequest, check_profile, checked_request
from retrieval.learning.interleaving import Drafted, check_draft, team_draft

MIXED = "hits of two profiles, mixed by team draft: each score is by the profile that returned the hit"
"""The note of every interleaved search."""

NOTHING_TO_COMPARE = "the search was not recorded, so it cannot compare the two profiles"

POLICY = "team_draft/1"
"""The recorded policy of an interleaved search."""


def two_profiles(profiles: Mapping[str, Profile]) -> tuple[tuple[str, Profile], tuple[str, Profile]]:
    """The two profiles with their names, without exploration and without recording.

    Raises ``InvalidRequestError`` for more or fewer than two profiles, or an empty name.
    """
    is_pair = isinstance(profiles, Mapping) and len(profiles) == 2
    if not is_pair or not all(isinstance(name, str) and name for name in profiles):
        raise InvalidRequestError("interleaving takes two profiles by name, such as {'now': ..., 'candidate': ...}")
    for name, profile in profiles.items():
        check_profile(profile, f"profile {written(name, 40)}")
    bare = partial(replace, exploration=Exploration(), recording=Recording(rate=0))
    first, second = ((name, bare(profile)) for name, profile in profiles.items())
    return first, second


_log = logging.getLogger(__name__)


async def interleave(
    handle: CollectionHandle,
    query: str,
    *,
    profiles: Mapping[str, Profile],
    where: Where | Filter | None,
    context: Context,
    **options: Any,
) -> SearchResult:
    """See ``Collection.interleave``; ``options`` go to ``checked_request`` unchanged."""
    shared = handle.shared
    condition = await parsed_filter(where, shared.bounds)
    request = checked_request(query, condition=condition, bounds=shared.bounds, **options)
    place = await handle.place()
    (first_name, first_profile), (second_name, second_profile) = two_profiles(profiles)
    check_draft(request.limit)
    search_by = partial(search, handle, query, where=condition, context=context, **options)
    first, second = [await search_by(profile=profile) for profile in (first_profile, second_profile)]
    seed = shared.chance.getrandbits(63)
    retrieval_id = uuid7(int(shared.wall_clock() * 1000), shared.chance)
    drafted = team_draft(_item_ids(first), _item_ids(second), request.limit, np.random.default_rng(seed))
    # The two searches ran one after the other.
    stages = {**first.timings_ms, **second.timings_ms}
    result = SearchResult(
        hits=_hits(first, second, drafted),
        path=first.path,
        why=first.why,
        weighed=first.weighed + second.weighed,
        profile_version=None,
        notes=tuple(dict.fromkeys((MIXED, *first.notes, *second.notes))),
        why_no_hits=() if drafted else first.why_no_hits,
        timings_ms={stage: first.timings_ms.get(stage, 0.0) + second.timings_ms.get(stage, 0.0) for stage in stages},
        retrieval_id=retrieval_id,
    )
    unrecorded = replace(result, retrieval_id=None, notes=(*result.notes, NOTHING_TO_COMPARE))
    if not handle.is_recorded:
        return unrecorded
    cluster, model_version = await learned_state(
        handle, handle.stored, request.query, request.vector, [first_profile, second_profile]
    )
    columns = {
        "collection_id": place.collection_id,
        "retrieval_id": retrieval_id,
        "seed": seed,
        "cluster": cluster,
        "model_version": model_version,
        **context_columns(context),
    }
    record = _record(result, request, (first_name, second_name), drafted, columns)
    try:
        await store_recordings(place.database, place.tenant_id, [encoded(record)], {})
    except RetrievalError as error:
        _log.warning("an interleaved search was not recorded: %s", error)
        return unrecorded
    return result


def _record(
    result: SearchResult,
    request: SearchRequest,
    names: tuple[str, str],
    drafted: Sequence[Drafted],
    columns: dict[str, Any],
) -> SearchRecord:
    """The record, with the teams among the impressions' signals and the profiles' names in the request.

    It has no candidates, because the mixture is not the ranking of either profile.
    """
    retrieved_at = time_of(columns["retrieval_id"])
    condition, recorded = recorded_request(request)
    return SearchRecord(
        retrieved_at=retrieved_at,
        query=request.query,
        vector=None if request.vector is None else request.vector.tolist(),
        condition=condition,
        request={**unusual(recorded), "interleaved": dict(zip("ab", names, strict=True))},
        policy=POLICY,
        statistics_at=retrieved_at,
        path=result.path.value,
        notes=result.notes,
        timings_ms={stage: ms for stage, ms in result.timings_ms.items() if stage != TOTAL},
        retrieval_time_ms=result.timings_ms.get(TOTAL, 0.0),
        **columns,
        **shown_columns(
            items=_item_ids(result),
            scores=[hit.score for hit in result],
            slots=[hit.slot for hit in result],
            propensities=[draft.propensity for draft in drafted],
            rank_propensities=[draft.rank_propensity for draft in drafted],
        ),
        shown_signals=[
            {**signals_of(hit.explanation.contributions), "team": draft.team.value}
            for hit, draft in zip(result, drafted, strict=True)
        ],
    )


def _hits(first: SearchResult, second: SearchResult, drafted: Sequence[Drafted]) -> tuple[Hit, ...]:
    """The drafted items, each with the explanation of its team's profile."""
    by_team = {team: {hit.item_id: hit for hit in result} for team, result in (("a", first), ("b", second))}
    return tuple(
        replace(by_team[draft.team.value][draft.item_id], rank=rank, propensity=draft.propensity)
        for rank, draft in enumerate(drafted, 1)
    )


def _item_ids(result: SearchResult) -> list[str]:
    return [hit.item_id for hit in result]
