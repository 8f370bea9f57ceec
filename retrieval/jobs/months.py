"""Make the tables of the months to come, for recorded searches, and drop those that have been kept long enough.

The months are the installation's: every collection's job looks at the same ones, and the first one does the work.
"""

from __future__ import annotations

from typing import Any

from retrieval.adapters.store.records.retention import are_months_in_question, drop_months, ensure_months
from retrieval.jobs.workplace import Advance, Target, Workplace, unheeded


async def are_months_due(workplace: Workplace, _target: Target) -> bool:
    """Whether a month is missing, or may go."""
    return await are_months_in_question(workplace.database, workplace.settings.retention_retrievals_days)


async def keep_months(workplace: Workplace, _target: Target, advance: Advance = unheeded) -> dict[str, Any]:
    """Make and drop months; gives how many tables of each."""
    made = await ensure_months(workplace.database)
    advance(made)
    dropped = await drop_months(workplace.database, workplace.settings.retention_retrievals_days)
    advance(made + dropped)
    return {"made": made, "dropped": dropped}
