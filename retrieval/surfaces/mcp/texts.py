"""The same answers as text, for a model to read."""

from __future__ import annotations

from collections.abc import Sequence

from retrieval.surfaces.mcp.values import PrincipleAnswer, TagAnswer

NOTHING_FOUND = (
    "No principle matches. Try other words, or fewer tags (list_tags names those in use); "
    "what you learn yourself can be kept with add_principle."
)
RATE_THEM = (
    "Once you know whether one of them helped, say so: rate_principle(principle_id, was_helpful). "
    'Those marked "(exploring)" have little or no record yet; your rating decides about them.'
)
NO_TAGS = "No principle has a tag yet."


def found_text(principles: Sequence[PrincipleAnswer]) -> str:
    """What a search found, with what to do about it."""
    return "\n\n".join([*map(principle_text, principles), RATE_THEM]) if principles else NOTHING_FOUND


def loaded_text(session_id: str, principles: Sequence[PrincipleAnswer]) -> str:
    """What a session was started with."""
    if not principles:
        return f"No principles are known to have been given to session {session_id!r} when it started."
    return "\n\n".join([f"Session {session_id!r} was started with:", *map(principle_text, principles)])


def tags_text(tags: Sequence[TagAnswer]) -> str:
    """The tags in use, each with the number of principles that bear it."""
    return ", ".join(f"{one.tag} ({one.principles})" for one in tags) if tags else NO_TAGS


def principle_text(principle: PrincipleAnswer) -> str:
    """``**[id]** (exploring) title``, the body, and a line of tags and figures."""
    mark = " (exploring)" if principle.exploring else ""
    lines = [f"**[{principle.id}]**{mark} {principle.title}"]
    if principle.body:
        lines.append(principle.body)
    return "\n".join([*lines, standing_text(principle)])


def standing_text(principle: PrincipleAnswer) -> str:
    """Its tags, its score, and how often it helped."""
    parts = [f"tags: {', '.join(principle.tags)}"] if principle.tags else []
    parts.append(f"score {principle.score:.2f}")
    parts.append(_record(principle))
    if principle.status != "active":
        parts.append(principle.status)
    return " · ".join(parts)


def _record(principle: PrincipleAnswer) -> str:
    if principle.success_rate is None:
        return "not rated yet"
    helped = round(principle.success_rate * principle.use_count)
    return f"helped in {helped} of {principle.use_count} uses"
