"""Finding turns of long conversations: each alone, and together with its neighbours.

    python benchmarks/locomo.py DATA

DATA holds the folder locomo in BEIR's format. The turns are ingested through the platform, and each question is asked
within its own conversation. Settings are chosen on all conversations but one, and judged on that one, for each in turn.
The results go to ``benchmarks/results/locomo.json`` and ``locomo.md``.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from command import data_of, write
from report import table
from tasks import LOCOMO

from retrieval import Collection, Item, Platform, connect, read_items
from retrieval.apps.conversations import (
    CONVERSATION_FILTERABLE,
    CONVERSATION_NEIGHBOURS,
    CONVERSATION_PROFILE,
    turn_item,
)
from retrieval.collection import handle_of
from retrieval.domain.items.collection import Neighbours
from retrieval.domain.search.fusion import Rankings, fused_ids
from retrieval.domain.search.profile import Profile
from retrieval.engine.collection_search import leg_rankings
from retrieval.services.judgements import JudgedQuery, Qrels
from retrieval.settings import Settings

METRICS = ("turn R@10", "session R@10", "session R@5", "nDCG@10")
HITS = 100
"""Turns retrieved for a question: enough to rank sessions by their best turn."""

AT_ONCE = 4
"""Questions asked at a time."""

WINDOWS = tuple(
    replace(CONVERSATION_NEIGHBOURS, before=before, after=after, own_weight=weight)
    for before, after, weight in ((1, 1, 2), (2, 1, 2), (2, 2, 2), (2, 2, 3), (3, 3, 3))
)
SHARES = (0.0, 0.2, 0.3, 0.4, 0.5)
"""Weights of the dense leg, of 1."""

Scores = Mapping[str, Mapping[str, float]]
"""By metric and question."""


@dataclass(frozen=True)
class Talks:
    """The test collection."""

    turns: Sequence[Item]
    plain: Sequence[Item]
    """The same turns as the files have them."""
    sessions: Mapping[str, str]
    """By the key of a turn in the files."""
    queries: Sequence[JudgedQuery]
    qrels: Qrels

    @classmethod
    def read(cls, data: Path) -> Talks:
        """All of it."""
        plain = [line.item for line in read_items(data / LOCOMO.collection / "corpus.jsonl.gz") if line.item]
        queries, qrels = LOCOMO.queries(data)
        sessions = {hit.item_id: f"{hit.attributes['conversation']}/{hit.attributes['session']}" for hit in plain}
        return cls([as_turn(item) for item in plain], plain, sessions, queries, qrels)


def as_turn(item: Item) -> Item:
    """The turn with its speaker and day as its title, under the key that the judgements know."""
    facts = item.attributes
    turn = turn_item(
        facts["conversation"],
        facts["session"],
        facts["turn"],
        speaker=facts["speaker"],
        text=item.body.removeprefix(f"{facts['speaker']}: "),
        at=item.occurred_at or datetime.fromtimestamp(0, UTC),
    )
    return replace(turn, item_id=item.item_id)


async def ranked(collection: Collection, talks: Talks, profile: Profile) -> dict[str, list[str]]:
    """The keys of each question's hits, best first, within the question's conversation."""
    rankings: dict[str, list[str]] = {}

    def conversation(query: JudgedQuery) -> str:
        return str(query.metadata["conversation"])

    for name, queries in groupby(sorted(talks.queries, key=conversation), conversation):
        remaining = list(queries)
        for start in range(0, len(remaining), 50):
            part = remaining[start : start + 50]
            results = await collection.unrecorded().search_each(
                [query.text for query in part],
                where={"conversation": name},
                limit=HITS,
                profile=profile,
                syntax=False,
            )
            rankings |= {
                query.query_id: [hit.item_id for hit in result] for query, result in zip(part, results, strict=True)
            }
    return rankings


async def rankings_by_question(collection: Collection, talks: Talks) -> dict[str, Rankings]:
    """The rankings of each leg for each question; fused by any weights, they equal a search with those weights."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def rankings_of(query: JudgedQuery) -> Rankings:
        async with gate:
            where = {"conversation": query.metadata["conversation"]}
            return await leg_rankings(handle_of(collection), query.text, where=where, depth=HITS)

    return dict(
        zip(
            (query.query_id for query in talks.queries),
            await asyncio.gather(*map(rankings_of, talks.queries)),
            strict=True,
        )
    )


def fused(rankings: Mapping[str, Rankings], profile: Profile) -> dict[str, list[str]]:
    """The keys of each question's hits by this profile."""
    return {
        key: fused_ids(
            {leg: ranking for leg, ranking in legs.items() if leg in profile.legs},
            profile.legs,
            profile.fusion,
        )[:HITS]
        for key, legs in rankings.items()
    }


def scored(rankings: Mapping[str, Sequence[str]], talks: Talks) -> Scores:
    """Every metric of every question; sessions are in the order of their best turns."""
    scores: dict[str, dict[str, float]] = {name: {} for name in METRICS}
    for query in talks.queries:
        turns = {key for key, relevance in talks.qrels[query.query_id].items() if relevance > 0}
        sessions = {talks.sessions[key] for key in turns}
        hits = rankings[query.query_id]
        order = list(dict.fromkeys(talks.sessions[key] for key in hits))
        gain = sum(1 / math.log2(place + 2) for place, key in enumerate(hits[:10]) if key in turns)
        best = sum(1 / math.log2(place + 2) for place in range(min(10, len(turns))))
        values = (
            len(turns & set(hits[:10])) / len(turns),
            len(sessions & set(order[:10])) / len(sessions),
            len(sessions & set(order[:5])) / len(sessions),
            gain / best,
        )
        for name, value in zip(METRICS, values, strict=True):
            scores[name][query.query_id] = value
    return scores


def means(scores: Scores, queries: Sequence[JudgedQuery]) -> dict[str, float]:
    """Over these questions; session R@5 of those that need several turns, which it is the measure of."""
    hops = [query for query in queries if category(query) == "multi-hop"]
    return {
        name.replace("session R@5", "multi-hop session R@5"): round(
            fmean(scores[name][query.query_id] for query in (hops if name == "session R@5" else queries)), 4
        )
        for name in METRICS
    }


def category(query: JudgedQuery) -> str:
    """The kind of the question."""
    return str(query.metadata["category_name"])


def by_category(scores: Scores, queries: Sequence[JudgedQuery]) -> list[dict[str, Any]]:
    """A row a category."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for query in queries:
        kinds[category(query)].append(query.query_id)
    return [
        {"category": kind, "questions": len(ids)}
        | {name: round(fmean(scores[name][query_id] for query_id in ids), 4) for name in METRICS}
        for kind, ids in sorted(kinds.items())
    ]


def merit(scores: Scores, queries: Sequence[JudgedQuery]) -> float:
    """The measure by which a setting is chosen."""
    return fmean(means(scores, queries).values())


def held_out(tried: Mapping[str, Scores], talks: Talks) -> tuple[list[dict[str, Any]], Scores]:
    """For each conversation the setting that was best on the others, and the scores of all questions so."""
    rows: list[dict[str, Any]] = []
    joined: dict[str, dict[str, float]] = {name: {} for name in METRICS}
    for left_out in sorted({str(query.metadata["conversation"]) for query in talks.queries}):
        own = [query for query in talks.queries if query.metadata["conversation"] == left_out]
        others = [query for query in talks.queries if query.metadata["conversation"] != left_out]
        best = max(tried, key=lambda name: merit(tried[name], others))
        for metric in METRICS:
            joined[metric] |= {query.query_id: tried[best][metric][query.query_id] for query in own}
        rows.append({"held out": left_out, "chosen on the others": best} | means(tried[best], own))
    return rows, joined


def hybrid(share: float) -> Profile:
    """The conversations' profile with another weight of the dense leg."""
    return replace(CONVERSATION_PROFILE, legs={"dense": share, "lexical": 1 - share} if share else {"lexical": 1.0})


async def fill(platform: Platform, name: str, items: Sequence[Item], neighbours: Neighbours | None) -> Collection:
    """A collection of these turns, indexed so."""
    collection = await platform.collection(name, filterable=CONVERSATION_FILTERABLE if neighbours else None)
    await collection.add(items)
    await collection.set_neighbours(neighbours)
    return collection


async def measure(platform: Platform, data: Path) -> dict[str, Any]:
    """Everything that the page shows."""
    talks = Talks.read(data)
    variants: dict[str, Scores] = {}
    plain = await fill(platform, "locomo plain", talks.plain, None)
    titled = await fill(platform, "locomo titled", talks.turns, None)
    for label, collection in (("as it stands", plain), ("speaker and day as title", titled)):
        rankings = await rankings_by_question(collection, talks)
        for legs, share in (("words", 0.0), ("words and vectors", CONVERSATION_PROFILE.legs["dense"])):
            variants[f"{label}, {legs}"] = scored(fused(rankings, hybrid(share)), talks)
    tried: dict[str, Scores] = {}
    for window in WINDOWS:
        near = await fill(platform, "locomo", talks.turns, window)
        rankings = await rankings_by_question(near, talks)
        for share in SHARES:
            name = f"{window.before} before, {window.after} after, own × {window.own_weight}, dense {share}"
            tried[name] = scored(fused(rankings, hybrid(share)), talks)
            if window == CONVERSATION_NEIGHBOURS and share in {0.0, CONVERSATION_PROFILE.legs["dense"]}:
                variants[f"with neighbours, {'words and vectors' if share else 'words'}"] = tried[name]
    folds, joined = held_out(tried, talks)
    best = list(variants)[-1]
    near = await fill(platform, "locomo", talks.turns, CONVERSATION_NEIGHBOURS)
    variants[f"{best}, by search"] = scored(await ranked(near, talks, CONVERSATION_PROFILE), talks)
    return {
        "questions": len(talks.queries),
        "turns": len(talks.turns),
        "variants": [{"turns": name} | means(scores, talks.queries) for name, scores in variants.items()],
        "by category": {name: by_category(scores, talks.queries) for name, scores in variants.items()},
        "best": best,
        "tried": [{"setting": name} | means(scores, talks.queries) for name, scores in tried.items()],
        "held out": [*folds, {"held out": "all", "chosen on the others": ""} | means(joined, talks.queries)],
    }


def page(result: Mapping[str, Any]) -> str:
    """The results as Markdown."""
    best = result["best"]
    return f"""# Turns of conversations

{result["questions"]} questions about {result["turns"]} turns of long conversations (LoCoMo), each asked within its own.
Sessions are ranked by their best turn. Written by `benchmarks/locomo.py`.

{table(result["variants"])}

## By category: {best}

{table(result["by category"][best])}

## Held out

For each conversation the setting of the table below that is best on the five others, judged on this one.

{table(result["held out"])}

## What was tried

{table(result["tried"])}
"""


async def main(data: Path) -> None:
    """Measure, print, write."""
    async with connect(settings=Settings().changed(embedder="minilm")) as platform:
        result = await measure(platform, data)
    write("locomo", result, page(result))


if __name__ == "__main__":
    asyncio.run(main(data_of(__doc__)))
