"""How an item has fared so far, in plain counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """An item's verdicts in all contexts, as raw counts: nothing fades."""

    item_id: str
    created_at: datetime
    """When the item was stored first."""
    uses: int
    """Verdicts that count."""
    successes: int
    """Of those, the ones with a reward of at least 0.5."""
    last_used_at: datetime | None
    """The time of the latest of them; None: there is none."""
