"""Which metaphors of a corpus are nearly the same as a new one."""

from __future__ import annotations

from collections.abc import AsyncIterator

from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.apps.metaphors.metaphor_item import (
    ACTIVE,
    CANDIDATE,
    KIND,
    NAME_KEY,
    REJECTED,
    embedded_text,
    metaphor_of,
)
from retrieval.apps.metaphors.name_key import name_key
from retrieval.collection import Collection
from retrieval.domain.embedding import TextRole, Vector
from retrieval.domain.profile import Profile

DUPLICATE_FROM = 0.52
"""The cosine from which on two are near-duplicates: measured with MiniLM, see docs/decisions/0024-metaphors.md."""

MOST = 20
"""Metaphors compared by meaning: the nearest."""

_BY_MEANING = Profile(legs={"dense": 1.0})


async def near_duplicates(collection: Collection, metaphor: Metaphor, above: float) -> list[tuple[Metaphor, float]]:
    """Those with the same name, at 1, and those whose cosine is at least ``above``; the most alike first, then by id.

    The metaphor's own id is left out. Rejected ones are compared by name: archived, they have no vector.
    """
    found = {one.id: (one, 1.0) async for one in _namesakes(collection, metaphor)}
    for one, cosine in await _nearest(collection, metaphor):
        if cosine >= above:
            found.setdefault(one.id, (one, cosine))
    found.pop(metaphor.id, None)
    return sorted(found.values(), key=lambda pair: (-pair[1], pair[0].id))


async def text_vector(collection: Collection, metaphor: Metaphor) -> Vector:
    """The vector that the metaphor has once it is stored. Raises as ``Collection.vectors_of``."""
    vector: Vector = (await collection.vectors_of([embedded_text(metaphor)], role=TextRole.DOCUMENT))[0]
    return vector


async def _namesakes(collection: Collection, metaphor: Metaphor) -> AsyncIterator[Metaphor]:
    where = {"kind": KIND, "status": [ACTIVE, CANDIDATE, REJECTED], NAME_KEY: name_key(metaphor.name)}
    async for item in collection.scan(where):
        yield metaphor_of(item)


async def _nearest(collection: Collection, metaphor: Metaphor) -> list[tuple[Metaphor, float]]:
    """The nearest by meaning with their cosines, -1 to 1; none in a collection without an embedding space."""
    if await collection.space() is None:
        return []
    vector = metaphor.embedding or (await text_vector(collection, metaphor))
    where = {"kind": KIND, "status": [ACTIVE, CANDIDATE]}
    hits = await collection.unrecorded().search(vector=vector, where=where, limit=MOST, profile=_BY_MEANING)
    return [
        (metaphor_of(hit), part.raw_score)
        for hit in hits
        for part in hit.explanation.contributions
        if part.leg == "dense" and part.raw_score is not None
    ]
