"""Which principles are shown to learn about them: Thompson sampling with exact propensities. Light to import.

What a principle is worth is believed to be Beta(successes + 1, failures + 1) distributed. A draw of each, and those
with the highest ones are shown (Thompson 1933). How probable that is has no closed form, so some rows of draws are
made and one of them, by chance, decides: given the rows, a principle's probability is the share of rows that have it
on top, which is exact for what was done. Over the rows as well it is an estimate, of which one that is on top in none
has no part: an average weighted by inverse propensities leans towards those that are often on top.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from retrieval.apps.probation import Verdict, probation

FEWER_USES_THAN: Final = 5
YOUNGER_THAN: Final = timedelta(days=7)
SLOTS: Final = 2
"""Principles that are explored at once, unless somebody asks for another number."""

ROWS: Final = 100
"""Rows of draws, unless somebody asks for another number: a propensity is a multiple of one part in so many."""

MOST_DRAWN: Final = 300
"""Of more, so many drawn uniformly compete: it bounds what a call costs."""


class Tried(NamedTuple):
    """A principle as exploration sees it."""

    id: str
    uses: int = 0
    successes: int = 0
    """0 to ``uses``."""


class Pick(NamedTuple):
    """One that is explored."""

    id: str
    propensity: float
    """The probability that it was picked, above 0 and at most 1."""
    rank_propensity: float
    """The probability that it was picked at this place, above 0 and at most ``propensity``."""


def is_eligible(uses: int, successes: int, created_at: datetime, now: datetime) -> bool:
    """Whether little is known of it: fewer than 5 uses, or younger than 7 days. One that has failed is not."""
    is_new = uses < FEWER_USES_THAN or now - created_at < YOUNGER_THAN
    return is_new and probation(uses, successes) is not Verdict.FAILED


def thompson(
    candidates: Sequence[Tried],
    count: int,
    rng: random.Random,
    rows: int = ROWS,
    *,
    fitting: Collection[str] = frozenset(),
) -> list[Pick]:
    """The ``count`` candidates on top of a draw from Beta(successes + 1, failures + 1) each, the highest first.

    All of them where there are no more. Of the ids in ``fitting`` the best have half of the places, the first ones, of
    an odd number one more or less by chance; for the other places all compete. The propensities add up to how many are
    picked, over all that compete. The same candidates and the same state of ``rng`` give the same picks. ``rows``: at
    least 1; with a few, propensities are coarse.
    """
    picked = min(count, len(candidates))
    if picked < 1:
        return []
    rivals = candidates if len(candidates) <= MOST_DRAWN else rng.sample(candidates, max(MOST_DRAWN, picked))
    near = fitting if any(one.id in fitting for one in rivals) else frozenset[str]()
    tops = [_top(rivals, picked, near, rng) for _ in range(max(1, rows))]
    times = Counter(one for top in tops for one in top)
    at = Counter(placed for top in tops for placed in enumerate(top))
    competes, shown = len(rivals) / len(candidates), tops[rng.randrange(len(tops))]
    return [
        Pick(one, competes * times[one] / len(tops), competes * at[place, one] / len(tops))
        for place, one in enumerate(shown)
    ]


def _top(candidates: Sequence[Tried], count: int, fitting: Collection[str], rng: random.Random) -> list[str]:
    drawn = [(rng.betavariate(one.successes + 1, one.uses - one.successes + 1), one.id) for one in candidates]
    ranked = [name for _, name in sorted(drawn, reverse=True)]
    if not fitting:
        return ranked[:count]
    # An odd place belongs to either as often.
    places = count // 2 + (count % 2 == 1 and rng.random() < 1 / 2)
    first = [name for name in ranked if name in fitting][:places]
    return [*first, *(name for name in ranked if name not in first)][:count]
