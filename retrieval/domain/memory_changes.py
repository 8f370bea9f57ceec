"""What becomes of a stored memory: changed in part, or joined by one that says the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from retrieval.domain.entity_links import united
from retrieval.domain.errors import UnknownItemError
from retrieval.domain.memory import Memory, NewMemory
from retrieval.domain.stored_text import clean_text, clean_value


def to_store(memory: Memory) -> NewMemory:
    """The memory as it would be stored again: as it is, but for characters that are refused of new ones."""
    return NewMemory(
        memory_id=memory.memory_id,
        project_id=memory.project_id,
        interaction_type=clean_text(memory.interaction_type, is_line=True),
        content=clean_value(memory.content),
        occurred_at=memory.occurred_at,
        user_id=memory.user_id,
        links=clean_value(memory.links),
        summary=clean_text(memory.summary, is_line=True),
        relevance_score=memory.relevance_score,
        expires_at=memory.expires_at,
        metadata=clean_value(memory.metadata),
        status=memory.status,
        text=clean_text(memory.text),
    )


def changed(memory: Memory, changes: dict[str, Any]) -> NewMemory:
    """The memory with some of its fields replaced; its text stays unless its content is given.

    Raises what ``NewMemory`` raises.
    """
    known = to_store(memory)
    return replace(known, **{"text": None if "content" in changes else known.text, **changes})


def merged(known: Memory, other: NewMemory) -> NewMemory:
    """One memory of two that say the same: the text of the known one, the links of both, and of the rest the greater.

    It is as relevant as the more relevant one, happened when the later one did, and expires when the last one does. A
    summary, and metadata, that the known one has not, are the other's.
    """
    expiries = [known.expires_at, other.expires_at]
    return replace(
        to_store(known),
        links=united(known.links, other.links),
        summary=known.summary or other.summary,
        relevance_score=max(known.relevance_score, other.relevance_score),
        occurred_at=max(known.occurred_at, other.occurred_at),
        expires_at=None if None in expiries else max(one for one in expiries if one is not None),
        metadata={**other.metadata, **known.metadata},
    )


def has_expired(memory: Memory | NewMemory, now: datetime) -> bool:
    """Whether the memory's time is over."""
    return memory.expires_at is not None and memory.expires_at <= now


def check_current(memory: Memory | NewMemory, now: datetime) -> None:
    """Raises ``UnknownItemError`` for a memory whose time is over, which is soon forgotten."""
    if has_expired(memory, now):
        raise UnknownItemError(
            f"memory {memory.memory_id!r:.80} expired at {memory.expires_at}; store it anew to keep it"
        )


def may_join(known: Memory, other: NewMemory, now: datetime) -> bool:
    """Whether the two may become one: they are of the same project, user and type, and the known one is still found."""
    mine = (known.project_id, known.user_id, known.interaction_type)
    is_alike = mine == (other.project_id, other.user_id, other.interaction_type)
    return is_alike and known.status != "archived" and not has_expired(known, now)
