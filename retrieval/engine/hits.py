"""Hits are made of ranked candidates and their items' columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrieval.adapters.store.hit_columns import HIT_COLUMNS
from retrieval.domain.fusion import Fused
from retrieval.domain.hit import Explanation, Hit

Columns = Mapping[str, tuple[object, ...]]
"""The columns of a hit (``HIT_COLUMNS``), by item id."""


def hits(ranked: Sequence[Fused], columns: Columns, fusion: str) -> tuple[Hit, ...]:
    """The hits in order; an item that was removed since its leg found it is left out."""
    present = [one for one in ranked if columns.get(one.item_id, (None,))[0] is not None]
    return tuple(_hit(one, columns[one.item_id], rank, fusion) for rank, one in enumerate(present, 1))


def _hit(one: Fused, columns: tuple[object, ...], rank: int, fusion: str) -> Hit:
    values = dict(zip(HIT_COLUMNS, columns, strict=True))
    values["tags"] = tuple(values["tags"])  # type: ignore[arg-type]
    explanation = Explanation(fusion, one.contributions)
    return Hit(item_id=one.item_id, score=one.score, rank=rank, explanation=explanation, **values)  # type: ignore[arg-type]
