"""The weight of similarity beside use, measured on the real store."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import principle_corpus
from server import running

from retrieval import Feedback, Platform, Settings, connect
from retrieval.apps.principles import FoundPrinciples, PrincipleStore, principles_profile
from retrieval.apps.principles.store import principles_collection

PLACES = 5
_MOST_VERDICTS = 20


async def by_weight(server: str | None, weights: Sequence[float], histories: int) -> list[dict[str, Any]]:
    """A row for each weight of the similarity, over all situations and histories."""
    figures: dict[float, list[dict[str, float]]] = {weight: [] for weight in weights}
    with running(server) as at:
        url = at.database("principles", platform=True)
        async with connect(url, settings=Settings(embedder="minilm")) as platform:
            for seed in range(histories):
                chance = random.Random(seed)  # noqa: S311 - a simulation
                store = await _fill(platform, f"principles_{seed}", chance)
                collection = await principles_collection(platform, f"principles_{seed}")
                for weight in weights:
                    await collection.set_profile(principles_profile(weight))
                    store = await PrincipleStore.open(platform, collection.name)
                    figures[weight] += await _figures_by_words(store)
    return [_row(weight, rows) for weight, rows in figures.items()]


async def _fill(platform: Platform, name: str, rng: random.Random) -> PrincipleStore:
    """All principles, with verdicts that say nothing about what they fit."""
    store = await PrincipleStore.open(platform, name)
    events = []
    for lesson in principle_corpus.lessons():
        await store.add_principle(lesson.title, lesson.body, lesson.tags, principle_id=lesson.key)
        helps = rng.betavariate(3, 2)
        events += [
            Feedback(collection=name, item_id=lesson.key, helpful=rng.random() < helps)
            for _ in range(rng.randint(0, _MOST_VERDICTS))
        ]
    await platform.feedback_each(events)
    return store


async def _figures_by_words(store: PrincipleStore) -> list[dict[str, float]]:
    """The figures of each situation, asked in words alone."""
    scores = {standing.principle.id: standing.score for standing in await store.get_principle_scores()}
    return [
        _figures(await store.search_principles(situation.words, limit=PLACES), situation.helps, scores)
        for situation in principle_corpus.situations()
    ]


def _figures(hits: FoundPrinciples, helps: Sequence[str], scores: Mapping[str, float]) -> dict[str, float]:
    ids = [hit.principle.id for hit in hits]
    return {
        "hit@5": float(any(principle_id in helps for principle_id in ids)),
        "nDCG@5": _discounted([float(principle_id in helps) for principle_id in ids]) / _discounted([1.0] * len(helps)),
        "worth@5": _discounted([scores[principle_id] * (principle_id in helps) for principle_id in ids])
        / _discounted(sorted((scores[principle_id] for principle_id in helps), reverse=True)),
        "mean principle score": statistics.fmean(scores[principle_id] for principle_id in ids),
    }


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:PLACES], 1))


def _row(weight: float, rows: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    means = {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}
    return {"weight": f"{weight:g}", "situations": len(rows)} | {name: round(mean, 3) for name, mean in means.items()}
