"""Hits are made of ranked candidates and their items' columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retrieval.domain.fusion import Fused
from retrieval.domain.hit import Explanation, Hit
from retrieval.domain.slate import Placed

Columns = Mapping[str, tuple[Any, ...]]
"""The columns of a hit by item id, in the order of ``retrieval.adapters.store.items.conditions.HIT_COLUMNS``."""


def present(ranked: Sequence[Fused], columns: Columns) -> list[Fused]:
    """The candidates that are still there; others were removed since their leg found them."""
    return [one for one in ranked if columns.get(one.item_id, (None,))[0] is not None]


def hits(ranked: Sequence[Fused], columns: Columns, fusion: str, slate: Sequence[Placed] = ()) -> tuple[Hit, ...]:
    """The hits in order, of candidates that are all there.

    ``slate`` says why items stand where they stand; of one that it does not name, the score alone brought it there.
    """
    placed = {one.item_id: one for one in slate}
    return tuple(
        _hit(one, columns[one.item_id], rank, fusion, placed.get(one.item_id) or Placed(one.item_id))
        for rank, one in enumerate(ranked, 1)
    )


def _hit(one: Fused, columns: tuple[Any, ...], rank: int, fusion: str, placed: Placed) -> Hit:
    title, body, kind, tags, attributes, status, source, occurred_at = columns
    return Hit(
        item_id=one.item_id,
        score=one.score,
        rank=rank,
        explanation=Explanation(fusion, one.contributions),
        slot=placed.slot,
        propensity=placed.propensity,
        title=title,
        body=body,
        kind=kind,
        tags=tuple(tags),
        attributes=attributes,
        status=status,
        source=source,
        occurred_at=occurred_at,
    )
