"""Synthetic memories of one project, questions about them, and the true answers by comparing every memory.

Texts are sentences of the sample tickets put together in new ways, 20 to 60 words. In the usual world most memories
keep the base relevance that they were stored with, most were never retrieved again and a few very often, and links
follow the few entities that everybody works on. In the hard world relevance and use are spread evenly and have nothing
to do with each other or with time, so that the best by one signal are nobody's best by the next.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retrieval.domain.search.signals import EntityKey, tokens

NOW = datetime(2026, 5, 1, tzinfo=UTC)
TYPES = ("insights", "summary", "triage", "protocols", "plans")
PROJECT = "project"
DAYS = 730
_TICKETS = Path(__file__).parents[1] / "examples" / "data" / "tickets"
_ENTITIES = {"questions": 2000, "hypotheses": 500, "papers": 5000}

Floats = NDArray[np.float64]
Question = tuple[str, Mapping[str, object]]
"""The words, and what else is given to ``retrieve_relevant_memories``."""


@dataclass(frozen=True, slots=True)
class World:
    """Memories by their number; sequences in one order."""

    texts: Sequence[str]
    types: Sequence[str]
    days: Floats
    """Since each happened."""
    relevance: Floats
    accesses: Sequence[int]
    links: Sequence[frozenset[EntityKey]]
    with_word: Mapping[str, Sequence[int]] = field(default_factory=dict)
    linked: Mapping[EntityKey, Sequence[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    def happened_at(self, number: int) -> datetime:
        """The time when a memory happened."""
        return NOW - timedelta(days=float(self.days[number]))


def make_world(number: int, *, is_hard: bool = False, seed: int = 1) -> World:
    """A world of ``number`` memories."""
    chance = random.Random(seed)  # noqa: S311 - nothing is kept secret by it
    sentences = _sentences()
    texts = [_text(sentences, chance) for _ in range(number)]
    links = [_links(chance) for _ in range(number)]
    with_word: dict[str, list[int]] = defaultdict(list)
    linked: dict[EntityKey, list[int]] = defaultdict(list)
    for place, (text, entities) in enumerate(zip(texts, links, strict=True)):
        for word in tokens(text):
            with_word[word].append(place)
        for entity in entities:
            linked[entity].append(place)
    return World(
        texts=texts,
        types=[chance.choice(TYPES) for _ in range(number)],
        days=np.array([chance.uniform(0, DAYS) for _ in range(number)]),
        relevance=np.array([_relevance(chance, is_hard=is_hard) for _ in range(number)]),
        accesses=[_accesses(chance, is_hard=is_hard) for _ in range(number)],
        links=links,
        with_word=with_word,
        linked=linked,
    )


def questions(number: int, seed: int = 2) -> dict[str, list[Question]]:
    """``number`` questions of each kind, by the kind's name."""
    chance = random.Random(seed)  # noqa: S311 - nothing is kept secret by it
    titles = _titles()

    def words() -> str:
        return " ".join(chance.choice(titles).split()[:8])

    def entities(most: int) -> dict[str, list[str]]:
        by_type: dict[str, list[str]] = defaultdict(list)
        for entity_type, entity_id in list(_links(chance, least=1))[:most]:
            by_type[entity_type].append(entity_id)
        return dict(by_type)

    kinds: dict[str, Callable[[], Question]] = {
        "words": lambda: (words(), {}),
        "no words": lambda: ("", {}),
        "words, filtered by entities": lambda: (words(), {"entity_ids": entities(3)}),
        "words, entities preferred": lambda: (words(), {"entity_ids": entities(3), "match_entities": "prefer"}),
        "entities preferred, no words": lambda: ("", {"entity_ids": entities(3), "match_entities": "prefer"}),
        "words, two types": lambda: (words(), {"interaction_types": chance.sample(TYPES, 2)}),
    }
    return {name: [make() for _ in range(number)] for name, make in kinds.items()}


def true_scores(world: World, question: Question) -> Floats:
    """The hybrid score of every memory, -1 where the filter leaves it out. By the design's formula, not by our code.

    Words or entities that the question has not leave their weight to the other signals.
    """
    words, links = question
    scores = 0.30 * world.relevance + 0.25 * np.exp(-world.days / 14)
    scores += 0.15 * np.minimum(1, np.log10(np.array(world.accesses) + 1) / math.log10(101))
    query_words = tokens(words)
    for word in query_words:
        scores[list(world.with_word.get(word, ()))] += 0.20 / len(query_words)
    entities = _entities_of(links)
    is_linked = np.zeros(len(world), dtype=bool)
    for entity in entities:
        places = list(world.linked.get(entity, ()))
        scores[places] += 0.10 / len(entities)
        is_linked[places] = True
    scores /= 0.70 + (0.20 if query_words else 0) + (0.10 if entities else 0)
    if entities and links.get("match_entities", "filter") == "filter":
        scores[~is_linked] = -1
    if types := links.get("interaction_types"):
        scores[[kind not in types for kind in world.types]] = -1  # type: ignore[operator]
    return scores


def _entities_of(links: Mapping[str, object]) -> list[EntityKey]:
    by_type = links.get("entity_ids") or {}
    return [(kind, entity_id) for kind, ids in by_type.items() for entity_id in ids]  # type: ignore[attr-defined]


def _sentences() -> list[list[str]]:
    """The sentences of 3 to 30 words of each ticket."""
    with gzip.open(_TICKETS / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [" ".join(f"{row['title']}. {row['text']}".split()) for row in map(json.loads, lines)]
    sentences = [
        [sentence for sentence in re.split(r"(?<=[.?!]) ", text) if 3 <= len(sentence.split()) <= 30] for text in texts
    ]
    return [kind for kind in sentences if kind]


def _titles() -> list[str]:
    with (_TICKETS / "queries.jsonl").open(encoding="utf-8") as lines:
        return [row["text"] for row in map(json.loads, lines) if len(row["text"].split()) >= 3]


def _text(sentences: Sequence[Sequence[str]], chance: random.Random) -> str:
    main, other = chance.choice(sentences), chance.choice(sentences)
    words: list[str] = []
    while len(words) < 20:
        words += chance.choice(chance.choice([main, main, other])).split()
    return " ".join(words[: chance.randint(20, 60)])


def _links(chance: random.Random, least: int = 0) -> frozenset[EntityKey]:
    """A few entities, most of them of those that everybody works on."""
    links = set()
    for _ in range(chance.randint(least, 3)):
        kind = chance.choice(list(_ENTITIES))
        links.add((kind, f"{kind[0]}{int(_ENTITIES[kind] * chance.random() ** 3)}"))
    return frozenset(links)


def _relevance(chance: random.Random, *, is_hard: bool) -> float:
    return chance.random() if is_hard or chance.random() < 0.2 else 1.0


def _accesses(chance: random.Random, *, is_hard: bool) -> int:
    if is_hard:
        return int(math.expm1(chance.uniform(0, math.log(300))))
    return 0 if chance.random() < 0.6 else min(int(chance.paretovariate(0.9)), 2000)
