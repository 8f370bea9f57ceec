"""The probability that a hit is relevant: a logistic model of its scores in the legs (decision 0033). Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from retrieval.domain.checks import checks_argument_names, is_finite, is_storable, written
from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.serialization import Serializable

_SATURATED = 2.2
"""k1 + 1 of BM25: the most that the occurrences of a word can count."""

_MOST_CHARACTERS = 1000
_ITEM_AND_SCORE = itemgetter(1, 3)
_DENSE, _LEXICAL = "dense", "lexical"


class Evidence(NamedTuple):
    """The evidence that a search has of an item's relevance; None: no evidence of that kind."""

    cosine: float | None
    cosine_behind: float
    words: float | None
    """BM25 as a share of the most that it can be, 0 to 1."""
    words_behind: float

    def tells(self, model: str) -> bool:
        """Whether the evidence has the numbers that the model ``both``, ``dense`` or ``lexical`` needs."""
        return (self.cosine is not None or model == _LEXICAL) and (self.words is not None or model == _DENSE)


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Serializable):
    """The coefficients for one space, by the evidence of an item; empty: none. Raises ``InvalidProfileError``."""

    space: str
    """The name of the embedding space (``EmbeddingSpace.name``); empty: for a collection without one."""
    both: tuple[float, ...] = ()
    """Intercept, cosine, cosine behind, words, words behind."""
    dense: tuple[float, ...] = ()
    """Intercept, cosine, cosine behind."""
    lexical: tuple[float, ...] = ()
    """Intercept, words, words behind."""
    fitted_on: str = ""
    """The data that it was fitted on, for people."""

    def __post_init__(self) -> None:
        for name, length in (("both", 5), ("dense", 3), ("lexical", 3)):
            numbers = getattr(self, name)
            is_list = isinstance(numbers, list | tuple)
            if not is_list or len(numbers) not in (0, length) or not all(map(is_finite, numbers)):
                raise InvalidProfileError(
                    f"calibration {name} is {written(numbers)}; it is a list of {length} finite numbers, or an "
                    "empty one"
                )
            object.__setattr__(self, name, tuple(map(float, numbers)))
        for name in ("space", "fitted_on"):
            text = getattr(self, name)
            if not is_storable(text) or len(text) > _MOST_CHARACTERS:
                raise InvalidProfileError(
                    f"calibration {name} is {written(text)}; it is a text of at most {_MOST_CHARACTERS} characters"
                )

    def relevances(self, evidence: Sequence[Evidence]) -> list[float | None]:
        """The probability of each that it is relevant, 0 to 1; None without evidence that it was fitted for."""
        relevances: list[float | None] = []
        for cosine, behind, words, words_behind in evidence:
            if cosine is not None and words is not None and self.both:
                base, by_cosine, by_behind, by_words, by_words_behind = self.both
                z = base + by_cosine * cosine + by_behind * behind + by_words * words + by_words_behind * words_behind
            elif cosine is not None and self.dense:
                base, by_cosine, by_behind = self.dense
                z = base + by_cosine * cosine + by_behind * behind
            elif words is not None and self.lexical:
                base, by_words, by_words_behind = self.lexical
                z = base + by_words * words + by_words_behind * words_behind
            else:
                relevances.append(None)
                continue
            relevances.append(1.0 / (1.0 + math.exp(-z)) if z > _LEAST_LOGIT else 0.0)
        return relevances


_LEAST_LOGIT = -700.0
"""Below it e^-z overflows."""


def most_by_words(query: str, documents: int) -> float:
    """The most that BM25 can give to the query among that number of items; spaces separate its words."""
    return _SATURATED * max(len(set(query.lower().split())), 1) * math.log(2 + 2 * documents)


def evidence_of(
    item_ids: Sequence[str], rankings: Mapping[str, Sequence[tuple[Any, ...]]], most: float, *, knows_all_words: bool
) -> list[Evidence]:
    """Collect the evidence of each item; ``most``: see ``most_by_words``.

    ``knows_all_words``: whether an item that the lexical ranking lacks has none of the words.
    """
    cosines, words = _scores(rankings, _DENSE), _scores(rankings, _LEXICAL)
    best_cosine, best_words = max(cosines.values(), default=0.0), max(words.values(), default=0.0) / most
    without = 0.0 if knows_all_words and _LEXICAL in rankings else None
    evidence = []
    for item_id in item_ids:
        cosine, bm25 = cosines.get(item_id), words.get(item_id, without)
        share = None if bm25 is None else bm25 / most
        evidence.append(
            _evidence(
                (
                    cosine,
                    0.0 if cosine is None else best_cosine - cosine,
                    share,
                    0.0 if share is None else best_words - share,
                )
            )
        )
    return evidence


_evidence: Callable[[tuple[float | None, ...]], Evidence] = partial(tuple.__new__, Evidence)
"""Makes an ``Evidence`` without a Python call for each hit."""


def _scores(rankings: Mapping[str, Sequence[tuple[Any, ...]]], leg: str) -> dict[str, float]:
    """The leg's own score by item id; the best one of several wordings."""
    scores = dict(map(_ITEM_AND_SCORE, rankings.get(leg, ())))
    for name, candidates in rankings.items():
        if name != leg and name.partition(":")[0] == leg:
            for item_id, score in map(_ITEM_AND_SCORE, candidates):
                scores[item_id] = max(score, scores.get(item_id, score))
    return scores


SHIPPED: Mapping[tuple[str, str], Calibration] = MappingProxyType(
    {
        ("minilm", "all-MiniLM-L6-v2"): Calibration(
            space="minilm/all-MiniLM-L6-v2",
            both=(-3.803, 4.2782, -8.0381, 9.08, -25.1998),
            dense=(-5.1999, 7.0162, -15.15),
            lexical=(-3.5228, 19.2607, -33.2638),
            fitted_on="SciFact's train queries, half of tickets_hadoop's, and questions that nothing answers",
        )
    }
)
"""The shipped calibrations by provider and model. ``benchmarks/relevance.py`` fits and measures them."""
