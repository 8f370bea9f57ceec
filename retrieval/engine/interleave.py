"""Interleaving: two profiles answer one search, and their hits are mixed by team draft and recorded."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np

from retrieval.adapters.clock import Clock
from retrieval.adapters.store.database import CollectionPlace
from retrieval.adapters.store.records.recording_statement import encoded
from retrieval.adapters.store.records.recordings import store_recordings
from retrieval.domain.errors import InvalidRequestError, RetrievalError
from retrieval.domain.learning.context import Context
from retrieval.domain.records.retrieval_id import time_of, uuid7
from retrieval.domain.records.search_record import TOTAL, SearchRecord, context_columns, shown_columns, unusual
from retrieval.domain.search.hit import Hit, SearchResult
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.profile_parts import Exploration, Recording
from retrieval.engine.ranking import signals_of
from retrieval.engine.record import recorded_request
from retrieval.engine.request import SearchRequest, check_profile
from retrieval.learning.interleaving import Drafted, check_draft, team_draft

MIXED = "hits of two profiles, mixed by team draft: each score is by the profile that returned the hit"
"""The note of every interleaved search."""

NOTHING_TO_COMPARE = "the search was not recorded, so it cannot compare the two profiles"

POLICY = "team_draft/1"
"""The recorded policy of an interleaved search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaved:
    """A search that two profiles answered together."""

    retrieval_id: UUID
    collection_id: int
    names: tuple[str, str]
    """The profiles' names, as given by the caller."""
    request: SearchRequest
    context: Context
    results: tuple[SearchResult, SearchResult]
    drafted: Sequence[Drafted]
    seed: int

    @property
    def timings_ms(self) -> Mapping[str, float]:
        """Milliseconds by stage, summed over both searches, which ran one after the other."""
        first, second = (result.timings_ms for result in self.results)
        return {stage: first.get(stage, 0.0) + second.get(stage, 0.0) for stage in {**first, **second}}

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of both searches."""
        return tuple(dict.fromkeys((MIXED, *self.results[0].notes, *self.results[1].notes)))

    def result(self) -> SearchResult:
        """The result for the caller."""
        return SearchResult(
            hits=self.hits(),
            path=self.results[0].path,
            why=self.results[0].why,
            weighed=sum(result.weighed for result in self.results),
            profile_version=None,
            notes=self.notes,
            why_no_hits=() if self.drafted else self.results[0].why_no_hits,
            timings_ms=self.timings_ms,
            retrieval_id=self.retrieval_id,
        )

    def unrecorded(self) -> SearchResult:
        """The result for the caller if the search was not recorded."""
        return replace(self.result(), retrieval_id=None, notes=(*self.notes, NOTHING_TO_COMPARE))

    def hits(self) -> tuple[Hit, ...]:
        """The drafted items, each with the explanation of its team's profile."""
        hits_by_team = {
            team: {hit.item_id: hit for hit in result} for team, result in zip("ab", self.results, strict=True)
        }
        return tuple(
            replace(hits_by_team[draft.team.value][draft.item_id], rank=rank, propensity=draft.propensity)
            for rank, draft in enumerate(self.drafted, 1)
        )

    def record(self) -> SearchRecord:
        """The record, with the teams among the impressions' signals and the profiles' names in the request.

        It has no candidates, because the mixture is not the ranking of either profile.
        """
        hits, retrieved_at = self.hits(), time_of(self.retrieval_id)
        condition, request = recorded_request(self.request)
        first, second = self.names
        return SearchRecord(
            collection_id=self.collection_id,
            retrieval_id=self.retrieval_id,
            retrieved_at=retrieved_at,
            cluster=None,
            query=self.request.query,
            vector=None if self.request.vector is None else self.request.vector.tolist(),
            condition=condition,
            request={**unusual(request), "interleaved": {"a": first, "b": second}},
            profile_version=0,
            model_version=0,
            policy=POLICY,
            statistics_at=retrieved_at,
            seed=self.seed,
            eligible=0,
            path=self.results[0].path.value,
            notes=self.notes,
            timings_ms={stage: ms for stage, ms in self.timings_ms.items() if stage != TOTAL},
            retrieval_time_ms=self.timings_ms.get(TOTAL, 0.0),
            **context_columns(self.context),
            **shown_columns(
                items=[hit.item_id for hit in hits],
                scores=[hit.score for hit in hits],
                slots=[hit.slot for hit in hits],
                propensities=[draft.propensity for draft in self.drafted],
                rank_propensities=[draft.rank_propensity for draft in self.drafted],
            ),
            shown_signals=[
                {**signals_of(hit.explanation.contributions), "team": draft.team.value}
                for hit, draft in zip(hits, self.drafted, strict=True)
            ],
        )


def two_profiles(profiles: Mapping[str, Profile]) -> tuple[tuple[str, Profile], tuple[str, Profile]]:
    """The two profiles with their names, without exploration and without recording.

    Raises ``InvalidRequestError`` for more or fewer than two profiles, or an empty name.
    """
    is_pair = isinstance(profiles, Mapping) and len(profiles) == 2
    if not is_pair or not all(isinstance(name, str) and name for name in profiles):
        raise InvalidRequestError("interleaving takes two profiles by name, such as {'now': ..., 'candidate': ...}")
    for name, profile in profiles.items():
        check_profile(profile, f"profile {name!r:.40}")
    unrecorded = Recording(rate=0)
    first, second = (
        (name, replace(profile, exploration=Exploration(), recording=unrecorded)) for name, profile in profiles.items()
    )
    return first, second


_log = logging.getLogger(__name__)

Ask = Callable[[Profile], Awaitable[SearchResult]]
"""Runs the search under a profile."""


async def interleave(
    at: CollectionPlace,
    request: SearchRequest,
    profiles: Mapping[str, Profile],
    ask: Ask,
    context: Context,
    *,
    chance: random.Random,
    wall_clock: Clock,
    is_recorded: bool,
) -> SearchResult:
    """The hits of both profiles by team draft, recorded before the answer if ``is_recorded``.

    ``wall_clock``: seconds since 1970. Raises ``InvalidRequestError`` unless there are two profiles,
    ``InvalidLimitError`` unless ``limit`` is 1 to 20.
    """
    (first_name, first_profile), (second_name, second_profile) = two_profiles(profiles)
    check_draft(request.limit)
    first, second = await ask(first_profile), await ask(second_profile)
    seed = chance.getrandbits(63)
    rng = np.random.default_rng(seed)
    mixed = Interleaved(
        retrieval_id=uuid7(int(wall_clock() * 1000), chance),
        collection_id=at.collection_id,
        names=(first_name, second_name),
        request=request,
        context=context,
        results=(first, second),
        drafted=team_draft(_item_ids(first), _item_ids(second), request.limit, rng),
        seed=seed,
    )
    if not is_recorded:
        return mixed.unrecorded()
    try:
        await store_recordings(at.database, at.tenant_id, [encoded(mixed.record())], {})
    except RetrievalError as error:
        _log.warning("an interleaved search was not recorded: %s", error)
        return mixed.unrecorded()
    return mixed.result()


def _item_ids(result: SearchResult) -> list[str]:
    return [hit.item_id for hit in result]
