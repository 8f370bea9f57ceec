"""Which memories of a project say nearly the same as a new one."""

from __future__ import annotations

from retrieval.collection import Collection
from retrieval.domain.duplicates import similarity
from retrieval.domain.hit import Hit
from retrieval.domain.item import Item
from retrieval.domain.memory import PROJECT, USER, NewMemory
from retrieval.domain.profile import Profile
from retrieval.jobs.remember import MemoryWriter, Near

MOST = 20
"""Memories that are compared with a new one, of each way to find them; those that have expired are among them."""

_QUERY_CHARACTERS = 2000
"""So much of a text is looked up; all of it is compared."""


async def near_memories(
    collection: Collection, writer: MemoryWriter, memory: NewMemory, threshold: float, *, joins: bool = False
) -> list[Near]:
    """The memories of its project whose similarity is at least the threshold, the most alike first.

    They are looked up by words and, where the collection has an embedder, by meaning too. They may have expired. With
    ``joins`` only those of the same user and type, which it may join: others would take their places.
    """
    item = memory.item()
    if not item.text:
        return []
    vector = await writer.vector_of(item)
    where: dict[str, str | None] = {PROJECT: memory.project_id}
    if joins:
        where |= {USER: memory.user_id, "kind": memory.interaction_type}
    hits: dict[str, Hit] = {}
    for leg in ["lexical"] if vector is None else ["lexical", "dense"]:
        found = await collection.unrecorded().search(
            item.text[:_QUERY_CHARACTERS],
            vector=vector,
            where=where,
            limit=MOST,
            profile=Profile(legs={leg: 1.0}),
            syntax=False,
        )
        hits |= {hit.item_id: hit for hit in found}
    compared = {hit.item_id: similarity(hit.body, item.body, _cosine(hit, item)) for hit in hits.values()}
    near = [Near(key, alike, hits[key].body) for key, alike in compared.items() if alike >= threshold]
    return sorted(near, key=lambda one: (-one.similarity, one.memory_id))


def _cosine(hit: Hit, item: Item) -> float | None:
    """The cosine of the vectors, where they stand for what is compared: a summary that both have makes all alike."""
    if hit.title or item.title:
        return None
    return next((part.raw_score for part in hit.explanation.contributions if part.leg == "dense"), None)
