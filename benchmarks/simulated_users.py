"""Users who search, click by position and relevance, and say whether what they read helped; seeded, so repeatable."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from retrieval.services.judgements import JudgedQuery


class SeenHit(Protocol):
    """What users see of a hit."""

    @property
    def item_id(self) -> str:
        """The item."""

    @property
    def rank(self) -> int:
        """Its rank, from 1."""


@dataclass(slots=True)
class Users:
    """They ask each query once in a random order, then all again, and read the first page.

    A hit at rank r is looked at with probability 1 / r. Whoever looks clicks on what is relevant and not on the rest,
    and with probability ``noise`` does the opposite. Whoever clicked reads, and then says whether it helped: it did if
    the item is relevant, but for a share ``wrong`` who say the opposite.
    """

    queries: Sequence[JudgedQuery]
    relevant: Mapping[str, Mapping[str, int]]
    """Relevance by item id, by query id."""
    seed: int
    noise: float = 0.3
    wrong: float = 0.0
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)  # noqa: S311 - a simulation keeps no secret

    def __iter__(self) -> Iterator[JudgedQuery]:
        while True:
            order = list(self.queries)
            self._rng.shuffle(order)
            yield from order

    def verdicts(self, query: JudgedQuery, result: Iterable[SeenHit]) -> dict[str, bool]:
        """True if an item helped, by the id of the items clicked on."""
        by_item = {}
        for hit in result:
            is_relevant = self.relevant[query.query_id].get(hit.item_id, 0) > 0
            is_seen = self._rng.random() < 1 / hit.rank
            if is_seen and is_relevant != (self._rng.random() < self.noise):
                by_item[hit.item_id] = is_relevant != (self._rng.random() < self.wrong)
        return by_item
