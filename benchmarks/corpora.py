"""Items and questions of benchmarks: clustered vectors with texts, made from a seed, and where they lie on disk.

A corpus is written once and read by every peer's process, so that all have the same vectors and texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Where = Mapping[str, str]
"""Attribute values that an item must have, all of them."""

CLUSTERS = 200
REGIONS = 50
SPREAD = 0.8
"""Length of the noise around a centre of length 1."""

SHARES = (("half", 0.5, 1), ("tenth", 0.1, 2), ("fiftieth", 0.02, 10), ("hundredth", 0.01, 5))
RARE_SHARES = (("two-hundredth", 0.005, 6), ("thousandth", 0.001, 20))
"""Categories of one attribute: name, share of the items that each has, how many there are. The shares add up to 1."""

ATTRIBUTES = ("category", "region")

_WORDS, _STOP_SHARE, _TOPIC_SHARE, _TOPIC_WORDS = 100, 0.4, 0.15, 40
_STOPS = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or had an they which"
)
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprtvz" for vowel in "aou"]
_VOCABULARY = 20_000


@dataclass(frozen=True, slots=True)
class Corpus:
    """Items: ``vectors`` has shape (n, dimensions), unit length; the other fields have n entries."""

    ids: Sequence[str]
    texts: Sequence[str]
    vectors: Vectors
    attributes: Sequence[Mapping[str, str]]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimensions(self) -> int:
        """The number of dimensions of each vector."""
        return int(self.vectors.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that items have."""
        return tuple(self.attributes[0]) if self.attributes else ()

    def save(self, folder: Path) -> Path:
        """Write it for other processes; gives the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "vectors.npy", self.vectors)
        content = {"ids": list(self.ids), "texts": list(self.texts), "attributes": list(map(dict, self.attributes))}
        (folder / "items.json").write_text(json.dumps(content), encoding="utf-8")
        return folder

    @classmethod
    def read(cls, folder: Path) -> Corpus:
        """Read the corpus that ``save`` wrote."""
        content = json.loads((folder / "items.json").read_text(encoding="utf-8"))
        return cls(content["ids"], content["texts"], np.load(folder / "vectors.npy"), content["attributes"])

    def matching(self, where: Where) -> NDArray[np.bool_]:
        """The items that match the filter, shape (n,)."""
        return np.array([all(row[name] == value for name, value in where.items()) for row in self.attributes])

    def nearest(self, vector: Vectors, k: int, allowed: NDArray[np.bool_] | None = None) -> list[str]:
        """The ids of the k largest inner products, by comparing all: the truth."""
        scores = self.vectors @ vector
        if allowed is not None:
            scores = np.where(allowed, scores, -np.inf)
            k = min(k, int(allowed.sum()))
        best = np.argsort(-scores, kind="stable")[:k]
        return [self.ids[place] for place in best]


@dataclass(frozen=True, slots=True)
class Question:
    """A query: its words, its vector, and the region whose items are far from it."""

    text: str
    vector: Vectors
    far_region: str


@dataclass(frozen=True, slots=True)
class QuestionCorpus:
    """A corpus with questions from the same distribution."""

    corpus: Corpus
    questions: Sequence[Question]


def clustered(items: int, dimensions: int, questions: int, *, seed: int = 7) -> QuestionCorpus:
    """Vectors around common centres, texts of about 100 words whose topic follows the cluster."""
    random = np.random.default_rng(seed)
    centres = _unit(random.standard_normal((CLUSTERS, dimensions)))
    total = items + questions
    cluster = random.integers(0, CLUSTERS, total)
    noise = random.standard_normal((total, dimensions)) * (SPREAD / np.sqrt(dimensions))
    vectors = _unit(centres[cluster] + noise)
    language = _Language(random)
    texts = [language.document(int(c)) for c in cluster[:items]]
    categories = _categories(random, items)
    attributes = [
        {"category": category, "region": f"region-{c % REGIONS}"}
        for category, c in zip(categories, cluster[:items], strict=True)
    ]
    corpus = Corpus([f"item-{place:07d}" for place in range(items)], texts, vectors[:items], attributes)
    asked = [
        Question(language.question(int(c)), vector, _far_region(centres, vector))
        for c, vector in zip(cluster[items:], vectors[items:], strict=True)
    ]
    return QuestionCorpus(corpus, asked)


def _unit(vectors: NDArray[np.float64]) -> Vectors:
    scaled: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return scaled


def _categories(random: np.random.Generator, items: int) -> list[str]:
    names = [f"{name}-{number}" for name, _, count in (*SHARES, *RARE_SHARES) for number in range(count)]
    weights = np.array([share for _, share, count in (*SHARES, *RARE_SHARES) for _ in range(count)])
    return [names[place] for place in random.choice(len(names), size=items, p=weights / weights.sum())]


def _far_region(centres: Vectors, vector: Vectors) -> str:
    """The region with the least similar centres: a filter on it keeps out whatever is near."""
    similar = centres @ vector
    best = [similar[region::REGIONS].max() for region in range(REGIONS)]
    return f"region-{int(np.argmin(best))}"


class _Language:
    """Words by Zipf's law, function words that a text search leaves out, and words that a topic prefers."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        numbers = random.permutation(len(_SYLLABLES) ** 3)[:_VOCABULARY]
        self._words = [_word(int(number)) for number in numbers]
        weights = 1 / np.arange(2, _VOCABULARY + 2)
        self._weights = np.cumsum(weights / weights.sum())
        self._stops = _STOPS.split()
        self._topics = random.integers(100, _VOCABULARY, (CLUSTERS, _TOPIC_WORDS))

    def document(self, cluster: int) -> str:
        """Some 100 words."""
        return self._text(cluster, int(self._random.integers(_WORDS // 2, _WORDS * 3 // 2)), _TOPIC_SHARE)

    def question(self, cluster: int) -> str:
        """6 to 12 words, a third of them of the topic."""
        return self._text(cluster, int(self._random.integers(6, 13)), 0.3)

    def _text(self, cluster: int, length: int, topic_share: float) -> str:
        kinds = self._random.random(length)
        common = np.searchsorted(self._weights, self._random.random(length))
        topic = self._topics[cluster][self._random.integers(0, _TOPIC_WORDS, length)]
        stop = self._random.integers(0, len(self._stops), length)
        return " ".join(
            self._stops[s] if kind < _STOP_SHARE else self._words[t if kind < _STOP_SHARE + topic_share else c]
            for kind, c, t, s in zip(kinds, common, topic, stop, strict=True)
        )


def _word(number: int) -> str:
    base = len(_SYLLABLES)
    return _SYLLABLES[number % base] + _SYLLABLES[number // base % base] + _SYLLABLES[number // base // base]
