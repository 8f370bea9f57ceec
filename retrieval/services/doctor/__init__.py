"""The doctor: facts about an installation are read in few statements, and pure checks say what they mean.

``diagnose`` reads and checks; ``examine`` opens the database for it; ``diagnose_closed`` does what
can be done where it does not open; ``examine_collection`` is the job.
"""

from __future__ import annotations

from retrieval.services.doctor.diagnose import diagnose, diagnose_closed, examine, examine_collection

__all__ = ["diagnose", "diagnose_closed", "examine", "examine_collection"]
