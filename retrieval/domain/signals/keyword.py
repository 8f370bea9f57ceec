"""How many of the question's words an item holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from retrieval.domain.signals.signal import Asked, Facts, Signal

STOP_WORDS = frozenset(
    "a an and are as at be been but by can could did do does for from had has have he her his how i if in into is it "  # noqa: SIM905 - a list would take seventy lines
    "its may me my no not of on or our she should so than that the their them then there these they this those to was "
    "we were what when where which who why will with would you your".split()
)
"""Words that tell nothing about what is asked."""

_FEW = 30
"""Up to so many words it is faster to look for them than to take all of the text apart."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordOverlap(Signal):
    """Words of the question that stand in the item / words of the question; 0 where it has none.

    Whole words, each counted once, whatever their case, without the stop words, and as they are written: no stems.
    """

    name: ClassVar[str] = "keyword"
    reads: ClassVar[frozenset[str]] = frozenset({"title", "body"})

    def compares(self, asked: Asked) -> bool:
        """Whether the question has words besides stop words."""
        return bool(tokens(asked.words))

    def value(self, facts: Facts, asked: Asked) -> float:
        """The share, 0 to 1."""
        wanted = tokens(asked.words)
        if not wanted:
            return 0.0
        text = f"{facts.title}\n{facts.body}".casefold()
        if len(wanted) > _FEW:
            return len(wanted.intersection(_WORD.findall(text))) / len(wanted)
        return len(set(_any_of(wanted).findall(text))) / len(wanted)


@lru_cache(maxsize=256)
def tokens(text: str) -> frozenset[str]:
    """The words of a text, in lower case, without stop words."""
    return frozenset(_WORD.findall(text.casefold())) - STOP_WORDS


@lru_cache(maxsize=256)
def _any_of(words: frozenset[str]) -> re.Pattern[str]:
    """What finds whole words in a text in lower case: of a few words, several times as fast as taking it all apart."""
    return re.compile(rf"\b(?:{'|'.join(sorted(words))})\b")
