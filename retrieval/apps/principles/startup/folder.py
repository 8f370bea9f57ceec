"""A session's folder, looked at: its manifests, and what git knows of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from retrieval.apps.principles.startup.git_history import GitHistory
from retrieval.apps.principles.startup.project import project_tags
from retrieval.apps.principles.startup.surroundings import Surroundings, surroundings

GIT_SHARE = 0.4
"""Of the time that there is, git may take so much; principles without commits are better than none."""


def look_around(folder: Path, deadline: float, say: Callable[[str], None]) -> Surroundings:
    """What the folder tells, well before the deadline (``time.monotonic`` seconds); ``say`` takes hints."""
    try:
        place = folder.resolve(strict=True)
    except (OSError, RuntimeError):  # gone, a name that none can have, a loop of links
        say(f"{str(folder)!r:.200} is no folder; going on without it")
        return Surroundings()
    git = GitHistory(place)
    tags = project_tags(place)
    now = time.monotonic()
    history = git.history(now + GIT_SHARE * max(0.0, deadline - now))
    if history.was_late:
        say("git took too long; going on without all that it knows")
    return surroundings(history, tags)
