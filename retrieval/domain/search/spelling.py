"""Corrections of words that no item holds, by edit distance (Damerau, 1964); completions of a text. Pure."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retrieval.domain.search.query import plain_parts
from retrieval.domain.serialization import Serializable
from retrieval.domain.words import usual_form, word_pattern

MAX_CHECKED = 64

MAX_CORRECTED = 8
"""Unknown words of a query that are corrected; the others stay as they are."""

SHORTEST, LONGEST = 4, 32
"""Letters of a word that can be corrected: shorter ones are near to too many others."""

LONG = 8
"""Letters from which on a word is compared two edits away."""

BEGINNING = 3
"""The number of first letters that a word and a term two edits away have in common."""

SHORTEST_TERM = 6
"""The least number of letters of a term that replaces a word two edits away."""

_ENDING = 4
"""The most letters at the end of a word that its term may lack."""

_ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "ßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿąćęłńśźżčďěňřšťůžăâîșțğışőűœ",
    "абвгдежзийклмнопрстуфхцчшщъыьэюяёєіїґў",
    "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋΐΰ",
)
_WORD = r"(?<![\w{marks}'’.@/-])[^\W\d_]+(?:[{marks}]+[^\W\d_]+)*[{marks}]*(?![\w{marks}'’@/-]|\.\w)"


class Word(NamedTuple):
    """A word of a query, and its place."""

    start: int
    end: int
    """The place after its last character: ``spelling`` may have another length, as that of İ has."""
    spelling: str


class NearWord(NamedTuple):
    """A known word near to an unknown one."""

    spelling: str
    edits: int
    items: int
    """The number of items that hold it, or another form of it."""


def checkable(query: str, *, syntax: bool) -> list[Word]:
    """The words of a query that may be misspelt, in order: no phrases, exclusions, prefixes, names (``HDFS``)."""
    parts = plain_parts(query) if syntax else [(0, query)]
    is_shouted = query.isupper()
    words = []
    for start, part in parts:
        for match in word_pattern(_WORD, part).finditer(part):
            written = match[0]
            if SHORTEST <= len(written) <= LONGEST and (is_shouted or not any(map(str.isupper, written[1:]))):
                words.append(Word(start + match.start(), start + match.end(), usual_form(written).lower()))
    return words[:MAX_CHECKED]


def one_edit_away(word: str, *, accents: bool) -> list[str]:
    """The spellings one edit away, each once. ``accents``: the word's language may have letters with accents."""
    usual = [alphabet for alphabet in _ALPHABETS if not set(alphabet).isdisjoint(word)]
    if accents and _ALPHABETS[0] in usual:
        usual.append(_ALPHABETS[1])
    letters = dict.fromkeys("".join(usual))  # those of the word's script
    halves = [(word[:index], word[index:]) for index in range(len(word) + 1)]
    spellings = [head + tail[1:] for head, tail in halves if tail]
    spellings += [head + tail[1] + tail[0] + tail[2:] for head, tail in halves if len(tail) > 1]
    spellings += [head + letter + tail[1:] for head, tail in halves if tail for letter in letters]
    spellings += [head + letter + tail for head, tail in halves for letter in letters]
    return [spelling for spelling in dict.fromkeys(spellings) if spelling != word]


def edits_to(word: str, term: str, most: int) -> int | None:
    """The edits from a word without up to ``_ENDING`` last letters to a term (optimal string alignment); or None."""
    if not len(term) - most <= len(word) <= len(term) + most + _ENDING:
        return None
    before: list[int] = []
    row = list(range(len(term) + 1))
    least = most + 1
    for index, letter in enumerate(word, 1):
        oldest, before, row = before, row, [index]
        for column, expected in enumerate(term, 1):
            edits = min(before[column] + 1, row[column - 1] + 1, before[column - 1] + (letter != expected))
            if index > 1 < column and letter == term[column - 2] and word[index - 2] == expected:
                edits = min(edits, oldest[column - 2] + 1)
            row.append(edits)
        if index >= len(word) - _ENDING:
            least = min(least, row[-1])
        if min(row) > most:
            break
    return least if least <= most else None


def likeliest(word: str, near: Iterable[NearWord]) -> NearWord | None:
    """Choose the near word that the word is most likely meant to be; None where there is none.

    Fewer edits first; then the number of items that hold it, by order of magnitude: a word with another first letter
    must be in e² times as many, and one with a letter replaced in e times as many as one with a letter left out.
    """

    def merit(known: NearWord) -> tuple[float, ...]:
        same_letters = sorted(word) == sorted(known.spelling) or len(word) != len(known.spelling)
        weighed = math.log1p(known.items) + (word[0] == known.spelling[0]) * 2 + same_letters
        return -known.edits, weighed, len(known.spelling)

    return max(near, key=lambda known: (*merit(known), known.spelling), default=None)


def spelling_of(term: str, word: str, texts: Iterable[str]) -> str | None:
    """The word of the texts that the term, such as "boundari", most likely stands for, given ``word``; or None."""
    beginning = term[:-1]
    spellings = (match[0].lower() for text in texts for match in word_pattern(_WORD, text).finditer(text))
    alike = [spelling for spelling in dict.fromkeys(spellings) if spelling.startswith(beginning)]
    matcher = difflib.SequenceMatcher(b=word, autojunk=False)

    def likeness(spelling: str) -> tuple[bool, float]:
        matcher.set_seq1(spelling)
        return spelling.startswith(term), matcher.ratio()

    return max(alike, key=likeness, default=None)


def respelt(query: str, words: Sequence[Word], instead: Mapping[str, str]) -> str:
    """The query with other spellings for some of its words."""
    for word in reversed(words):
        if word.spelling in instead:
            query = query[: word.start] + instead[word.spelling] + query[word.end :]
    return query


def note_of(instead: Mapping[str, str]) -> str:
    """The note that tells the caller which words were replaced."""
    replacements = ", ".join(f"{word!r} as {other!r}" for word, other in instead.items())
    return f"no item holds these words; they were taken for others: {replacements}"


COMPLETION_ITEMS = 200
"""The items that completions come from: the best by words."""

READ = 2000
"""Characters of an item's text that words are taken from."""

_SIGNS = "'’-"
"""Signs within a word."""

_BEGINS = r"(?<![\w{marks}])"

_WORD_FROM_BEHIND = rf"[\w{{marks}}{_SIGNS}]*"


class Title(NamedTuple):
    """An item whose title contains the typed text."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Completions(Serializable):
    """The completions of a text that is being typed."""

    queries: tuple[str, ...]
    """The text with its last word completed, by the number of items where the word follows the one before it, then by
    the number of titles with the word, then by the number of items with it."""
    titles: tuple[Title, ...]
    """Items with such a title: first those that begin with the text, then those that hold its last word."""


class TypedText(NamedTuple):
    """A text that is being typed, split."""

    before: str
    beginning: str
    """The last word, as far as it is typed; empty after a space."""


def split_typed(text: str) -> TypedText:
    """Split a text into its complete words and the word to complete."""
    beginning = _last_word(text)
    return TypedText(text.removesuffix(beginning), beginning)


def _last_word(text: str) -> str:
    """The word at the very end of the text; empty if there is none."""
    from_behind = word_pattern(_WORD_FROM_BEHIND, text).match(text[::-1])
    return "" if from_behind is None else from_behind[0][::-1].lstrip(_SIGNS)


def completions_of(text: TypedText, items: Sequence[tuple[str, str, str]], limit: int) -> Completions:
    """The completions from items, best first, each with its id, its title and the start of its body."""
    word = rf"{_BEGINS}{re.escape(text.beginning)}[\w{{marks}}{_SIGNS}]*"
    words = _completed(text, word, items)[:limit] if text.beginning else []
    whole = (text.before + text.beginning).casefold()
    leading = [Title(item_id, title) for item_id, title, _ in items if title.casefold().startswith(whole)]
    holding = [
        Title(item_id, title)
        for item_id, title, _ in items
        if title and not title.casefold().startswith(whole) and (not text.beginning or _words(word, title))
    ]
    return Completions(tuple(text.before + completed for completed in words), tuple((leading + holding)[:limit]))


def _completed(text: TypedText, word: str, items: Sequence[tuple[str, str, str]]) -> list[str]:
    """The words that the text may go on with, best first, each in its most frequent spelling."""
    former = _last_word(text.before.rstrip())
    follows = rf"{_BEGINS}{re.escape(former)}[^\w{{marks}}]+({word})" if former else None
    written: dict[str, Counter[str]] = {}
    following, titled = Counter[str](), Counter[str]()
    for _, title, body in items:
        text_of_item = f"{title}\n{body}"
        for spelling in _words(word, text_of_item):
            written.setdefault(spelling.casefold(), Counter())[spelling] += 1
        if follows:
            following.update({spelling.casefold() for spelling in _words(follows, text_of_item)})
        titled.update({spelling.casefold() for spelling in _words(word, title)})
    best = sorted(
        written, key=lambda known: (-following[known], -titled[known], -written[known].total(), len(known), known)
    )
    return [
        min(written[known], key=lambda spelling: (-written[known][spelling], not spelling.islower(), spelling))
        for known in best
    ]


def _words(form: str, text: str) -> set[str]:
    return {word.rstrip(_SIGNS) for word in word_pattern(form, text, re.IGNORECASE).findall(text)}
