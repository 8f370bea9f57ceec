"""Markdown pages as tests read them: code blocks, links, headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (\S.*?) -->\s*\Z")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of code."""

    page: Path
    line: int
    """The line of the opening fence, counted from 1."""
    language: str
    text: str
    not_run: str
    """The reason why it is not run; empty: it is run."""

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def pages(root: Path) -> list[Path]:
    """The README and every page of the documentation."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[Block]:
    """The page's blocks in that language, in order."""
    return [block for block in _blocks(page) if block.language == language]


def links(page: Path) -> list[str]:
    """The targets of the page's links, without those in code blocks."""
    return _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """The names under which the page's headings can be linked to."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(text)}


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        before = text[: match.start()]
        mark = _NOT_RUN.search(before)
        yield Block(page, before.count("\n") + 1, match[1], match[2], mark[1] if mark else "")
