"""A hook of MkDocs that adds linked files outside the documentation's folder to the site.

The pages link to files of the repository by their paths, so that the links also work without the site. This hook adds
these files, and the files that they link to, under ``repository/``, and rewrites the links.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
DOCS = "docs"
OUTSIDE = "repository"

_LINK = re.compile(r'(?:(?<=\]\()|(?<=\bsrc=")|(?<=\bsrcset="))(?P<path>[^)\s"#:]+)(?P<anchor>#[^)\s"]*)?(?=[)"])')
_FENCE = re.compile(r"^(```.*?^```[ \t]*$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the files that pages link to."""
    waiting = [f"{DOCS}/{page.src_uri}" for page in files.documentation_pages()]
    seen = set(waiting)
    while waiting:
        for linked in _linked(waiting.pop()):
            if linked not in seen and not linked.startswith(f"{DOCS}/"):
                seen.add(linked)
                waiting.append(linked)
                content = (ROOT / linked).read_bytes()
                inclusion = InclusionLevel.NOT_IN_NAV
                files.append(File.generated(config, _place(linked), content=content, inclusion=inclusion))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text with its links rewritten."""
    source = _source(page.file.src_uri)
    here = posixpath.dirname(_place(source))

    def rewrite(match: re.Match[str]) -> str:
        target = _target(source, match["path"])
        if target is None:
            return match[0]
        return posixpath.relpath(_place(target), here or ".") + (match["anchor"] or "")

    # A pattern with a group splits the text so that code blocks are at odd positions.
    parts = _FENCE.split(markdown)
    return "".join(part if place % 2 else _LINK.sub(rewrite, part) for place, part in enumerate(parts))


def _linked(source: str) -> Iterator[str]:
    if source.endswith(".md"):
        text = _FENCE.sub("", (ROOT / source).read_text(encoding="utf-8"))
        targets = (_target(source, match["path"]) for match in _LINK.finditer(text))
        yield from (target for target in targets if target is not None)


def _target(source: str, link: str) -> str | None:
    """The target of a link in the repository."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return path if not path.startswith("..") and (ROOT / path).is_file() else None


def _place(path: str) -> str:
    """The path of a repository's file in the site."""
    inside, folder = path.removeprefix(f"{DOCS}/"), f"{DOCS}/"
    return inside if path.startswith(folder) else f"{OUTSIDE}/{path}"


def _source(place: str) -> str:
    inside = place.removeprefix(f"{OUTSIDE}/")
    return inside if place.startswith(f"{OUTSIDE}/") else f"{DOCS}/{place}"
