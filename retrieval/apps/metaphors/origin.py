"""Where a metaphor of a corpus came from, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a corpus keeps of a metaphor besides itself."""

    source: str
    """``static``, ``generated``, or an application's own word."""
    status: str
    """``active``: in the corpus; ``candidate``: not settled yet; ``archived``: rejected."""
    provenance: Mapping[str, Any]
    """What was said of where it came from, such as model and time; empty: nothing."""
