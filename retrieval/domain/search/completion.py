"""Completions of what is being typed: from the texts of the items that hold such words. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retrieval.domain.told import Told

LOOKED_AT = 200
"""Items that completions are taken from: the best by words."""

READ = 2000
"""Characters of an item's text that words are taken from."""

_LAST_WORD = re.compile(r"(?:\w[\w'’-]*)?\Z")


class Title(NamedTuple):
    """An item whose title holds what is being typed."""

    item_id: str
    title: str


@dataclass(frozen=True, slots=True)
class Completions(Told):
    """The completions of a text that is being typed."""

    queries: tuple[str, ...]
    """The text with its last word completed, by how many of the items hold that word."""
    titles: tuple[Title, ...]
    """Items with such a title: first those that begin with the text, then those that hold its last word."""


class Typed(NamedTuple):
    """A text that is being typed, read."""

    before: str
    """All but the last word."""
    beginning: str
    """The last word, as far as it is typed; empty after a space."""


def typed(text: str) -> Typed:
    """Split a text into its complete words and the word to complete."""
    place = _LAST_WORD.search(text)
    cut = len(text) if place is None else place.start()
    return Typed(text[:cut], text[cut:])


def completions_of(text: Typed, found: Sequence[tuple[str, str, str]], limit: int) -> Completions:
    """The completions from items, best first, each with its id, its title and the start of its body."""
    whole, begun = (text.before + text.beginning).casefold(), text.beginning.casefold()
    holders: Counter[str] = Counter()
    written: dict[str, Counter[str]] = {}
    leading: list[Title] = []
    holding: list[Title] = []
    word = re.compile(rf"(?<!\w){re.escape(text.beginning)}[\w'’-]*", re.IGNORECASE)
    for item_id, title, body in found:
        if title.casefold().startswith(whole):
            leading.append(Title(item_id, title))
        elif title and (not begun or word.search(title)):
            holding.append(Title(item_id, title))
        spellings = {one.rstrip("'’-") for one in word.findall(f"{title}\n{body}")} if begun else set()
        for spelling in spellings:
            written.setdefault(spelling.casefold(), Counter())[spelling] += 1
        holders.update({one.casefold() for one in spellings})
    best = sorted(holders, key=lambda one: (-holders[one], len(one), one))
    usual = [
        min(written[one], key=lambda spelling: (-written[one][spelling], not spelling.islower(), spelling))
        for one in best
    ]
    return Completions(tuple(text.before + one for one in usual[:limit]), tuple((leading + holding)[:limit]))
