"""Words that tell what a text is about, as far as tags can match them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

MOST_KEYWORDS = 50
_LONGEST = 40
_SHORTEST = 3
_MOST_CHARACTERS = 20_000
_WORD = re.compile(r"[^\W_]+(?:[-_.+#]+[^\W_]+)*[+#]*")
_PARTS = re.compile(r"[-_.+#]+")

_STOP_WORDS = """
    a about above after again all also an and any are as at be because been before being below between both but by can
    cannot could did do does doing done down during each either else few for from further get gets had has have having
    he her here hers him his how if in into is it its just let lets like made make makes may me might more most much
    must my no nor not now of off on once one only or other our out over own per same she should since so some such
    than that the their them then there these they this those through to too two under until up upon us use used uses
    using very via was we well were what when where which while who why will with within without would you your
    add added adding adds allow allows bump bumped bumps change changed changes clean cleanup commit commits
    correct corrected create created delete deleted drop dropped ensure feat fix fixed fixes fixing fixup handle
    handles implement implemented implements improve improved improves initial instead introduce introduced keep keeps
    merge merged merges minor misc move moved moves need needs new now old prepare pull remove removed removes removing
    rename renamed replace replaced request revert reverts rework set sets small some squash start stop support
    supports tidy tweak tweaks update updated updates updating version wip work works branch chore main master
    co-authored-by
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that say nothing about what a text is about, those that subjects of commits are full of among them."""


def keywords(texts: Iterable[str], most: int = MOST_KEYWORDS) -> tuple[str, ...]:
    """At most so many words of the texts, casefolded, those of most texts first, then in their order.

    A word with a hyphen, underscore or dot counts as a whole and by its parts. Numbers, words of fewer than three
    letters (unless they end in + or #, as languages do) and stop words are left out.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(list(dict.fromkeys(_words(text[:_MOST_CHARACTERS].casefold()))))
    return tuple(word for word, _ in counts.most_common(most))


def _words(text: str) -> Iterable[str]:
    for found in _WORD.finditer(text):
        word = found[0]
        parts = _PARTS.split(word)
        yield from (one for one in dict.fromkeys([word, *parts]) if _tells(one))


def _tells(word: str) -> bool:
    if not word or len(word) > _LONGEST or word in STOP_WORDS:
        return False
    long_enough = len(word) >= _SHORTEST or word.endswith(("+", "#"))
    return long_enough and not word.replace(".", "").replace("-", "").isdigit()
