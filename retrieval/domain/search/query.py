"""The query language of a search box (docs/how-to/search.md), synonyms, and the size of a search. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import normalize

from retrieval.domain.checks import is_storable, written
from retrieval.domain.errors import EmptyQueryError, InvalidProfileError, InvalidRequestError
from retrieval.domain.words import UNSPACED, usual_form, word_pattern, words

MOST_SIGNS = 32
"""Phrases, exclusions and prefixes of a query; a query with more is a pasted text, and all of it is words."""

LONGEST_PHRASE = 2000
"""Characters of a phrase; a longer one is a pasted text too."""

_TOKEN = rf"""
    (?<!\S) (?P<minus>-?) "(?P<straight>[^"]*)" (?!\w)
    | (?P<out>(?<!\S)-)? (?: [“„](?P<curly>[^“”„]*)[”“] | 「(?P<corner>[^「」]*)」 )
    | (?<!\S) - (?P<excluded> [^\W\d_]\S* | \d+[^\W\d_][\w{{marks}}]* (?!\S) )
    | (?<!\S) (?P<prefix> \w[\w{{marks}}][\w{{marks}}'’.-]* | [{UNSPACED}] ) \* (?!\S)
    | (?P<text> [^\s“„「]+ | [“„「] )
"""
_SIGN = re.compile(r'["“„「*]|(?<!\S)-')
_AFTER_A_WORD = r"(?<=[\w{marks}])[^\w{marks}]+\Z"
_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query, parsed."""

    words: str
    """Everything to rank by, including the phrases' words and the prefixes, without the exclusions."""
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    """Beginnings of words, without their star."""


def parse_query(text: str, *, needs_words: bool = True) -> ParsedQuery:
    """Read a query, in composed characters. Raises ``EmptyQueryError`` if it needs words and has exclusions only."""
    text = normalize("NFC", text)
    if _SIGN.search(text) is None:
        return ParsedQuery(text.strip())
    parts: dict[str, list[str]] = {"words": [], "phrases": [], "excluded": [], "prefixes": []}
    for token in _tokens(text):
        kind, value = _kind(token)
        parts[kind].append(value)
        if kind in ("phrases", "prefixes"):
            parts["words"].append(value)
    plain, phrases, excluded, prefixes = (tuple(dict.fromkeys(part)) for part in parts.values())
    signs = sum(map(len, parts.values())) - len(parts["words"])
    is_pasted = signs > MOST_SIGNS or any(len(phrase) > LONGEST_PHRASE for phrase in [*phrases, *excluded])
    if is_pasted or not signs:
        return ParsedQuery(text.strip())
    if needs_words and not any(map(_WORD.search, plain)):
        raise EmptyQueryError(
            "the query has only exclusions; give some words to search for as well, such as: timeout -redis"
        )
    return ParsedQuery(" ".join(parts["words"]), phrases, excluded, prefixes)


def plain_parts(text: str) -> list[tuple[int, str]]:
    """The pieces of a query that are neither phrases, exclusions nor prefixes, each with its place."""
    return [(token.start(), token[0]) for token in _tokens(text) if _kind(token)[0] == "words"]


def _tokens(text: str) -> Iterator[re.Match[str]]:
    return word_pattern(_TOKEN, text, re.VERBOSE).finditer(text)


def _kind(token: re.Match[str]) -> tuple[str, str]:
    """The kind of a piece of the query, and its words."""
    quoted = token["straight"] or token["curly"] or token["corner"]
    if quoted and _WORD.search(quoted):
        return ("excluded" if token["minus"] or token["out"] else "phrases"), " ".join(quoted.split())
    if token["excluded"]:
        return "excluded", word_pattern(_AFTER_A_WORD, token["excluded"]).sub("", token["excluded"])
    if token["prefix"]:
        return "prefixes", usual_form(token["prefix"])
    return "words", token[0]


MAX_QUERY_BYTES = 32 * 1024

MAX_FILTER_VALUES = 10_000
"""The most values that one filter compares with, summed over its conditions."""

WORDINGS = 32
"""All queries and rewrites of one call together have at most this many times the bytes of one query."""


_ONE = {"queries": "query", "rewrites": "rewrite", "texts": "text"}


def wording(location: tuple[str | int, ...]) -> str:
    """The text at that location of a request, in a message: ``the query``, ``rewrite 2``."""
    return "the query" if location == ("query",) else f"{_ONE[str(location[0])]} {int(location[1]) + 1}"


@dataclass(frozen=True, slots=True)
class SearchBounds:
    """The limits of one search."""

    query_bytes: int = MAX_QUERY_BYTES
    filter_values: int = MAX_FILTER_VALUES

    def check_query(self, words: str, location: tuple[str | int, ...] = ("query",)) -> None:
        """Raise ``InvalidRequestError`` for a query of too many bytes; ``location`` is where it was given."""
        # A character has at least one byte, so a text that is far too long need not be encoded.
        size = len(words) if len(words) > self.query_bytes else len(words.encode(errors="replace"))
        if size > self.query_bytes:
            raise InvalidRequestError(
                f"{wording(location)} has more than {self.query_bytes:,} bytes (RETRIEVAL_MAX_QUERY_BYTES); "
                "search with what matters in it"
            ).at(*location)

    def check_queries(self, wordings: Iterable[str]) -> None:
        """Raise ``InvalidRequestError`` where the queries and rewrites of one call have too many bytes together."""
        most, size = WORDINGS * self.query_bytes, sum(len(wording.encode(errors="replace")) for wording in wordings)
        if size > most:
            raise InvalidRequestError(
                f"the queries of one call have {size:,} bytes together; at most {most:,} ({WORDINGS} times "
                "RETRIEVAL_MAX_QUERY_BYTES), send them in parts"
            )


DEFAULT_BOUNDS = SearchBounds()

Synonyms = tuple[tuple[str, ...], ...]
"""Groups of texts that mean the same."""

MAX_GROUPS, MAX_IN_GROUP, MAX_LENGTH = 2000, 20, 100
"""Groups of a profile, texts of a group, characters of a text."""

MAX_ADDED = 50


def checked_synonyms(groups: object) -> Synonyms:
    """The groups as they are kept. Raises ``InvalidProfileError`` for anything but lists of at least two texts each."""
    if isinstance(groups, str) or not isinstance(groups, Sequence):
        raise InvalidProfileError(f'synonyms come in groups, such as [["car", "automobile"]], not {written(groups)}')
    if len(groups) > MAX_GROUPS:
        raise InvalidProfileError(f"{len(groups)} groups of synonyms; at most {MAX_GROUPS}")
    return tuple(_checked_group(group) for group in groups)


def _checked_group(group: object) -> tuple[str, ...]:
    if isinstance(group, str) or not isinstance(group, Sequence) or not 2 <= len(group) <= MAX_IN_GROUP:
        raise InvalidProfileError(f"a group of synonyms is a list of 2 to {MAX_IN_GROUP} texts, not {written(group)}")
    for text in group:
        if not is_storable(text) or len(text) > MAX_LENGTH or not words(text):
            raise InvalidProfileError(
                f"{written(text)} is not a synonym; give words of at most {MAX_LENGTH} characters"
            )
    return tuple(group)


def with_synonyms(query: str, groups: Synonyms) -> str:
    """The query, followed by the synonyms of its words and phrases; the longest phrase at each word counts."""
    if not groups:
        return query
    others, longest = _index(groups)
    query_words, position = tuple(words(query)), 0
    added: dict[str, None] = {}
    while position < len(query_words):
        size = next((n for n in range(longest, 0, -1) if query_words[position : position + n] in others), 0)
        added |= dict.fromkeys(others[query_words[position : position + size]] if size else ())
        position += size or 1
    padded = f" {' '.join(query_words)} "
    new = [text for text in added if f" {' '.join(words(text))} " not in padded]
    return " ".join([query, *new[:MAX_ADDED]])


@lru_cache(maxsize=64)
def _index(groups: Synonyms) -> tuple[Mapping[tuple[str, ...], Sequence[str]], int]:
    """The other texts of its groups by the words of each text, and the most words that a text has."""
    others: dict[tuple[str, ...], list[str]] = {}
    for group in groups:
        for text in group:
            others.setdefault(tuple(words(text)), []).extend(other for other in group if other != text)
    return others, max(map(len, others))
