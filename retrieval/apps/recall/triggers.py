"""Which questions are worth other wordings: a heuristic on the words alone. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

LONGEST_QUERY = 2000

_APOSTROPHES = dict.fromkeys((0x2018, 0x2019, 0x02BC), "'")

_PERIODS = (
    "week|weekend|month|quarter|year|night|monday|tuesday|wednesday|thursday|friday|saturday|sunday|"
    "spring|summer|autumn|fall|winter"
)
_ASKING = r"(?:who|what|when|where|why|how)(?:'(?:s|re|d|ll|ve)|s)?|whom|whose"
_TERMS = (
    _ASKING,
    # Relationships
    r"relat(?:ed|es|e|ing) to",
    r"relation(?:s|ship|ships)? (?:to|with|between)",
    r"about|regarding|involv(?:ing|es?|ed)",
    r"(?:with|in) regards? to",
    # Time
    rf"yesterday(?:'s)?|last (?:{_PERIODS})(?:'s)?|recent(?:ly)?|before",
    # Abstract concepts
    r"similar(?:ly|ity|ities)?|like|connect(?:s|ed|ing)? (?:to|with)|connections?",
)


def _whole(words: str) -> re.Pattern[str]:
    """Whole words; a hyphen, an address or a file's name makes one part of another: "know-how", "who@acme.example"."""
    return re.compile(rf"(?<![\w@/'.-])(?:{words})(?![\w@/-]|['.]\w)".replace(" ", r"\s+"), re.IGNORECASE)


_TERM = _whole("|".join(_TERMS))
_QUESTION_WORD = _whole(_ASKING)
_COMPANY = re.compile(r"\b(?:ltd|limited|inc|llc|plc|corp|corporation|co|company|gmbh|ag)\.?\W*\Z", re.IGNORECASE)
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»")
_WORD = re.compile(r"[^\W\d_]\w*")
_ALL_QUOTED = re.compile(r"\A\s*\"([^\"]*\?)\"\s*\Z")
"""A question that stands in quotation marks as a whole."""
_BEFORE = 20
"""Characters before a word that tell how it is meant."""
_SENTENCE_START = re.compile(r"(?:\A(?:\s*[-*•])?|[.!?:;…\n(\[–—]|\s-)\s*$")
_TITLE_OF_A_PERSON = re.compile(r"\b(?:dr|mr|mrs|ms|st|prof)\.\s*$", re.IGNORECASE)
_WISH = re.compile(r"(?:\bwould|'d)\s+$", re.IGNORECASE)


def deep_triggers(query: str) -> tuple[str, ...]:
    """The words of the query that make it worth other wordings, in lower case and in order; none: it is not.

    Question words, relationships ("about", "related to"), time ("yesterday", "last week", "before") and abstract
    concepts ("similar", "like", "connections") count as whole words, in their natural forms. They do not count between
    quotation marks, in names (with a capital inside a sentence, or in capitals among small letters: "The Who", "WHO
    guidelines"; several words that all begin with a capital: "Like Minds"), and "like" not in "would like". Words that
    all begin with a capital are a question with a question mark, or where a question word begins a sentence, as in
    "What Happened Last Week"; but not the name of a company ("Why Not Ltd"). What comes after the first
    ``LONGEST_QUERY`` characters is not read.
    """
    text = unicodedata.normalize("NFKC", query[:LONGEST_QUERY]).translate(_APOSTROPHES)
    text = _ALL_QUOTED.sub(r"\1", text)
    text = _QUOTED.sub(" . ", text)
    return tuple(" ".join(found.lower().split()) for found in _found(text))


def _found(text: str) -> Iterator[str]:
    tells_names = any(letter.islower() for letter in text)  # whether a capital says that a word is one
    if tells_names and _is_title(text):
        tells_names = not _asks(text)
        if tells_names and "'" not in text:  # "Yesterday's Meeting" is no name
            return
    for term, before in _terms(_TERM, text):
        if term.lower() == "like" and _WISH.search(before):
            continue
        if not (tells_names and _is_name(term, before)):
            yield term


def _terms(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, str]]:
    """Each term with what stands before it."""
    return ((match[0], text[max(0, match.start() - _BEFORE) : match.start()]) for match in pattern.finditer(text))


def _is_title(text: str) -> bool:
    """Whether it is several words that all begin with a capital: a name, or a question in Title Case."""
    words = _WORD.findall(text)
    return len(words) > 1 and all(word[0].isupper() for word in words)


def _asks(text: str) -> bool:
    """Whether it has a question mark, or a question word begins a sentence and no company is named so."""
    if "?" in text:
        return True
    return not _COMPANY.search(text) and any(not _is_name(*one) for one in _terms(_QUESTION_WORD, text))


def _is_name(term: str, before: str) -> bool:
    """Whether its spelling says that it is (part of) a name: a capital where no sentence begins, or only capitals."""
    if not term[0].isupper():
        return False
    if len(term) > 1 and term.isupper():
        return True
    return not _SENTENCE_START.search(before) or bool(_TITLE_OF_A_PERSON.search(before))
