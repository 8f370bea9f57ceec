"""One search answered by two profiles, their hits mixed, and its record. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from retrieval.domain.context import Context
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.exploration import Exploration
from retrieval.domain.hit import Hit, SearchResult
from retrieval.domain.profile import Profile
from retrieval.domain.recording import Recording
from retrieval.domain.retrieval_id import time_of
from retrieval.domain.search_record import TOTAL, SearchRecord, shown_columns, unusual
from retrieval.engine.recorded_request import recorded_request
from retrieval.engine.request import SearchRequest
from retrieval.engine.shown import score_spread, signals_of, top_score
from retrieval.learning.interleaving import Drafted

MIXED = "hits of two profiles, mixed by team draft: a score is that of the profile which brought the hit"
"""The note of every interleaved search."""

NOTHING_TO_COMPARE = "the search was not recorded, so it says nothing about the two profiles"

POLICY = "team_draft/1"
"""What chance decided, as it is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaved:
    """A search that two profiles answered together."""

    retrieval_id: UUID
    collection_id: int
    names: tuple[str, str]
    """Of the profiles, as the caller knows them."""
    request: SearchRequest
    context: Context
    results: tuple[SearchResult, SearchResult]
    drafted: Sequence[Drafted]
    seed: int

    @property
    def timings_ms(self) -> Mapping[str, float]:
        """Milliseconds by stage: the two searches ran one after the other."""
        first, second = (one.timings_ms for one in self.results)
        return {stage: first.get(stage, 0.0) + second.get(stage, 0.0) for stage in {**first, **second}}

    @property
    def notes(self) -> tuple[str, ...]:
        """What either search had to say."""
        return tuple(dict.fromkeys((MIXED, *self.results[0].notes, *self.results[1].notes)))

    def result(self) -> SearchResult:
        """What the caller gets."""
        return SearchResult(
            hits=self.hits(),
            path=self.results[0].path,
            why=self.results[0].why,
            weighed=sum(one.weighed for one in self.results),
            profile_version=None,
            notes=self.notes,
            timings_ms=self.timings_ms,
            retrieval_id=self.retrieval_id,
        )

    def unrecorded(self) -> SearchResult:
        """What the caller gets when nothing was kept."""
        return replace(self.result(), retrieval_id=None, notes=(*self.notes, NOTHING_TO_COMPARE))

    def hits(self) -> tuple[Hit, ...]:
        """Each drafted item as its team's profile found it."""
        found = {team: {hit.item_id: hit for hit in one} for team, one in zip("ab", self.results, strict=True)}
        return tuple(
            replace(found[one.team.value][one.item_id], rank=rank, propensity=one.propensity)
            for rank, one in enumerate(self.drafted, 1)
        )

    def record(self) -> SearchRecord:
        """Everything that is kept: teams stand among the impressions' signals, the profiles' names in the request.

        No candidates are, for the mixture is neither profile's ranking.
        """
        hits, retrieved_at = self.hits(), time_of(self.retrieval_id)
        condition, request = recorded_request(self.request)
        first, second = self.names
        return SearchRecord(
            collection_id=self.collection_id,
            retrieval_id=self.retrieval_id,
            retrieved_at=retrieved_at,
            actor=self.context.actor,
            session=self.context.session,
            domain=self.context.domain,
            complexity=self.context.complexity,
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
            hits=len(hits),
            path=self.results[0].path.value,
            notes=self.notes,
            timings_ms={stage: ms for stage, ms in self.timings_ms.items() if stage != TOTAL},
            retrieval_time_ms=self.timings_ms.get(TOTAL, 0.0),
            top_score=top_score(hits),
            score_spread=score_spread(hits),
            generation_triggered=self.context.generated,
            backtrack_count=self.context.backtracks,
            **shown_columns(
                items=[hit.item_id for hit in hits],
                scores=[hit.score for hit in hits],
                slots=[hit.slot for hit in hits],
                propensities=[one.propensity for one in self.drafted],
                rank_propensities=[one.rank_propensity for one in self.drafted],
            ),
            shown_signals=[
                {**signals_of(hit.explanation.contributions), "team": one.team.value}
                for hit, one in zip(hits, self.drafted, strict=True)
            ],
        )


def two_profiles(profiles: Mapping[str, Profile]) -> tuple[tuple[str, Profile], tuple[str, Profile]]:
    """The two with their names, each without chance of its own and without a record of its own.

    Raises ``InvalidRequestError`` for more or fewer than two, or an empty name.
    """
    if len(profiles) != 2 or not all(isinstance(name, str) and name for name in profiles):
        raise InvalidRequestError("interleaving takes two profiles by name, such as {'now': ..., 'candidate': ...}")
    for name, one in profiles.items():
        if not isinstance(one, Profile):
            raise InvalidRequestError(f"profile {name!r:.40} is a {type(one).__name__}; it must be a retrieval.Profile")
    silent = Recording(rate=0)
    first, second = (
        (name, replace(one, exploration=Exploration(), recording=silent)) for name, one in profiles.items()
    )
    return first, second
