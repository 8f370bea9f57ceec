"""Checks of the embedders that collections need: there, answering, and in the collection's own space."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.adapters.store.search.vectors import StoredSpace
from retrieval.domain.diagnosis import Finding, Severity
from retrieval.domain.errors import RetrievalError
from retrieval.jobs.workplace import Workplace

TRY_SECONDS = 15.0
"""An embedder that takes longer for one word does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderState:
    """The embedder of one space."""

    space: str
    """The space's name."""
    is_configured: bool
    problem: str = ""
    """Why it gave no vector; empty: it gave one, of the right shape."""


async def try_embedders(
    workplace: Workplace, tenant_id: int, collections: Sequence[StoredCollection]
) -> list[EmbedderState]:
    """Ask each embedder that the collections need for one vector."""
    spaces = dict.fromkeys(one.space for one in collections if one.space is not None)
    return await asyncio.gather(*(_tried(workplace, tenant_id, space) for space in spaces))


async def _tried(workplace: Workplace, tenant_id: int, space: StoredSpace) -> EmbedderState:
    name = space.space.name
    try:
        embedder = workplace.embedder_of(tenant_id, space)
        if embedder is None:
            return EmbedderState(space=name, is_configured=False)
        await asyncio.wait_for(embedder.try_out(), TRY_SECONDS)
    except TimeoutError:
        return EmbedderState(space=name, is_configured=True, problem=f"no answer within {TRY_SECONDS:g} s")
    except RetrievalError as error:
        return EmbedderState(space=name, is_configured=True, problem=str(error))
    return EmbedderState(space=name, is_configured=True)


def check_embedders(states: Sequence[EmbedderState]) -> Iterator[Finding]:
    """Each space that collections use has an embedder that answers."""
    for one in states:
        if not one.is_configured:
            found = f"no embedder is configured for space {one.space}: texts are searched for by words alone"
            mend = "set RETRIEVAL_EMBEDDER and RETRIEVAL_EMBEDDING_MODEL to those of the space"
            yield Finding(check="embedder", severity=Severity.WARNING, about=one.space, found=found, mend=mend)
        elif one.problem:
            found = f"the embedder of space {one.space} gives no vectors: {one.problem}"
            mend = "see docs/how-to/embedders.md; items wait and are embedded once it answers"
            yield Finding(check="embedder", severity=Severity.ERROR, about=one.space, found=found, mend=mend)
