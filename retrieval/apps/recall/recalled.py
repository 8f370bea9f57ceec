"""An answer of recall: a list of entities that also says how it came about."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from retrieval.apps.recall.entity import Entity
from retrieval.apps.recall.stretch import TimeRange
from retrieval.domain.time_expressions import TimeExpression


class Recalled(list[Entity]):
    """The entities, best first."""

    degraded: str | None
    """Why the question was answered without rewrites although they were wanted; None: it was not."""
    queries: tuple[str, ...]
    """The rewrites that were searched beside the question."""
    time: TimeExpression | None
    """What the question says of time; None: nothing, or it was not read."""
    time_range: TimeRange | None
    """What event times were bound to or preferred in, start and end; None: neither."""
    notes: tuple[str, ...]
    """What the caller should know."""
    retrieval_id: UUID | None
    """Under which the search is recorded, for feedback and replay; None: it is not."""

    def __init__(
        self,
        entities: Iterable[Entity] = (),
        *,
        degraded: str | None = None,
        queries: Iterable[str] = (),
        time: TimeExpression | None = None,
        time_range: TimeRange | None = None,
        notes: Iterable[str] = (),
        retrieval_id: UUID | None = None,
    ) -> None:
        super().__init__(entities)
        self.degraded = degraded
        self.queries = tuple(queries)
        self.time = time
        self.time_range = time_range
        self.notes = tuple(notes)
        self.retrieval_id = retrieval_id
