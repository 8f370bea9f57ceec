"""Memories as Markdown for a prompt: each with its time, relevance, summary and content, within bounds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from retrieval.apps.memories.bounds import UNBOUNDED, Bounds
from retrieval.apps.memories.relevant_memory import RelevantMemory
from retrieval.apps.memories.text import CONTENT_CHARACTERS, escaped, format_content, one_line, shortened

NOTHING = "Nothing relevant is remembered."

SUMMARY_CHARACTERS = 300
_TYPE_CHARACTERS = 100

_LEAST_CONTENT = 40
"""Characters of content below which a memory that does not fit is better left out."""


@dataclass(frozen=True, slots=True)
class ContextText:
    """What goes into a prompt."""

    text: str
    """Markdown; empty where none of the memories fits, or not even the page that says that there are none."""
    shown: tuple[RelevantMemory, ...]
    """The memories on the page."""


def context_text(
    memories: Sequence[RelevantMemory], bounds: Bounds = UNBOUNDED, *, content_characters: int = CONTENT_CHARACTERS
) -> ContextText:
    """The memories as Markdown, in their order, as many as the bounds allow.

    The last one's content is shortened where only a part of it fits; what stands above a memory's content is never cut.
    """
    blocks: list[str] = []
    for number, memory in enumerate(memories, 1):
        content = _content(memory, content_characters)
        block = _block(number, memory, content)
        if not bounds.fits(_page([*blocks, block])):
            blocks += _fitted(blocks, number, memory, content, bounds)
            break
        blocks.append(block)
    page = _page(blocks)
    return ContextText(page if blocks or (not memories and bounds.fits(page)) else "", tuple(memories[: len(blocks)]))


def _fitted(blocks: Sequence[str], number: int, memory: RelevantMemory, content: str, bounds: Bounds) -> list[str]:
    """The memory with as much of its content as fits; none where that is next to nothing."""
    low, high = _LEAST_CONTENT - 1, len(content)
    while high - low > 1:
        middle = (low + high) // 2
        if bounds.fits(_page([*blocks, _block(number, memory, shortened(content, middle))])):
            low = middle
        else:
            high = middle
    return [_block(number, memory, shortened(content, low))] if low >= _LEAST_CONTENT else []


def _page(blocks: Sequence[str]) -> str:
    title = f"## Previous Context ({len(blocks)} relevant memories)"
    return "\n\n".join([title, *(blocks or [NOTHING])])


def _block(number: int, memory: RelevantMemory, content: str) -> str:
    created = memory.occurred_at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    return "\n".join(
        [
            f"### Memory {number} ({_shown(memory.interaction_type, _TYPE_CHARACTERS)})",
            f"**Created**: {created}",
            f"**Relevance**: {memory.computed_relevance_score:.2f}",
            f"**Summary**: {_shown(memory.summary or memory.text, SUMMARY_CHARACTERS)}",
            f"**Content**: {escaped(content)}",
        ]
    )


def _content(memory: RelevantMemory, most: int) -> str:
    return format_content(memory.text if memory.content is None else memory.content, most)


def _shown(text: str, most: int) -> str:
    return escaped(shortened(one_line(text), most))
