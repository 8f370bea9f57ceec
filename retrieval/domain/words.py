"""The words of a text; of scripts without spaces between words, pairs of characters, as in lexical search. Pure."""

from __future__ import annotations

import re
import unicodedata

UNSPACED = (
    "\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""The scripts without spaces between words, inside a regular expression's brackets; as in ``sql/search/terms.sql``."""

_RUN = re.compile(f"[{UNSPACED}]+")
_WORD = re.compile(r"\w+")


def lowered(text: str) -> str:
    """The text in lower case, with one spelling of each letter: composed, and of the usual width."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()


def words(text: str) -> list[str]:
    """The words of a text in their order, in lower case; a run of a script without spaces is one word."""
    return _WORD.findall(lowered(text))


def apart(text: str) -> tuple[str, str]:
    """The text without the scripts that have no spaces between words, and their runs, with spaces between them."""
    if text.isascii() or _RUN.search(text) is None:
        return text, ""
    return _RUN.sub(" ", text), " ".join(_RUN.findall(text))


def pairs(text: str) -> set[str]:
    """Each character of a script without spaces with the next one of its run; a single character by itself."""
    runs = _RUN.findall(text)
    return {run[place : place + 2] for run in runs for place in range(max(len(run) - 1, 1))}


def terms(text: str) -> frozenset[str]:
    """The distinct words of a text, in lower case; of scripts without spaces the pairs of characters."""
    spaced, runs = apart(lowered(text))
    return frozenset({*_WORD.findall(spaced), *pairs(runs)})
