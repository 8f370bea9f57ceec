"""Snippets: the part of a text that holds most of a query's words, with these words marked. Pure."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from retrieval.domain.serialization import Serializable
from retrieval.domain.words import pairs, usual_form, word_pattern

SMALLEST, LARGEST = 20, 2000
"""Characters of a snippet."""

READ = 20_000
"""Characters of a text that are read; the rest is in no snippet."""

MARKS = ("\ue000", "\ue001")
"""The signs before and behind a word that the database marked: private characters of Unicode."""

Span = tuple[int, int]
"""The positions where a marked word begins and ends."""


@dataclass(frozen=True, slots=True)
class Snippet(Serializable):
    """A part of a hit's text, with the places of the query's words in it."""

    serialized_properties: ClassVar[tuple[str, ...]] = ("html",)

    text: str
    """Plain text, with an ellipsis where it is cut; at most the characters asked for, without the ellipses."""
    highlights: tuple[Span, ...] = ()
    """The places in characters where the query's words begin and end in the text; in order, none within another."""

    @property
    def html(self) -> str:
        """The text for a page: escaped, each of the query's words in ``<mark>``."""
        parts, position = [], 0
        for start, end in self.highlights:
            parts.append(f"{html.escape(self.text[position:start])}<mark>{html.escape(self.text[start:end])}</mark>")
            position = end
        return "".join(parts) + html.escape(self.text[position:])

    def __str__(self) -> str:
        return self.text


def snippet_of(text: str, marked: str, words: str, prefixes: Sequence[str], size: int) -> Snippet:
    """The snippet of a text; prefixes and pairs of characters are marked here.

    ``marked``: the text as the database reads it, with marks: some characters are others, but each has its place.
    """
    spans = _merge([*_marked_spans(marked), *_prefix_spans(text, prefixes), *_pair_spans(text, words)])
    start, end = _best_window(text, spans, size)
    shown = [(span - start, other - start) for span, other in spans if start <= span and other <= end]
    part = text[start:end]
    before, behind = "…" * (start > 0), "…" * (end < len(text) or len(text) >= READ)
    return Snippet(
        f"{before}{part}{behind}", tuple((begin + len(before), other + len(before)) for begin, other in shown)
    )


def _marked_spans(marked: str) -> Iterator[Span]:
    """The places between two marks, without counting the marks."""
    position = begin = 0
    for piece in re.split(f"([{''.join(MARKS)}])", marked):
        if piece == MARKS[0]:
            begin = position
        elif piece == MARKS[1]:
            yield begin, position
        else:
            position += len(piece)


def _prefix_spans(text: str, prefixes: Sequence[str]) -> Iterator[Span]:
    # One expression for all, because each pass over a long text costs a millisecond.
    longest_first = "|".join(map(re.escape, sorted(prefixes, key=len, reverse=True)))
    beginning = rf"(?<![\w{{marks}}])(?:{longest_first})[\w{{marks}}]*"
    for match in word_pattern(beginning, text, re.IGNORECASE).finditer(text) if prefixes else ():
        yield match.span()


def _pair_spans(text: str, words: str) -> Iterator[Span]:
    wanted = pairs(usual_form(words))
    for start in range(len(text)) if wanted else ():
        yield from ((start, start + size) for size in (1, 2) if text[start : start + size] in wanted)


def _merge(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, with overlapping spans merged."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _best_window(text: str, spans: Sequence[Span], size: int) -> Span:
    """Find the part with the most marked words: the most different ones first, then the most of all."""
    if len(text) <= size:
        return 0, len(text)
    spelt = [text[start:end].casefold() for start, end in spans]
    best, first, last = (0, 0), 0, 0
    within = Counter[str]()
    behind = 0  # the index after the last word within the part
    for index, (start, _) in enumerate(spans):
        while behind < len(spans) and spans[behind][1] <= start + size:
            within[spelt[behind]] += 1
            behind += 1
        count = (len(within), behind - index)
        if count > best:
            best, first, last = count, start, spans[behind - 1][1]
        if behind == index:  # this word alone is longer than the part
            behind += 1
        elif within[spelt[index]] == 1:
            del within[spelt[index]]
        else:
            within[spelt[index]] -= 1
    start = max(0, min(first - (size - (last - first)) // 2, len(text) - size))
    return _at_words(text, (start, start + size), (first, last))


def _at_words(text: str, window: Span, required: Span) -> Span:
    """The window without cut words at its ends, as long as it contains the span ``required``."""
    start, end = window
    spaces = [match.start() for match in re.finditer(r"\s", text[start:end])]
    if start > 0 and not text[start - 1].isspace() and spaces and start + spaces[0] < (required[0] or end):
        start += spaces[0] + 1
    if end < len(text) and not text[end].isspace() and spaces and window[0] + spaces[-1] >= required[1]:
        end = window[0] + spaces[-1]
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, max(end, start)
