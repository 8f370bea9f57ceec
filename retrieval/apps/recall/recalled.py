"""An answer of recall: a list of entities that also says how it came about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from retrieval.apps.recall.entity import Entity
from retrieval.apps.recall.stretch import TimeRange
from retrieval.domain.standing import Standing
from retrieval.domain.stored_text import STORED_NOTE, named, provenance, quoted, quoted_block
from retrieval.domain.time_expressions import TimeExpression

NOTHING = "Nothing that fits is remembered."


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


def context_text(entities: Iterable[Entity], standings: Mapping[str, Standing]) -> str:
    """The entities as Markdown for a prompt, in their order, with who added each and how it has fared. Pure.

    A name is a JSON string, and each line of a content stands behind ``>``: nothing stored passes for a line of ours.
    """
    blocks = [_block(number, one, standings.get(one.id)) for number, one in enumerate(entities, 1)]
    return "\n\n".join(["## Recalled", STORED_NOTE, *blocks] if blocks else ["## Recalled", NOTHING])


def _block(number: int, entity: Entity, standing: Standing | None) -> str:
    uses, successes = (standing.uses, standing.successes) if standing else (0, 0)
    when = [entity.event_time.isoformat(timespec="seconds")] if entity.event_time else []
    record = " · ".join([*when, provenance(entity.hit.source if entity.hit else None, uses, successes)])
    name = f" {quoted(entity.name)}" if entity.name else ""
    said = [quoted_block(entity.content)] if entity.content else []
    return "\n".join([f"### {number}. [{named(entity.id)}]{name}", record, *said])
