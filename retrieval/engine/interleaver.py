"""Answers searches by two profiles at once, and has each recorded before it answers."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import numpy as np

from retrieval.adapters.store.database import Database
from retrieval.adapters.store.records.recording_statement import encoded
from retrieval.adapters.store.records.recordings import store_recordings
from retrieval.domain.context import Context
from retrieval.domain.errors import RetrievalError
from retrieval.domain.hit import SearchResult
from retrieval.domain.profile import Profile
from retrieval.domain.retrieval_id import uuid7
from retrieval.engine.interleave import Interleaved, two_profiles
from retrieval.engine.request import SearchRequest
from retrieval.engine.stopwatch import Clock
from retrieval.learning.interleaving import check_draft, team_draft

_log = logging.getLogger(__name__)

Ask = Callable[[Profile], Awaitable[SearchResult]]
"""The search under a profile."""


@dataclass(frozen=True, slots=True)
class Interleaver:
    """Interleaves the searches of one collection."""

    database: Database
    tenant_id: int
    collection_id: int
    chance: random.Random
    wall_clock: Clock
    """Seconds since 1970."""

    async def interleave(
        self, request: SearchRequest, profiles: Mapping[str, Profile], ask: Ask, context: Context
    ) -> SearchResult:
        """The hits of both profiles by team draft. Without its record a search says nothing: it is stored first.

        Raises ``InvalidRequestError`` for other than two profiles, ``InvalidLimitError`` for a limit outside 1 to 20.
        """
        (name, one), (other, another) = two_profiles(profiles)
        check_draft(request.limit)
        first, second = await ask(one), await ask(another)
        seed = self.chance.getrandbits(63)
        rng = np.random.default_rng(seed)
        mixed = Interleaved(
            retrieval_id=uuid7(int(self.wall_clock() * 1000), self.chance),
            collection_id=self.collection_id,
            names=(name, other),
            request=request,
            context=context,
            results=(first, second),
            drafted=team_draft(_item_ids(first), _item_ids(second), request.limit, rng),
            seed=seed,
        )
        return await self._stored(mixed)

    async def _stored(self, mixed: Interleaved) -> SearchResult:
        try:
            await store_recordings(self.database, self.tenant_id, [encoded(mixed.record())], {})
        except RetrievalError as error:
            _log.warning("an interleaved search was not recorded: %s", error)
            return mixed.unrecorded()
        return mixed.result()


def _item_ids(result: SearchResult) -> list[str]:
    return [hit.item_id for hit in result]
