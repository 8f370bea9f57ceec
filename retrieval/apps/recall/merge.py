"""Several lists of entities become one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from retrieval.apps.recall.entity import Entity
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.fusion import Candidate, Fused, fuse
from retrieval.domain.hit import Explanation, Hit
from retrieval.domain.profile import Fusion

K_MAX = 1_000_000


def merged_by_rrf(lists: Sequence[Sequence[Entity]], k: int) -> list[Entity]:
    """Reciprocal rank fusion: score(d) = Σ over the lists of 1 / (k + rank of d in the list), ranks from 1.

    Best first, equal scores by id; what a list holds twice counts where it stands first. Raises
    ``InvalidRequestError`` for a ``k`` that is no whole number from 1 to ``K_MAX``, and for lists of anything else.
    """
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= K_MAX:
        raise InvalidRequestError(f"k is {_said(k)}; it must be a whole number from 1 to {K_MAX:,} (60 is customary)")
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


def _said(k: object) -> str:
    # Python refuses to write integers of thousands of digits.
    return "a number of many digits" if isinstance(k, int) and abs(k) > K_MAX**3 else f"{k!r:.80}"


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
    hit = entity.hit or Hit(
        item_id=entity.id,
        score=0.0,
        rank=rank,
        explanation=entity.explanation,
        title=entity.name,
        body=entity.content,
        kind=entity.entity_type,
        attributes=entity.attributes,
        occurred_at=entity.event_time,
    )
    explanation = Explanation("rrf", fused.contributions)
    return replace(entity, hit=replace(hit, score=fused.score, rank=rank, explanation=explanation))
