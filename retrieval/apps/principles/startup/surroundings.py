"""What a session is about, as far as its folder tells."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.apps.principles.startup.git_history import History
from retrieval.apps.principles.startup.keywords import keywords
from retrieval.apps.principles.startup.languages import tags_of_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The tags that principles are matched by, and what they come from."""

    recent_commits: tuple[str, ...] = ()
    """First lines of the latest commits' messages, the latest first."""
    changed_files: tuple[str, ...] = ()
    """Paths that changed in them."""
    project_tags: tuple[str, ...] = ()
    """By manifests, and by the names of the files that changed."""
    keywords: tuple[str, ...] = ()
    """Of the commits' messages."""

    @property
    def tags(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.project_tags, *self.keywords)))


def surroundings(history: History, project_tags: tuple[str, ...]) -> Surroundings:
    """What follows from the history and the tags of the manifests."""
    return Surroundings(
        recent_commits=history.subjects,
        changed_files=history.files,
        project_tags=tuple(dict.fromkeys((*project_tags, *tags_of_files(history.files)))),
        keywords=keywords(history.subjects),
    )
