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
_TERMS = (
    # Question words
    r"(?:who|what|when|where|why|how)(?:'(?:s|re|d|ll|ve)|s)?",
    r"whom|whose",
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

# A hyphen, an address or a file's name around it makes a word part of another: "know-how", "who@acme.example".
_TERM = re.compile(
    rf"(?<![\w@/'.-])(?:{'|'.join(_TERMS)})(?![\w@/-]|['.]\w)".replace(" ", r"\s+"),
    re.IGNORECASE,
)
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
    guidelines"; several words that all begin with a capital, without a question mark: "Like Minds"), and "like" not in
    "would like". What comes after the first ``LONGEST_QUERY`` characters is not read.
    """
    text = unicodedata.normalize("NFKC", query[:LONGEST_QUERY]).translate(_APOSTROPHES)
    text = _ALL_QUOTED.sub(r"\1", text)
    text = _QUOTED.sub(" . ", text)
    return tuple(" ".join(found.lower().split()) for found in _found(text))


def _found(text: str) -> Iterator[str]:
    is_loud = not any(letter.islower() for letter in text)
    if _is_all_name(text) and not is_loud:
        return
    for match in _TERM.finditer(text):
        term, before = match[0], text[max(0, match.start() - _BEFORE) : match.start()]
        if term.lower() == "like" and _WISH.search(before):
            continue
        if is_loud or not _is_name(term, before):
            yield term


def _is_all_name(text: str) -> bool:
    """Whether several words all begin with a capital and nothing asks, as in "Like Minds"; "Who's Ann" does."""
    words = _WORD.findall(text)
    return len(words) > 1 and not re.search(r"[?']", text) and all(word[0].isupper() for word in words)


def _is_name(term: str, before: str) -> bool:
    """Whether its spelling says that it is (part of) a name: a capital where no sentence begins, or only capitals."""
    if not term[0].isupper():
        return False
    if len(term) > 1 and term.isupper():
        return True
    return not _SENTENCE_START.search(before) or bool(_TITLE_OF_A_PERSON.search(before))
