"""The principles at a glance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from retrieval.apps.principles.exploration import FEWER_USES_THAN
from retrieval.apps.principles.principle import ACTIVE, CANDIDATE, Principle


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipleStats:
    """Counts over all principles."""

    active: int
    candidates: int
    archived: int
    """Candidates that failed."""
    untested: int
    """In use, and never judged."""
    under_tested: int
    """In use, with fewer than 5 verdicts; the untested are among them."""
    uses: int
    """Verdicts on all of them."""
    successes: int
    tags: int
    """Different tags of those in use."""

    @property
    def success_rate(self) -> float | None:
        """The share of good verdicts, 0 to 1; None: there are none."""
        return self.successes / self.uses if self.uses else None

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "success_rate": self.success_rate}


def stats_of(principles: Iterable[Principle]) -> PrincipleStats:
    """The counts."""
    every = list(principles)
    in_use = [one for one in every if one.status in (ACTIVE, CANDIDATE)]
    return PrincipleStats(
        active=sum(one.status == ACTIVE for one in every),
        candidates=sum(one.status == CANDIDATE for one in every),
        archived=len(every) - len(in_use),
        untested=sum(one.use_count == 0 for one in in_use),
        under_tested=sum(one.use_count < FEWER_USES_THAN for one in in_use),
        uses=sum(one.use_count for one in every),
        successes=sum(one.success_count for one in every),
        tags=len({tag for one in in_use for tag in one.tags}),
    )
