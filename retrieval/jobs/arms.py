"""Keep the arms right: recount them from their events, alarm on drift, move the landmark, retire old events."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from retrieval.adapters.store.learning.arms import (
    Decay,
    items_with_feedback,
    read_decay,
    recount_arms,
    retire_feedback,
    set_decay,
)
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded

_log = logging.getLogger(__name__)

PAGE_ITEMS = 500
TOLERANCE = 1e-9
"""Relative difference of a decayed sum that is rounding and no drift."""

MOST_HALF_LIVES = 100
"""How far the moment may be from the landmark before that is moved."""


async def has_feedback(workplace: Workplace, target: Target) -> bool:
    """Whether the collection has any arm or event."""
    where = (workplace.database, target.tenant_id, target.collection.collection_id)
    return bool(await items_with_feedback(*where, after="", most=1))


async def keep_arms(
    workplace: Workplace, target: Target, advance: Advance = unheeded, *, now: datetime | None = None
) -> dict[str, Any]:
    """Recount every arm of the collection from its events, page by page, and mend those that are off.

    Each page is right when it is done: an interruption costs nothing. What is off is a fault somewhere, and logged.
    """
    moment = now or datetime.now(UTC)
    where = (workplace.database, target.tenant_id, target.collection.collection_id)
    is_moved = await _moved_landmark(workplace, target, moment)
    days = workplace.settings.retention_feedback_days
    arms = mended = retired = 0
    after = ""
    while page := await items_with_feedback(*where, after=after, most=PAGE_ITEMS):
        if days is not None:
            retired += await retire_feedback(*where, page, received_before=moment - timedelta(days=days))
        counted, off = await recount_arms(*where, page, tolerance=TOLERANCE)
        arms, mended, after = arms + counted, mended + off, page[-1]
        advance(arms)
        workplace.end_of_step()
    if mended:
        _log.warning(
            "%d of %d arms of %s had drifted from their events, and were mended", mended, arms, target.collection.name
        )
    return {"arms": arms, "mended": mended, "retired": retired, "landmark_moved": is_moved}


async def _moved_landmark(workplace: Workplace, target: Target, moment: datetime) -> bool:
    """Move the landmark to the moment where weights have grown large; whether it was."""
    where = (workplace.database, target.tenant_id, target.collection.collection_id)
    decay = await read_decay(*where)
    if abs(moment - decay.landmark) <= MOST_HALF_LIVES * timedelta(days=decay.half_life_days):
        return False
    await set_decay(*where, Decay(half_life_days=decay.half_life_days, landmark=moment), moment)
    return True
