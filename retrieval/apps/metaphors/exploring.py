"""Expected reward, and a bonus for what is uncertain. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.apps.metaphors.searching import Entry
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.expectation import Expectation
from retrieval.domain.hit import Contribution, Explanation
from retrieval.domain.shown_item import ShownItem
from retrieval.domain.slate import Slot

RELEVANCE_MAX = 1 + 1e-6
"""What rounding may make of a cosine of 1."""


def relevance_of_each(found: Iterable[Entry]) -> dict[str, float]:
    """How well each fits by itself, 0 to 1, by id. Raises ``InvalidRequestError`` for scores that are no cosines."""
    relevance = {one.metaphor.id: one.relevance for one in found}
    if any(not 0 <= one <= RELEVANCE_MAX for one in relevance.values()):
        raise InvalidRequestError(
            "the profile of the corpus's collection gives scores outside 0 to 1, which nothing learned can be "
            "weighed against; set METAPHORS_PROFILE, or one of your own with the leg dense alone and the fusion union"
        )
    return {key: min(1.0, one) for key, one in relevance.items()}


def learned_entries(
    metaphors: Iterable[Metaphor], expected: Mapping[str, Expectation], relevance: Mapping[str, float]
) -> list[Entry]:
    """The metaphors by the reward that is expected of them; those of which nothing is known are left out."""
    known = [one for one in metaphors if one.id in expected]
    best = sorted(known, key=lambda one: (-expected[one.id].mean, one.id))
    return [
        _entry(one, relevance.get(one.id, 0.0), [_part("learned", rank, expected[one.id].mean)])
        for rank, one in enumerate(best, 1)
    ]


def explored_entries(base: Sequence[Entry], expected: Mapping[str, Expectation], rate: float) -> list[Entry]:
    """The entries by score + rate × uncertainty of the expected reward, best first; equal ones by id."""
    bonus = {one.metaphor.id: expected[one.metaphor.id].uncertainty for one in base if one.metaphor.id in expected}
    surest = sorted(bonus, key=lambda key: (-bonus[key], key))
    ranks = {key: rank for rank, key in enumerate(surest, 1)}
    found = [
        _entry(
            one.metaphor,
            one.relevance,
            [*one.explanation.contributions, _part("uncertainty", ranks[key], bonus[key], rate)] if key in bonus else
            list(one.explanation.contributions),
        )
        for one in base
        for key in [one.metaphor.id]
    ]  # fmt: skip
    return sorted(found, key=lambda one: (-one.score, one.metaphor.id))


def explored_items(shown: Sequence[Entry], base: Sequence[Entry]) -> list[ShownItem]:
    """As they are recorded: what stands there for its uncertainty alone is there to learn about it."""
    usual = {one.metaphor.id for one in base[: len(shown)]}
    return [
        ShownItem(
            item_id=one.metaphor.id,
            score=one.score,
            signals={"relevance": one.relevance},
            slot=Slot.EXPLOIT if one.metaphor.id in usual else Slot.EXPLORE,
        )
        for one in shown
    ]


def _entry(metaphor: Metaphor, relevance: float, parts: Sequence[Contribution]) -> Entry:
    explanation = Explanation("union", tuple(parts))
    return Entry(metaphor=metaphor, score=explanation.score, relevance=relevance, explanation=explanation)


def _part(leg: str, rank: int, raw: float, weight: float = 1.0) -> Contribution:
    return Contribution(leg, rank, raw, weight, weight * raw)
