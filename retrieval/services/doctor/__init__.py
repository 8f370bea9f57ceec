"""The doctor: a few statements read the facts about an installation, and pure checks turn them into findings.

``diagnose`` reads and checks; ``examine`` opens the database for it; ``diagnose_closed`` checks an installation that
does not open; ``examine_collection`` is the job; ``renew_statistics`` runs the remedy of stale statistics.
"""

from __future__ import annotations

from retrieval.services.doctor.diagnose import (
    diagnose,
    diagnose_closed,
    examine,
    examine_collection,
    renew_statistics,
)

__all__ = ["diagnose", "diagnose_closed", "examine", "examine_collection", "renew_statistics"]
