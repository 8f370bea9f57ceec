"""What a search is between its stages: asked and planned, ranked by relevance, final."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrieval.adapters.store.search.candidate_request import CandidateRequest, Query
from retrieval.adapters.store.search.candidates import Found
from retrieval.domain.exploration import Exploration
from retrieval.domain.fusion import Fused
from retrieval.domain.profile import Profile
from retrieval.domain.slate import Placed
from retrieval.engine.plan import Plan
from retrieval.engine.record import Decided
from retrieval.engine.request import SearchRequest


@dataclass(frozen=True, slots=True)
class Asked:
    """A search with what it was planned to do."""

    request: SearchRequest
    plan: Plan
    queries: tuple[Query, ...]
    """The query, and after it the rewritten ones."""
    seed: int
    """What chance goes by in this search."""
    is_recorded: bool
    """Whether its record is wanted."""
    preferred: tuple[CandidateRequest, ...] = ()
    """What is asked once more, within each thing that is preferred."""

    @property
    def requests(self) -> tuple[CandidateRequest, ...]:
        """What is asked of the store."""
        return (self.plan.request, *self.preferred)

    @property
    def query(self) -> Query:
        """The query as it was asked."""
        return self.queries[0]

    @property
    def profile(self) -> Profile:
        """What it goes by; what is not recorded explores nothing, as nothing could be learned from it."""
        profile = self.plan.profile
        is_as_it_is = self.is_recorded or profile.exploration.is_off
        return profile if is_as_it_is else replace(profile, exploration=Exploration())


@dataclass(frozen=True, slots=True)
class Ranked:
    """The hits to be, and what they were chosen from."""

    shown: list[Fused]
    pool: list[Fused]
    """The best candidates by relevance, among them those shown."""
    found: Found


@dataclass(frozen=True, slots=True)
class Final:
    """The hits to be, after all that changes their order."""

    ranked: Ranked
    slate: Sequence[Placed]
    decided: Decided
    shown: list[Fused]
    """In the order of the slate, each with the parts of its score."""
