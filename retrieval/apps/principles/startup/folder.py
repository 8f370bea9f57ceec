"""A session's folder, looked at: its manifests, and what git knows of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from retrieval.apps.principles.startup.git_history import GitHistory
from retrieval.apps.principles.startup.project import project_tags
from retrieval.apps.principles.startup.surroundings import Surroundings, surroundings

SHARE = 0.4
"""Of the time left, manifests and then git may each take so much; principles without tags are better than none."""


def look_around(folder: Path, deadline: float, say: Callable[[str], None]) -> Surroundings:
    """What the folder tells, well before the deadline (``time.monotonic`` seconds); ``say`` takes hints."""
    try:
        place = folder.resolve(strict=True)
    except (OSError, RuntimeError):  # gone, a name that none can have, a loop of links
        say(f"{str(folder)!r:.200} is no folder; going on without it")
        return Surroundings()
    git = GitHistory(place)
    tags = project_tags(place, deadline=_after_share(deadline))
    history = git.history(_after_share(deadline))
    if history.was_late:
        say("git took too long; going on without all that it knows")
    return surroundings(history, tags)


def _after_share(deadline: float) -> float:
    now = time.monotonic()
    return now + SHARE * max(0.0, deadline - now)
