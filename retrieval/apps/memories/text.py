"""A memory's text as it is shown: content on one line, shortened, and without marks that would change the page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from retrieval.domain.signals.keyword import tokens
from retrieval.domain.stored_text import shown_line

CONTENT_CHARACTERS = 500
"""Characters of a memory's content that are shown, unless a call says otherwise."""

ELLIPSIS = "..."

_MAX_NESTING = 8
_MARKS = re.compile(r"\\*(?:`{3,}|~{3,}|\*{2,}|_{2,}|#{2,}|<!--|-->)")
"""What begins a fence, a label, a heading or a comment, with what would undo a backslash before it."""


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
