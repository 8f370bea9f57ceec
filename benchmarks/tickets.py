"""The effect of the metadata's weight on the search for duplicates: the tickets application on judged bug reports.

    python benchmarks/tickets.py DATA

DATA holds the folder tickets_hadoop in BEIR's format: a query is a later duplicate's title, with its description beside
it. Only what existed at its time is searched, without itself, and a resolution that was still to come is not known.
With the offline embedding model. The result goes to ``benchmarks/results/tickets.md``.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import fmean

from command import data_of
from tasks import TICKETS

from retrieval import Collection, Hit, Platform, Profile, connect
from retrieval.apps.tickets import (
    PRESETS,
    TICKET_FILTERABLE,
    RetrievalConfig,
    RetrievalService,
    Weighting,
    ticket_item,
)
from retrieval.apps.tickets.answers import rank_by_weights
from retrieval.apps.tickets.models import Weights, tickets_profile
from retrieval.domain.checks import clean_value
from retrieval.domain.search.signals import Facts, Question, ResolutionTime
from retrieval.engine.plan import default_profile
from retrieval.services.evaluate import measure, parse_metric
from retrieval.services.judgements import JudgedQuery, Qrels
from retrieval.settings import Settings

RESULTS = Path(__file__).parent / "results" / "tickets.md"
COLLECTION = "tickets_hadoop_history"
METADATA_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5)
CANDIDATES = (15, 20, 30, 50, 100, 500, 1000)
PAGE = 10
WANTED = (10, 20)

Run = dict[str, list[str]]
Text = Callable[[JudgedQuery], str]


def title(query: JudgedQuery) -> str:
    """The title alone."""
    return query.text


def whole(query: JudgedQuery) -> str:
    """Title and description."""
    return f"{query.text}\n{query.metadata.get('description', '')}".strip()


QUESTIONS: Mapping[str, Text] = {"title": title, "title and description": whole}


async def loaded(platform: Platform, data: Path) -> Collection:
    """The tickets, as the application keeps them; a second time at no cost."""
    collection = await platform.collection(COLLECTION, filterable=TICKET_FILTERABLE)
    with gzip.open(data / TICKETS.collection / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        # The reports contain control characters, which cannot be stored.
        await collection.add([ticket_item(clean_value(json.loads(line))) for line in lines])
    return collection.unrecorded()


async def by_vector(platform: Platform, queries: Sequence[JudgedQuery], text: Text) -> dict[float, Run]:
    """By metadata weight, what the service finds: similarity is the cosine."""
    service = RetrievalService(RetrievalConfig(collection=COLLECTION), platform)
    weightings = [Weighting.of(f"{weight:g}", Weights(1 - weight, weight)) for weight in METADATA_WEIGHTS]
    runs: dict[float, Run] = {weight: {} for weight in METADATA_WEIGHTS}
    for query in queries:
        config = {
            "weightings": weightings,
            "top_k": PAGE,
            "as_of": query.metadata["as_of"],
            "exclude_ids": [query.metadata["self_id"]],
        }
        previewed = await service.preview_search(text(query), config=config)
        for preview in previewed.previews:
            runs[float(preview.weighting.name)][query.query_id] = [moved.ticket.ticket_id for moved in preview.tickets]
    return runs


async def by_both(collection: Collection, queries: Sequence[JudgedQuery], text: Text) -> dict[float, Run]:
    """By metadata weight, the same formula over the fused score of words and vectors: the default profile's."""
    runs: dict[float, Run] = {weight: {} for weight in METADATA_WEIGHTS}
    profile = default_profile(await collection.space())
    _, *metadata = tickets_profile(0.0, 1.0).signals
    for query in queries:
        where, now = narrowed(query)
        hits = await collection.search(text(query), where=where, limit=PAGE, profile=profile, syntax=False)
        question = Question(now=now)
        scored = [
            (
                hit.score,
                sum(signal.weight * signal.value(Facts(attributes=hit.attributes), question) for signal in metadata),
                hit,
            )
            for hit in hits
        ]
        for weight, run in runs.items():
            ranked = sorted((-(1 - weight) * text_ - weight * meta, hit.item_id) for text_, meta, hit in scored)
            run[query.query_id] = [item_id for _, item_id in ranked[:PAGE]]
    return runs


async def nearest(collection: Collection, queries: Sequence[JudgedQuery], text: Text) -> dict[str, list[Hit]]:
    """By query the nearest tickets, the nearest first, as many as may be scored."""
    result: dict[str, list[Hit]] = {}
    for query in queries:
        where, now = narrowed(query)
        most = CANDIDATES[-1]
        profile = tickets_profile(1.0, 0.0, candidates=most)
        hits = await collection.search(text(query), where=where, limit=most, profile=profile, syntax=False, as_of=now)
        result[query.query_id] = list(hits)
    return result


def by_candidates(near: Mapping[str, list[Hit]], queries: Sequence[JudgedQuery], top_k: int) -> dict[int, Run]:
    """By the number of the nearest that are scored, the first page under the default weights."""
    counts = [top_k, *(count for count in CANDIDATES if count > top_k)]
    return {count: scored_pages(near, queries, tickets_profile(), count, top_k) for count in counts}


def scored_pages(
    near: Mapping[str, list[Hit]], queries: Sequence[JudgedQuery], profile: Profile, count: int, top_k: int
) -> Run:
    """The pages of ``top_k`` tickets, from the ``count`` nearest that the profile scores."""
    run: Run = {}
    for query in queries:
        as_of = narrowed(query)[1]
        ranked = rank_by_weights(near[query.query_id][:count], profile, as_of)
        run[query.query_id] = [one.ticket.ticket_id for one in ranked[:top_k]]
    return run


def without_unknown_hours() -> Profile:
    """The profile in which unknown hours count as 0."""
    profile = tickets_profile()
    signals = (
        replace(signal, unknown_hours=None) if isinstance(signal, ResolutionTime) else signal
        for signal in profile.signals
    )
    return replace(profile, signals=tuple(signals))


def chosen_elsewhere(runs: Mapping[int, Run], qrels: Qrels) -> tuple[Counter[int], float]:
    """For each query the count that is best on the others: how often each is chosen, and the nDCG@10 of the choices.

    Of equal counts the smaller is chosen. A choice is judged on a query that it was not made by.
    """
    values = {count: measure(run, qrels, parse_metric("nDCG@10")) for count, run in runs.items()}
    counts: Counter[int] = Counter()
    earned = []
    for query_id in next(iter(values.values())):
        others = {count: sum(each.values()) - each[query_id] for count, each in values.items()}
        best = max(others, key=lambda count: (round(others[count], 9), -count))
        counts[best] += 1
        earned.append(values[best][query_id])
    return counts, fmean(earned)


def narrowed(query: JudgedQuery) -> tuple[dict[str, object], datetime]:
    """The filter of what existed at the query's time, without its own ticket; and that time."""
    as_of = datetime.fromisoformat(str(query.metadata["as_of"]))
    return {"occurred_at": {"lt": as_of}, "item_id": {"ne": query.metadata["self_id"]}}, as_of


def figures(run: Run, qrels: Qrels) -> tuple[float, float]:
    """nDCG@10 and R@10."""
    ndcg, recall = (fmean(measure(run, qrels, parse_metric(name)).values()) for name in ("nDCG@10", "R@10"))
    return ndcg, recall


ABOUT = """\
# Tickets: duplicates, and what the metadata's weight does

{documents:,} Hadoop bug reports, {queries} later duplicates as queries; only what existed at the query's time, without
the query's own ticket; all-MiniLM-L6-v2 (8-bit). Made by `python benchmarks/tickets.py DATA`.

## nDCG@10 (R@10) by metadata weight

`vector`: the cosine, as `RetrievalService` has it, over the {page} nearest, as many as are wanted. `words and vector`:
the same formula over the fused score of the local model's default profile, its best {page}. The presets' metadata
weights: {presets}.

| similarity | asked by | {weights} |
|---|---|{columns}
{quality}

## How many of the nearest are scored

nDCG@10 under the weights .7 and .3, by how many of the nearest are scored, at least as many as are wanted (`top_k`).

| wanted | asked by | {counts} |
|---|---|{count_columns}
{candidates}

Which count is best was chosen for each query by the other {others} (leave-one-out), of equal ones the smallest:

| wanted | asked by | chosen | nDCG@10 on the query left out |
|---|---|---|---|
{choices}

## Hours that are not known

What a ticket counts as whose resolution was still to come, or has no time: nDCG@10 under the weights .7 and .3, the
{page} nearest scored.

| asked by | as 24 hours | as nothing |
|---|---|---|
{unknown}
"""


async def report(data: Path) -> str:
    """The page of results."""
    queries, qrels = TICKETS.queries(data)
    async with connect(settings=Settings().changed(embedder="minilm")) as platform:
        collection = await loaded(platform, data)
        runs: dict[tuple[str, str], dict[float, Run]] = {}
        near: dict[str, dict[str, list[Hit]]] = {}
        for query_name, text in QUESTIONS.items():
            runs["vector", query_name] = await by_vector(platform, queries, text)
            runs["words and vector", query_name] = await by_both(collection, queries, text)
            near[query_name] = await nearest(collection, queries, text)
        documents = (await collection.info()).items
    by_top_k = {
        (top_k, query_name): by_candidates(near[query_name], queries, top_k)
        for top_k in WANTED
        for query_name in QUESTIONS
    }
    return ABOUT.format(
        documents=documents,
        queries=len(queries),
        page=PAGE,
        presets=", ".join(f"{name} {weights.metadata:g}" for name, weights in PRESETS.items()),
        weights=" | ".join(f"{weight:g}" for weight in METADATA_WEIGHTS),
        columns="---|" * len(METADATA_WEIGHTS),
        quality="\n".join(quality_row(*name, by_weight, qrels) for name, by_weight in runs.items()),
        counts=" | ".join(["top_k", *(f"{count:,}" for count in CANDIDATES)]),
        count_columns="---|" * (len(CANDIDATES) + 1),
        candidates="\n".join(count_row(*name, by_count, qrels) for name, by_count in by_top_k.items()),
        others=len(queries) - 1,
        choices="\n".join(choice_row(*name, by_count, qrels) for name, by_count in by_top_k.items()),
        unknown="\n".join(unknown_row(query_name, near[query_name], queries, qrels) for query_name in QUESTIONS),
    )


def quality_row(similarity: str, name: str, by_weight: Mapping[float, Run], qrels: Qrels) -> str:
    """A row of the first table."""
    cells = [f"{ndcg:.3f} ({recall:.2f})" for ndcg, recall in (figures(run, qrels) for run in by_weight.values())]
    return f"| {similarity} | {name} | {' | '.join(cells)} |"


def count_row(top_k: int, name: str, by_count: Mapping[int, Run], qrels: Qrels) -> str:
    """A row of the second table; a count below ``top_k`` has no cell of its own."""
    cells = [f"{figures(by_count[count], qrels)[0]:.3f}" if count in by_count else "" for count in (top_k, *CANDIDATES)]
    return f"| {top_k} | {name} | {' | '.join(cells)} |"


def choice_row(top_k: int, name: str, by_count: Mapping[int, Run], qrels: Qrels) -> str:
    """A row of the third table."""
    choice, ndcg = chosen_elsewhere(by_count, qrels)
    times = ", ".join(f"{count} ({times} times)" for count, times in choice.most_common())
    return f"| {top_k} | {name} | {times} | {ndcg:.3f} |"


def unknown_row(name: str, near: Mapping[str, list[Hit]], queries: Sequence[JudgedQuery], qrels: Qrels) -> str:
    """A row of the fourth table."""
    profiles = (tickets_profile(), without_unknown_hours())
    cells = [figures(scored_pages(near, queries, profile, PAGE, PAGE), qrels)[0] for profile in profiles]
    return f"| {name} | {' | '.join(f'{cell:.3f}' for cell in cells)} |"


if __name__ == "__main__":
    folder = data_of(__doc__)
    if not (folder / TICKETS.collection).is_dir():
        sys.exit(f"{folder} holds no {TICKETS.collection} folder; give the folder of the test collections")
    page = asyncio.run(report(folder))
    print(page)
    RESULTS.write_text(page, encoding="utf-8")
