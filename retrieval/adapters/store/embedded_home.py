"""Where the embedded PostgreSQL lives, unless the settings say another place."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def default_home() -> Path:
    """Return the home of this user's embedded server: in the user's data directory, root's in /var/lib."""
    if sys.platform != "win32" and os.geteuid() == 0:
        return Path("/var/lib/retrieval")
    import platformdirs

    return Path(platformdirs.user_data_dir("retrieval", appauthor=False))
