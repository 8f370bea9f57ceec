"""The doctor: facts about an installation are read in few statements, and pure checks say what they mean.

``diagnose`` reads and checks; ``diagnose_closed`` does what can be done where the platform does not open.
"""

from retrieval.jobs.doctor.closed import diagnose_closed
from retrieval.jobs.doctor.diagnose import diagnose

__all__ = ["diagnose", "diagnose_closed"]
