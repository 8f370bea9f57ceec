"""A session is ended: what it was about is stored as a trace, for the tags of those to come."""

from __future__ import annotations

from pathlib import Path

from retrieval.apps.principles.choosing import normalised_tags
from retrieval.apps.principles.startup.options import EndOptions
from retrieval.apps.principles.startup.surroundings import HookInput, Surroundings
from retrieval.apps.principles.store import PrincipleStore
from retrieval.apps.principles.traces import Trace
from retrieval.domain.checks import clean_text
from retrieval.platform import Platform

MOST_TAGS = 30
"""Tags of a trace: more would say nothing."""

_LONGEST_TITLE = 200


async def end_session(platform: Platform, options: EndOptions, hook: HookInput, context: Surroundings) -> Trace:
    """Store the session's trace; one that was stored for the same session before is replaced.

    Raises ``RetrievalError``.
    """
    session = options.session or hook.session
    folder = options.folder or Path(hook.folder or ".")
    return await PrincipleStore(platform, options.collection).add_trace(
        title=_line(options.title or default_title(folder, context))[:_LONGEST_TITLE],
        tags=normalised_tags([*map(_line, options.tags), *context.project_tags][:MOST_TAGS]),
        outcome=options.outcome,
        trace_id=session or None,
        session=session,
    )


def _line(text: str) -> str:
    """The text as it can be stored: names of folders, messages of commits and a command line may hold anything."""
    return clean_text(text, is_line=True)


def default_title(folder: Path, context: Surroundings) -> str:
    """The folder's name, and the subject of the latest commit where there is one."""
    name = folder.absolute().name or "session"
    return f"{name}: {context.recent_commits[0]}" if context.recent_commits else name
