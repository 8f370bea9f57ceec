"""Memories as Markdown for a prompt: each with time, relevance, record, summary and content, within bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from types import MappingProxyType
from typing import Any

from retrieval.apps.memories.ranking import RelevantMemory
from retrieval.apps.memories.requests import UNBOUNDED, Bounds
from retrieval.domain.checks import STORED_NOTE, named, provenance, quoted_block, shown_line
from retrieval.domain.learning.arm import Standing
from retrieval.domain.search.signals import tokens

CONTENT_CHARACTERS = 500
"""Characters of a memory's content that are shown, unless a call says otherwise."""

ELLIPSIS = "..."

_MAX_NESTING = 8
_MARKS = re.compile(r"\\*(?:`{3,}|~{3,}|\*{2,}|_{2,}|#{2,}|<!--|-->)")
"""The characters that begin a fence, a label, a heading or a comment, with those that undo a backslash before them."""


def tokenize(text: str) -> frozenset[str]:
    """The words that are matched: in lower case, each once, without stop words."""
    return tokens(text)


def shortened(text: str, most: int) -> str:
    """The text, or its beginning with three dots: at most so many characters."""
    if len(text) <= most:
        return text
    return text[: most - len(ELLIPSIS)].rstrip() + ELLIPSIS if most > len(ELLIPSIS) else ELLIPSIS[: max(most, 0)]


def escaped(line: str) -> str:
    """The line with a backslash before each sign of a fence, bold label, heading or comment, so that it is none."""
    return _MARKS.sub(lambda found: "".join(f"\\{sign}" for sign in found[0]), line)


def format_content(content: Any, most: int = CONTENT_CHARACTERS) -> str:
    """The content on one line of at most ``most`` characters.

    A mapping is shown as ``Key findings: [a, b], Recommendations: [c]``; ``None`` is the empty text.
    """
    return shortened(shown_line(_said(content, 0)), most)


def _said(value: Any, depth: int) -> str:
    if value is None:
        return "" if depth == 0 else "none"
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if depth >= _MAX_NESTING:
        return ELLIPSIS
    if isinstance(value, Mapping):
        parts = ", ".join(f"{_label(name)}: {_said(part, depth + 1)}" for name, part in value.items())
        return parts if depth == 0 else f"({parts})"
    if isinstance(value, Sequence):
        return f"[{', '.join(_said(part, depth + 1) for part in value)}]"
    return str(value)


def _label(name: object) -> str:
    """``key_findings`` as people write it."""
    words = str(name).replace("_", " ").strip()
    return words[:1].upper() + words[1:]


NOTHING = "Nothing relevant is remembered."

SUMMARY_CHARACTERS = 300
_TYPE_CHARACTERS = 100

_LEAST_CONTENT = 40
"""Characters of content below which a memory that does not fit is better left out."""


@dataclass(frozen=True, slots=True)
class ContextText:
    """The text that goes into a prompt."""

    text: str
    """Markdown; empty where none of the memories fits, or not even the page that says that there are none."""
    shown: tuple[RelevantMemory, ...]
    """The memories on the page."""


def context_text(
    memories: Sequence[RelevantMemory],
    bounds: Bounds = UNBOUNDED,
    *,
    content_characters: int = CONTENT_CHARACTERS,
    standings: Mapping[str, Standing] = MappingProxyType({}),
) -> ContextText:
    """The memories as Markdown, in their order, as many as the bounds allow; ``standings`` tell how each has fared.

    What memories say stands behind ``>``, a line each, so that it passes for no line of the page.
    The last one's content is shortened where only a part of it fits; what else stands of a memory is never cut.
    """
    blocks: list[str] = []
    for number, memory in enumerate(memories, 1):
        content = _content(memory, content_characters)
        block_of = partial(_block, number, memory, standings.get(memory.memory_id))
        block = block_of(content)
        if not bounds.fits(_page([*blocks, block])):
            blocks += _fitted(blocks, block_of, content, bounds)
            break
        blocks.append(block)
    page = _page(blocks)
    return ContextText(page if blocks or (not memories and bounds.fits(page)) else "", tuple(memories[: len(blocks)]))


def _fitted(blocks: Sequence[str], block_of: Callable[[str], str], content: str, bounds: Bounds) -> list[str]:
    """The memory with as much of its content as fits; none where that is next to nothing."""
    low, high = _LEAST_CONTENT - 1, len(content)
    while high - low > 1:
        middle = (low + high) // 2
        if bounds.fits(_page([*blocks, block_of(shortened(content, middle))])):
            low = middle
        else:
            high = middle
    return [block_of(shortened(content, low))] if low >= _LEAST_CONTENT else []


def _page(blocks: Sequence[str]) -> str:
    title = f"## Previous Context ({len(blocks)} relevant memories)"
    return "\n\n".join([title, STORED_NOTE, *blocks] if blocks else [title, NOTHING])


def _block(number: int, memory: RelevantMemory, standing: Standing | None, content: str) -> str:
    created = memory.occurred_at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    return "\n".join(
        [
            f"### Memory {number} ({named(shown_line(memory.interaction_type, _TYPE_CHARACTERS))})",
            f"**Created**: {created}",
            f"**Relevance**: {memory.computed_relevance_score:.2f}",
            quoted_block(f"**Summary**: {_shown(memory.summary or memory.text, SUMMARY_CHARACTERS)}"),
            quoted_block(f"**Content**: {escaped(content)}"),
            f"**Record**: {_record(memory, standing)}",
        ]
    )


def _content(memory: RelevantMemory, most: int) -> str:
    return format_content(memory.text if memory.content is None else memory.content, most)


def _shown(text: str, most: int) -> str:
    return escaped(shortened(shown_line(text), most))


def _record(memory: RelevantMemory, standing: Standing | None) -> str:
    """``added by ann · helped in 2 of 3 uses · retrieved 7 times before``."""
    times = "once" if memory.accesses == 1 else f"{memory.accesses} times"
    uses, successes = (standing.uses, standing.successes) if standing else (0, 0)
    return f"{provenance(memory.user_id, uses, successes)} · retrieved {times} before"
