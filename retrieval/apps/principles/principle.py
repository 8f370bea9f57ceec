"""Principles, and the choice of a session's: the best for its tags, and explored ones. Pure, light to import.

The value of a principle has the distribution Beta(successes + 1, failures + 1). Each principle gets a random draw from
it, and those with the highest draws are shown (Thompson 1933). The probability of being shown has no closed form, so
several rows of draws are made, and one of them is chosen at random: given the rows, a principle's exact probability is
the share of rows with it at the top. As an estimate over all possible rows it has a bias: a principle that is at the
top in no row has probability 0, so averages weighted by inverse propensities favour principles that often are.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from retrieval.apps.probation import ACTIVE, ARCHIVED, CANDIDATE, status_after
from retrieval.domain.checks import checked_list, written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.item import Item
from retrieval.domain.learning.arm import Standing, rate
from retrieval.domain.records.slate import Placed, ShownItem, Slot
from retrieval.domain.search.hit import Explanation, Hit

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principle:
    """A stored principle, with the statistics of its use."""

    id: str
    title: str
    body: str = ""
    tags: tuple[str, ...] = ()
    status: str = ACTIVE
    added_by: str = ""
    """The author that was named when it was added; may be empty."""
    created_at: datetime = _EPOCH
    use_count: int = 0
    """Verdicts, at least 0."""
    success_count: int = 0
    """Verdicts of at least one half, 0 to ``use_count``."""
    last_used_at: datetime | None = None
    """The time of the last verdict; None: never judged."""

    @property
    def success_rate(self) -> float | None:
        """The share of good verdicts, 0 to 1; None: there are none."""
        return self.success_count / self.use_count if self.use_count else None

    @property
    def standing(self) -> Standing:
        """The verdicts on it."""
        return Standing(
            item_id=self.id,
            created_at=self.created_at,
            uses=self.use_count,
            successes=self.success_count,
            last_used_at=self.last_used_at,
        )

    @property
    def score(self) -> float:
        """The mean of Beta(successes + 1, failures + 1), above 0 and below 1; one half without verdicts."""
        return rate(self.success_count, self.use_count)


COLLECTION = "principles"


def traces_name(name: str) -> str:
    """The name of the collection that holds the traces of the sessions with these principles."""
    return f"{name}_traces"


SESSION_START = "session-start"
"""The recorded origin of the answers at the start of sessions."""

KIND = "principle"

IN_USE = (ACTIVE, CANDIDATE)
"""The statuses of principles that can be shown; failed principles are archived."""

_SLUG_CHARACTERS = 40
_HASH_CHARACTERS = 8


def principle_id_for(title: str, body: str) -> str:
    """A readable id: words of the title, and a hash of the text.

    Texts that differ only in case and white space have the same id.
    """
    text = "\n".join(" ".join(part.split()) for part in (title, body)).casefold()
    words = re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")[:_SLUG_CHARACTERS].strip("-")
    name = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_HASH_CHARACTERS]
    return f"{words}-{name}" if words else name


def principle_item(
    principle_id: str | None,
    title: str,
    body: str,
    tags: tuple[str, ...],
    status: str,
    *,
    actor: str,
    created_at: datetime,
) -> Item:
    """The item; without a ``principle_id`` its id is made from the text.

    Raises ``InvalidRequestError`` for an empty title, and for a status other than ``IN_USE``.
    """
    for name, text in (("title", title), ("body", body)):
        if not isinstance(text, str):
            raise InvalidRequestError(f"{name} is {written(text)}; it must be a text")
    if not title.strip():
        raise InvalidRequestError("a principle needs a title: state the lesson in one sentence")
    if status not in IN_USE:
        raise InvalidRequestError(f"status is {written(status)}; it must be {' or '.join(IN_USE)}")
    return Item(
        item_id=principle_id_for(title, body) if principle_id is None else principle_id,
        kind=KIND,
        title=title.strip(),
        body=body.strip(),
        tags=tags,
        status=status,
        source=actor,
        occurred_at=created_at,
    )


def principle_of(item: Item | Hit, standing: Standing | None) -> Principle:
    """The principle of an item or a hit, with its statistics."""
    return Principle(
        id=item.item_id,
        title=item.title,
        body=item.body,
        tags=item.tags,
        status=item.status,
        added_by=item.source,
        created_at=item.occurred_at or (standing.created_at if standing else _EPOCH),
        use_count=standing.uses if standing else 0,
        success_count=standing.successes if standing else 0,
        last_used_at=standing.last_used_at if standing else None,
    )


MOST_TAGS = 50
"""The most tags of one principle, trace or query."""


def normalised_tags(tags: Sequence[str] | None) -> tuple[str, ...]:
    """The distinct tags, stripped and casefolded, in order; empty for None.

    Raises ``InvalidRequestError`` for anything but a list of at most 50 texts that are not empty.
    """
    if tags is None:
        return ()
    each = checked_list("tags", tags, "['testing', 'sql']")
    for tag in each:
        if not isinstance(tag, str) or not tag.strip() or "\x00" in tag:
            raise InvalidRequestError(f"a tag is {written(tag)}; it must be a text such as 'testing'")
    distinct = tuple(dict.fromkeys(tag.strip().casefold() for tag in each))
    if len(distinct) > MOST_TAGS:
        raise InvalidRequestError(f"{len(distinct)} tags are too many; give at most {MOST_TAGS}")
    return distinct


def frequent_tags(tags_of_each: Iterable[Iterable[str]], most: int) -> list[str]:
    """The ``most`` most frequent tags, the most frequent first, then in order of appearance."""
    counts = Counter(tag for tags in tags_of_each for tag in dict.fromkeys(tags))
    return [tag for tag, _ in counts.most_common(most)]


LATEST_TRACES: Final = 20
RECENT_DAYS: Final = 7
RECENT_TAGS: Final = 10
"""The number of the latest traces that recent tags come from, their greatest age, and the number of the tags."""

FEWER_USES_THAN: Final = 5
YOUNGER_THAN: Final = timedelta(days=7)
SLOTS: Final = 2
"""The default number of principles that are explored at once."""

ROWS: Final = 100
"""The default number of rows of draws: a propensity is a multiple of 1 / rows."""

MOST_DRAWN: Final = 300
"""The most candidates that compete, drawn uniformly from more: it bounds the cost of a call."""


def is_eligible(uses: int, successes: int, created_at: datetime, now: datetime) -> bool:
    """Whether it has fewer than 5 uses or is younger than 7 days, and has not failed."""
    is_new = uses < FEWER_USES_THAN or now - created_at < YOUNGER_THAN
    return is_new and status_after(uses, successes) != ARCHIVED


def thompson(
    candidates: Sequence[Standing],
    count: int,
    rng: random.Random,
    rows: int = ROWS,
    *,
    fitting: Collection[str] = frozenset(),
) -> list[Placed]:
    """The ``count`` candidates with the highest draws from Beta(successes + 1, failures + 1), the highest first.

    The best of the ids in ``fitting`` get the first half of the places (an odd place goes to either half by chance);
    all candidates compete for the other places. The propensities add up to the number of places. ``rows``: at least 1;
    with few rows, propensities are coarse.
    """
    places = min(count, len(candidates))
    if places < 1:
        return []
    rivals = candidates if len(candidates) <= MOST_DRAWN else rng.sample(candidates, max(MOST_DRAWN, places))
    near = fitting if any(rival.item_id in fitting for rival in rivals) else frozenset[str]()
    tops = [_top(rivals, places, near, rng) for _ in range(max(1, rows))]
    times = Counter(rival for top in tops for rival in top)
    at = Counter(placed for top in tops for placed in enumerate(top))
    competes, shown = len(rivals) / len(candidates), tops[rng.randrange(len(tops))]
    return [
        Placed(rival, Slot.EXPLORE, competes * times[rival] / len(tops), competes * at[place, rival] / len(tops))
        for place, rival in enumerate(shown)
    ]


def _top(candidates: Sequence[Standing], count: int, fitting: Collection[str], rng: random.Random) -> list[str]:
    draws = [
        (rng.betavariate(candidate.successes + 1, candidate.uses - candidate.successes + 1), candidate.item_id)
        for candidate in candidates
    ]
    ranked = [name for _, name in sorted(draws, reverse=True)]
    if not fitting:
        return ranked[:count]
    # An odd place goes to either group equally often.
    places = count // 2 + (count % 2 == 1 and rng.random() < 1 / 2)
    first = [name for name in ranked if name in fitting][:places]
    return [*first, *(name for name in ranked if name not in first)][:count]


MAX_PRINCIPLES: Final = 10
"""The number of principles that a session starts with, including explored ones."""

TAG_BOOST: Final = 0.1
"""The addition to the score for each tag that a principle shares with the session."""

MIN_PRINCIPLE_SCORE: Final = 0.3
"""The least score of a principle that is shown for its score."""


@dataclass(frozen=True, slots=True)
class FoundPrinciple:
    """A principle that is shown."""

    principle: Principle
    score: float
    """The score for its rank, higher is better: the principle's score + .1 for each tag that it shares with the session
    or the query, and in a search + 2 × similarity.
    """
    is_exploratory: bool = False
    """Whether it is shown to learn about it."""
    propensity: float = 1.0
    """The probability that it was chosen, above 0 and at most 1."""
    rank_propensity: float = 1.0
    """The probability that it was chosen at this place, above 0 and at most ``propensity``."""
    explanation: Explanation | None = None
    """The signals of a search with their values and weights; None for principles of a session's start."""

    def shown_item(self, signals: Mapping[str, float]) -> ShownItem:
        """The item to record, with the values of its signals."""
        return ShownItem(
            item_id=self.principle.id,
            score=self.score,
            signals=signals,
            slot=Slot.EXPLORE if self.is_exploratory else Slot.EXPLOIT,
            propensity=self.propensity,
            rank_propensity=self.rank_propensity,
        )


def boosted(principle: Principle, tags: Collection[str]) -> float:
    """The principle's score, plus .1 for each of its tags that is in ``tags``."""
    return principle.score + TAG_BOOST * sum(tag in tags for tag in principle.tags)


def with_propensities(principles: Iterable[FoundPrinciple], picks: Sequence[Placed]) -> list[FoundPrinciple]:
    """The principles in the order of the picks, with their probabilities."""
    by_id = {principle.principle.id: principle for principle in principles}
    return [
        replace(
            by_id[pick.item_id], is_exploratory=True, propensity=pick.propensity, rank_propensity=pick.rank_propensity
        )
        for pick in picks
        if pick.item_id in by_id
    ]


def choose(
    principles: Iterable[Principle],
    tags: Collection[str],
    rng: random.Random,
    *,
    now: datetime,
    most: int = MAX_PRINCIPLES,
    slots: int = SLOTS,
    rows: int = ROWS,
) -> list[FoundPrinciple]:
    """Choose at most ``most`` principles: the best by score and tags, then up to ``slots`` explored ``rivals``.

    Half of the explored places go to rivals that share a tag with the session, where verdicts are more informative; all
    compete for the other half. If there are fewer rivals than ``slots``, the best by score get the places.
    """
    every = list(principles)
    unsure = rivals(every, tags, now=now, most=most, slots=slots)
    near = frozenset(rival.id for rival in unsure if any(tag in tags for tag in rival.tags))
    picks = thompson([rival.standing for rival in unsure], min(slots, most), rng, rows, fitting=near)
    picked = {pick.item_id for pick in picks}
    by_score = [choice for choice in best(every, tags) if choice.principle.id not in picked][: most - len(picks)]
    explored = [FoundPrinciple(rival, boosted(rival, tags)) for rival in unsure if rival.id in picked]
    return [*by_score, *with_propensities(explored, picks)]


def rivals(
    principles: Sequence[Principle],
    tags: Collection[str],
    *,
    now: datetime,
    most: int = MAX_PRINCIPLES,
    slots: int = SLOTS,
) -> list[Principle]:
    """The principles that compete to be explored: eligible ones that are not shown for their score; candidates too."""
    ranked = best(principles, tags)
    sure = {choice.principle.id for choice in ranked[: max(0, most - slots)]}
    return [
        principle
        for principle in principles
        if principle.id not in sure
        and principle.status in IN_USE
        and is_eligible(principle.use_count, principle.success_count, principle.created_at, now)
    ]


def best(principles: Sequence[Principle], tags: Collection[str]) -> list[FoundPrinciple]:
    """The active principles that have not failed, best by score and tags first, then the latest, then by id."""
    fit = [rival for rival in principles if rival.status == ACTIVE and rival.score >= MIN_PRINCIPLE_SCORE]
    fit.sort(key=lambda principle: (-boosted(principle, tags), -principle.created_at.timestamp(), principle.id))
    return [FoundPrinciple(rival, boosted(rival, tags)) for rival in fit]
