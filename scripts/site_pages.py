"""A hook of MkDocs: what the documentation links to outside of its folder becomes part of the site.

The pages link to files of the repository as they lie there, so that they read well without the site too. Here those
files, and what they link to in turn, are added under ``repository/``, and the links are turned to where things lie now.
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
    waiting = [f"{DOCS}/{one.src_uri}" for one in files.documentation_pages()]
    known = set(waiting)
    while waiting:
        for linked in _linked(waiting.pop()):
            if linked not in known and not linked.startswith(f"{DOCS}/"):
                known.add(linked)
                waiting.append(linked)
                content = (ROOT / linked).read_bytes()
                inclusion = InclusionLevel.NOT_IN_NAV
                files.append(File.generated(config, _place(linked), content=content, inclusion=inclusion))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text with its links turned."""
    source = _source(page.file.src_uri)
    here = posixpath.dirname(_place(source))

    def turned(match: re.Match[str]) -> str:
        target = _target(source, match["path"])
        if target is None:
            return match[0]
        return posixpath.relpath(_place(target), here or ".") + (match["anchor"] or "")

    # Of the parts that a pattern with a group splits a text into, the code stands at the odd places.
    parts = _FENCE.split(markdown)
    return "".join(part if place % 2 else _LINK.sub(turned, part) for place, part in enumerate(parts))


def _linked(source: str) -> Iterator[str]:
    if source.endswith(".md"):
        text = _FENCE.sub("", (ROOT / source).read_text(encoding="utf-8"))
        targets = (_target(source, match["path"]) for match in _LINK.finditer(text))
        yield from (target for target in targets if target is not None)


def _target(source: str, link: str) -> str | None:
    """The file of the repository that a link leads to."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return path if not path.startswith("..") and (ROOT / path).is_file() else None


def _place(path: str) -> str:
    """Where a file of the repository lies in the site."""
    inside, folder = path.removeprefix(f"{DOCS}/"), f"{DOCS}/"
    return inside if path.startswith(folder) else f"{OUTSIDE}/{path}"


def _source(place: str) -> str:
    inside = place.removeprefix(f"{OUTSIDE}/")
    return inside if place.startswith(f"{OUTSIDE}/") else f"{DOCS}/{place}"
