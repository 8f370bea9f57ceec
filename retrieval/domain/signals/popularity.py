"""How often an item was retrieved before."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from retrieval.domain.signals.signal import Asked, Facts, Signal

FULL = 100
"""Accesses from which on the signal is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Popularity(Signal):
    """log10(accesses + 1) / log10(101), at most 1: 0 without accesses, .15 after one, .52 after ten, 1 from 100 on.

    The memory design's examples (.3, .5, .8) are not what its formula gives; the formula holds.
    """

    name: ClassVar[str] = "popularity"
    reads: ClassVar[frozenset[str]] = frozenset()

    def value(self, facts: Facts, asked: Asked) -> float:
        """The popularity, 0 to 1."""
        return min(1.0, math.log10(max(facts.accesses, 0) + 1) / math.log10(FULL + 1))
