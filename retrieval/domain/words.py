"""The words of a text; of scripts without spaces between words, pairs of characters, as in lexical search. Pure."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

UNSPACED = (
    "\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""The scripts without spaces between words, inside a regular expression's brackets; as in ``sql/search/terms.sql``."""

LETTERS = r"[^\W_]+(?:[{marks}]+[^\W_]+)*[{marks}]*"
"""Letters with their marks, and digits, for ``word_pattern``."""

_RUN = re.compile(f"[{UNSPACED}]+")
_WORD = r"\w[\w{marks}]*"
_SIGNED_WORD = rf"{_WORD}(?:[+#]+(?!\w))?|(?<!\w)[-\u2212](?=\d){_WORD}"
_OTHER_FORMS = re.compile("[\ufb00-\ufb06\uff00-\uffef]+")


@cache
def _marks() -> str:
    """The characters that complete the letter before them, such as vowel signs; Python does not count them to words."""
    return "".join(mark for mark in map(chr, range(0x300, 0xFE00)) if unicodedata.category(mark) in {"Mn", "Mc"})


def word_pattern(form: str, text: str, flags: int = 0) -> re.Pattern[str]:
    """The regular expression for the text; ``{marks}`` within its brackets stands for those that complete letters."""
    return _compiled(form, flags, is_marked=has_marks(text))


@lru_cache(maxsize=256)
def _compiled(form: str, flags: int, *, is_marked: bool) -> re.Pattern[str]:
    # To compile an expression with all marks takes a millisecond, so texts without any have one without them.
    return re.compile(form.replace("{marks}", _marks() if is_marked else "\u0300"), flags)


def usual_form(text: str) -> str:
    """The text with composed characters, usual widths and no ligatures; as in ``sql/search/terms.sql``."""
    return unicodedata.normalize("NFC", _OTHER_FORMS.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text))


def lowered(text: str) -> str:
    """The text in lower case, with one spelling of each letter: composed, and of the usual width."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()


def words(text: str) -> list[str]:
    """The words of a text in their order, in lower case; a run of a script without spaces is one word.

    A number keeps its minus, and a name its last signs: ``-5``, ``c++`` and ``c#`` are words.
    """
    text = lowered(text)
    return word_pattern(_SIGNED_WORD, text).findall(text)


@cache
def _symbol() -> re.Pattern[str]:
    signs = "".join(sign for sign in map(chr, range(0x10000)) if unicodedata.category(sign) in {"Sm", "Sc"})
    return re.compile(f"[{re.escape(signs)}]")


def symbols(text: str) -> list[str]:
    """The symbols of mathematics and currencies in their order: ``<`` and ``€`` say something, punctuation does not."""
    return _symbol().findall(lowered(text))


def question_of(text: str) -> str:
    """The words of a query without case and punctuation: the same key each time it is asked; empty: it has no text."""
    return " ".join(words(text)) or text


def has_marks(text: str) -> bool:
    """Whether letters of the text are completed by marks: regular expressions take these for the ends of words."""
    return not text.isascii() and _compiled("[{marks}]", 0, is_marked=True).search(text) is not None


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
    return frozenset({*word_pattern(_WORD, spaced).findall(spaced), *pairs(runs)})
