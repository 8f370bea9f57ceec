"""The same answers as text, for a model to read: what is stored is quoted."""

from __future__ import annotations

from collections.abc import Sequence

from retrieval.apps.principles.principle import ACTIVE, CANDIDATE
from retrieval.domain.stored_text import STORED_NOTE, named, provenance, quoted, quoted_block
from retrieval.surfaces.mcp.values import PrincipleAnswer, TagAnswer

NOTHING_FOUND = (
    "No principle matches. Try other words, or fewer tags (list_tags names those in use); "
    "what you learn yourself can be kept with add_principle."
)
RATE_THEM = (
    "Once you know whether one of them helped, say so: rate_principle(principle_id, was_helpful). "
    'Those marked "(exploring)" have little or no record yet; your rating decides about them.'
)
NOT_BY_MEANING = "Note: this search went by tags, words and record alone, not by meaning; what is missing may be there."
CANDIDATE_NOTE = (
    "It is a candidate: given to be tried out and marked so, where exploration is asked for, until ratings prove it."
)
_ADDED_NOTES = {
    ACTIVE: "It was known already, has proved itself, and stays as it is.",
    CANDIDATE: CANDIDATE_NOTE,
}
FAILED_NOTE = "It was tried before and did not help, so it is not given any more. Say it otherwise if you know better."
NO_TAGS = "No principle has a tag yet."


def found_text(principles: Sequence[PrincipleAnswer], notes: Sequence[str] = ()) -> str:
    """What a search found, with what to do about it, and what it went without."""
    parts = [STORED_NOTE, *map(principle_text, principles), RATE_THEM] if principles else [NOTHING_FOUND]
    return "\n\n".join([*parts, *notes])


def added_note(status: str) -> str:
    """What becomes of a principle that was added, by the status in which it is then: its text may have been known."""
    return _ADDED_NOTES.get(status, FAILED_NOTE)


def loaded_text(session_id: str, principles: Sequence[PrincipleAnswer]) -> str:
    """What a session was started with."""
    if not principles:
        return f"No principles are known to have been given to session {session_id!r} when it started."
    return "\n\n".join([f"Session {session_id!r} was started with:", STORED_NOTE, *map(principle_text, principles)])


def rated_text(principle: PrincipleAnswer) -> str:
    """A principle as it stands after a rating."""
    return "\n\n".join(["Feedback recorded.", STORED_NOTE, principle_text(principle)])


def added_text(principle: PrincipleAnswer, note: str) -> str:
    """A principle that was added, and what becomes of it."""
    return "\n\n".join([STORED_NOTE, principle_text(principle), note])


def tags_text(tags: Sequence[TagAnswer]) -> str:
    """The tags in use, each with the number of principles that bear it."""
    return ", ".join(f"{named(one.tag)} ({one.principles})" for one in tags) if tags else NO_TAGS


def principle_text(principle: PrincipleAnswer) -> str:
    """``**[id]** (exploring) "title"``, the body behind ``>``, and a line of tags and figures."""
    mark = " (exploring)" if principle.exploring else ""
    lines = [f"**[{named(principle.id)}]**{mark} {quoted(principle.title)}"]
    if principle.body:
        lines.append(quoted_block(principle.body))
    return "\n".join([*lines, standing_text(principle)])


def standing_text(principle: PrincipleAnswer) -> str:
    """Its tags, its score, who added it, and how often it helped."""
    parts = [f"tags: {', '.join(map(named, principle.tags))}"] if principle.tags else []
    helped = round((principle.success_rate or 0) * principle.use_count)
    parts += [f"score {principle.score:.2f}", provenance(principle.added_by, principle.use_count, helped)]
    if principle.status != ACTIVE:
        parts.append(principle.status)
    return " · ".join(parts)
