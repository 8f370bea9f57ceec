"""How often a value occurs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCount:
    """Items of a collection that have one value of an attribute."""

    value: str
    """As text; empty: they have none."""
    items: int
    """Items that a search can find."""
    vectors: int
    """Those of them that have their vector."""
