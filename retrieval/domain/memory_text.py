"""The text of a memory: what of its content is searched, and when two of them are the same."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

_WORD = re.compile(r"\w+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def extract_text(content: Any) -> str:
    """The searchable text of a content: a text as it stands; of another JSON value its values in order, a line each.

    Each value of an object has its key before it, in words: ``{"nextSteps": ["a", "b"]}`` gives the lines
    ``next steps: a`` and ``next steps: b``. Nothing stands for null; true and false are ``yes`` and ``no``.
    """
    return content if isinstance(content, str) else "\n".join(_lines(content, ""))


def _lines(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _lines(inner, f"{key} {readable(str(name))}".strip())
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        for inner in value:
            yield from _lines(inner, key)
    elif (said := _said(value)) and said.strip():
        yield f"{key}: {said}" if key else said


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, date):  # a datetime too
        return value.isoformat()
    return "" if value is None else str(value)


def readable(key: str) -> str:
    """A key in words: ``nextSteps`` and ``next_steps`` are both ``next steps``."""
    return " ".join(_HUMP.sub(" ", key).replace("_", " ").replace("-", " ").split()).lower()


def normalised(text: str) -> str:
    """The text's words in their order, in lower case, whatever stands between them and however they are encoded."""
    return " ".join(words(text))


def words(text: str) -> list[str]:
    """The words of a text in their order, in lower case."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def fingerprint(project_id: str, text: str) -> str:
    """32 hexadecimal digits: the same for texts of one project that are the same once normalised.

    A text without any word is its own norm.
    """
    said = f"{len(project_id)}:{project_id}{normalised(text) or text.strip()}"
    return hashlib.sha256(said.encode()).hexdigest()[:32]
