"""Several lists of entities become one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from retrieval.apps.recall.entity import Entity
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.fusion import Candidate, Fused, fuse
from retrieval.domain.hit import Explanation
from retrieval.domain.profile import Fusion


def merged_by_rrf(lists: Sequence[Sequence[Entity]], k: int) -> list[Entity]:
    """Reciprocal rank fusion: score(d) = Σ over the lists of 1 / (k + rank of d in the list), ranks from 1.

    Best first, equal scores by id; what a list holds twice counts where it stands first. Raises
    ``InvalidRequestError`` for a ``k`` that is not a whole number above 0, and for lists of anything else.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InvalidRequestError(f"k is {k!r:.80}; it must be a whole number above 0 (60 is customary)")
    rankings = {}
    entities: dict[str, Entity] = {}
    for number, one in enumerate(lists, 1):
        first = _by_id(one)
        entities = first | entities
        name = f"list:{number}"
        rankings[name] = [
            Candidate(name, item_id, rank, entity.score) for rank, (item_id, entity) in enumerate(first.items(), 1)
        ]
    fused = fuse(rankings, dict.fromkeys(rankings, 1.0), Fusion(k=k))
    return [_scored(entities[one.item_id], one, rank) for rank, one in enumerate(fused, 1)]


def _by_id(entities: Sequence[Entity]) -> dict[str, Entity]:
    if isinstance(entities, str) or not isinstance(entities, Sequence):
        raise InvalidRequestError("merge_rrf merges lists of entities, such as merge_rrf(first, second)")
    found: dict[str, Entity] = {}
    for one in entities:
        if not isinstance(one, Entity):
            raise InvalidRequestError(f"merge_rrf merges lists of entities, and one holds a {type(one).__name__}")
        found.setdefault(one.id, one)
    return found


def _scored(entity: Entity, fused: Fused, rank: int) -> Entity:
    explanation = Explanation("rrf", fused.contributions)
    return Entity(replace(entity.hit, score=fused.score, rank=rank, explanation=explanation))
