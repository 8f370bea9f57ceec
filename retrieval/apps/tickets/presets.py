"""The four weightings that have a name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from retrieval.apps.tickets.errors import ProcessingError
from retrieval.apps.tickets.weights import Weights


@dataclass(frozen=True, slots=True)
class Preset:
    """Weights for a purpose."""

    name: str
    weights: Weights
    about: str


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        name: Preset(name, Weights(*weights), about)
        for name, weights, about in (
            ("semantic_match", (0.9, 0.1), "what says the same, whatever its priority"),
            ("balanced", (0.7, 0.3), "the default"),
            ("priority_focused", (0.5, 0.5), "what was urgent and soon resolved, among what is alike"),
            ("fast_resolution", (0.6, 0.4), "what is alike and was soon resolved"),
        )
    }
)
"""By name."""


def preset(name: str) -> Preset:
    """The preset of that name, whatever its case, with spaces or hyphens too: ``Priority-Focused``.

    Raises ``ProcessingError`` naming those there are.
    """
    found = PRESETS.get(re.sub(r"[\s_-]+", "_", name.strip().casefold())) if isinstance(name, str) else None
    if found is None:
        raise ProcessingError(f"there is no preset {name!r:.80}; there are {', '.join(PRESETS)}")
    return found
