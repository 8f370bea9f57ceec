"""Entities as callers name them, by type, such as ``{"questions": ["q1"], "hypotheses": ["h1"]}``. Pure."""

from __future__ import annotations

from retrieval.domain.entity_links import Links, checked_links
from retrieval.domain.signals.signal import Entity


def entity_set(entities: Links | None) -> frozenset[Entity]:
    """Every entity with its type; none of a type without ids.

    Raises ``InvalidRequestError`` for what is no mapping of lists of ids.
    """
    given = checked_links(entities or {})
    return frozenset((entity_type, one) for entity_type, ids in given.items() for one in ids)
