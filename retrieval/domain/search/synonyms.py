"""Synonyms: words that stand for one another; a query with one of them is asked with the others too. Pure.

They are groups of words or short phrases, in a profile. They count for the lexical leg alone: the dense one knows which
words mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from retrieval.domain.checks import is_storable
from retrieval.domain.errors import InvalidProfileError

Synonyms = tuple[tuple[str, ...], ...]
"""Groups of texts that mean the same."""

MAX_GROUPS, MAX_IN_GROUP, MAX_LENGTH = 2000, 20, 100
"""Groups of a profile, texts of a group, characters of a text."""

MAX_ADDED = 50
"""Texts that one query gains."""

_WORD = re.compile(r"\w+")


def checked_synonyms(groups: object) -> Synonyms:
    """The groups as they are kept. Raises ``InvalidProfileError`` for anything but lists of at least two texts each."""
    if isinstance(groups, str) or not isinstance(groups, Sequence):
        raise InvalidProfileError(f'synonyms come in groups, such as [["car", "automobile"]], not {groups!r:.80}')
    if len(groups) > MAX_GROUPS:
        raise InvalidProfileError(f"{len(groups)} groups of synonyms; at most {MAX_GROUPS}")
    return tuple(_checked_group(group) for group in groups)


def _checked_group(group: object) -> tuple[str, ...]:
    if isinstance(group, str) or not isinstance(group, Sequence) or not 2 <= len(group) <= MAX_IN_GROUP:
        raise InvalidProfileError(f"a group of synonyms is a list of 2 to {MAX_IN_GROUP} texts, not {group!r:.80}")
    for text in group:
        if not is_storable(text) or len(text) > MAX_LENGTH or not _words(text):
            raise InvalidProfileError(f"{text!r:.80} is no synonym; give some words of at most {MAX_LENGTH} characters")
    return tuple(group)


def with_synonyms(query: str, groups: Synonyms) -> str:
    """The query, and behind it the synonyms of the words and phrases in it; the longest phrase at each word counts.

    Words compare as they are written, in small letters; at most ``MAX_ADDED`` texts come to it.
    """
    if not groups:
        return query
    others, longest = _index(groups)
    words, place = _words(query), 0
    added: dict[str, None] = {}
    while place < len(words):
        size = next((n for n in range(longest, 0, -1) if words[place : place + n] in others), 0)
        added |= dict.fromkeys(others[words[place : place + size]] if size else ())
        place += size or 1
    held = f" {' '.join(words)} "
    new = [text for text in added if f" {' '.join(_words(text))} " not in held]
    return " ".join([query, *new[:MAX_ADDED]])


@lru_cache(maxsize=64)
def _index(groups: Synonyms) -> tuple[Mapping[tuple[str, ...], Sequence[str]], int]:
    """The others of its groups by the words of each text, and the most words that a text has."""
    others: dict[tuple[str, ...], list[str]] = {}
    for group in groups:
        for text in group:
            others.setdefault(_words(text), []).extend(other for other in group if other != text)
    return others, max(map(len, others))


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))
