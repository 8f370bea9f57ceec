"""Rewrites of a query by rule: its names, its words, and a few synonyms."""

from __future__ import annotations

import json
import random
import re

_TAGGED = re.compile(r"<query>(.*?)</query>", re.IGNORECASE | re.DOTALL)
_LABELLED = re.compile(r"\bquery\s*:\s*(\S.*)$", re.IGNORECASE | re.MULTILINE)
_QUOTED = re.compile(r"\"([^\"\n]+)\"")
_WORD = re.compile(r"[^\W_]+(?:[-'’.&][^\W_]+)*")
_POSSESSIVE = re.compile(r"['’]s?$")
_AT_A_PLACE = re.compile(r"^\s*who\b.*\bat\s+(?:the\s+)?(.+?)\W*$", re.IGNORECASE | re.DOTALL)

_FUNCTION_WORDS = """
    a about all am an and any are as at be been but by can could did do does for from had has have he her him his how
    i if in into is it its know let me my of on or our please she should so some tell than that the their them there
    these they this those to up us was we were what when where which who whom whose why will with would you your
"""
_STOPWORDS = frozenset(_FUNCTION_WORDS.split())

_SYNONYMS = (
    ("colleagues", "coworkers", "teammates"),
    ("colleague", "coworker", "teammate"),
    ("job", "work", "position"),
    ("company", "employer", "organisation"),
    ("meeting", "appointment", "call"),
    ("trip", "travel", "journey"),
    ("holiday", "vacation", "trip"),
    ("problem", "issue", "trouble"),
    ("error", "failure", "fault"),
    ("fix", "solution", "repair"),
    ("buy", "purchase", "order"),
    ("bought", "purchased", "ordered"),
    ("car", "vehicle", "automobile"),
    ("doctor", "physician", "specialist"),
    ("house", "home", "flat"),
    ("friend", "companion", "acquaintance"),
    ("friends", "companions", "acquaintances"),
    ("children", "kids", "family"),
    ("movie", "film", "show"),
    ("food", "meal", "dish"),
    ("happened", "occurred", "took place"),
    ("start", "begin", "launch"),
    ("started", "began", "launched"),
    ("similar", "like", "related"),
    ("plan", "schedule", "intention"),
    ("plans", "schedule", "intentions"),
    ("like", "enjoy", "prefer"),
    ("money", "budget", "cost"),
    ("illness", "disease", "condition"),
)


def query_in(prompt: str) -> str:
    """The query that a prompt asks to rewrite, on one line; a JSON string is read as such."""
    for pattern in (_TAGGED, _LABELLED, _QUOTED):
        if found := pattern.findall(prompt):
            return " ".join(_unquoted(found[-1].strip()).split())
    return " ".join(prompt.strip().splitlines()[-1].split()) if prompt.strip() else ""


def content_words(text: str) -> list[str]:
    """Its words that mean something by themselves, each once, in order; as they are written, but for a final "'s"."""
    words = [_POSSESSIVE.sub("", word) for word in _WORD.findall(text)]
    return _each_once([word for word in words if word.casefold() not in _STOPWORDS])


def sim_rewrites(query: str, rng: random.Random) -> list[str]:
    """Two or three rewrites, different from one another and from the query; none of a query without words."""
    words = content_words(query) or _WORD.findall(query)
    if not words:
        return []
    place = _AT_A_PLACE.match(query)
    if place and place[1][0].isupper() and (name := " ".join(content_words(place[1]))):
        return [name, f"works at {name}", f"{name} Corp employee"]
    core, one, other = " ".join(words), *_with_synonyms(words, rng)
    possible = [core, one, " ".join(_names(query)), other]
    spare = [f"{core} details", f"about {core}", f"{core} notes"]
    rng.shuffle(spare)
    return _different(query, [*possible, *spare])[: rng.choice((2, 3))]


def _with_synonyms(words: list[str], rng: random.Random) -> list[str]:
    """The words twice, each by a synonym where one is known: by another one the second time."""
    drawn = [rng.sample(known, 2) if (known := _synonyms(word)) else [word, word] for word in words]
    return [" ".join(one) for one in zip(*drawn, strict=True)]


def _synonyms(word: str) -> list[str]:
    own = word.casefold()
    return next(([other for other in row if other != own] for row in _SYNONYMS if own in row), [])


def _names(query: str) -> list[str]:
    """Words written like names; the first word of a sentence tells nothing."""
    return [word for word in content_words(query) if word[0].isupper() and not query.lstrip().startswith(word)]


def _different(query: str, rewrites: list[str]) -> list[str]:
    """Those that say something new, in order."""
    own = " ".join(query.casefold().split())
    return [one for one in _each_once(rewrites) if one and one.casefold() != own]


def _each_once(texts: list[str]) -> list[str]:
    kept: dict[str, str] = {}
    for text in texts:
        kept.setdefault(text.casefold(), text)
    return list(kept.values())


def _unquoted(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text
