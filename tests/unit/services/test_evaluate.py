"""Evaluating a search that is passed in: what it is asked, and what is made of its answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from retrieval.domain.errors import EmbedderUnavailableError, InvalidRequestError
from retrieval.services.evaluate import Report, evaluate, parse_metrics
from retrieval.services.judgements import DropSelf, JudgedQuery, WhereFrom
from tests.support.searching import kept

QUERIES = [JudgedQuery(query_id=f"q{number}", text=f"text {number}") for number in range(4)]
QRELS = {f"q{number}": {f"d{number}": 1} for number in range(4)}


class CannedSearch:
    """Answers from a table by variant and text, and remembers what it was asked."""

    def __init__(self, answers: Mapping[tuple[str, str], Sequence[str]]) -> None:
        self.answers = answers
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> Sequence[str]:
        """The canned item ids."""
        self.asked.append({"text": text, "where": where, "limit": limit, "variant": variant})
        return kept(self.answers.get((variant, text), []), where)


class Ticks:
    """A clock on which the n-th reading pair is n milliseconds apart."""

    def __init__(self) -> None:
        self.readings = 0
        self.now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        self.readings += 1
        if self.readings % 2 == 0:
            self.now += self.readings / 2 / 1000
        return self.now


async def evaluated(search: CannedSearch, **options: Any) -> Report:
    """The report on the four queries, on nDCG@10 unless told otherwise."""
    options = {"metrics": parse_metrics("nDCG@10"), "variants": ["fused"]} | options
    return await evaluate(search, options.pop("queries", QUERIES), options.pop("qrels", QRELS), **options)


async def test_every_variant_is_asked_every_judged_query() -> None:
    """In the order of the variants and the queries; unjudged queries are left out and counted."""
    search = CannedSearch({})
    queries = [JudgedQuery(query_id="unjudged", text="nobody knows"), *QUERIES[:2]]

    report = await evaluated(search, queries=queries, variants=["lexical", "dense"])

    assert [(one["variant"], one["text"]) for one in search.asked] == [
        ("lexical", "text 0"),
        ("lexical", "text 1"),
        ("dense", "text 0"),
        ("dense", "text 1"),
    ]
    assert (report.queries, report.unjudged) == (2, 1)


async def test_quality_is_reported_by_variant_and_by_query() -> None:
    """Right at rank 1, right at rank 2, wrong, nothing: reciprocal ranks 1, 1/2, 0, 0."""
    search = CannedSearch({("dense", "text 0"): ["d0"], ("dense", "text 1"): ["x", "d1"], ("dense", "text 2"): ["x"]})

    report = await evaluated(search, variants=["dense"], metrics=parse_metrics("MRR@10,R@1"))

    (dense,) = report.variants
    assert dense.means == {"MRR@10": 0.375, "R@1": 0.25}
    assert dense.per_query["MRR@10"] == {"q0": 1.0, "q1": 0.5, "q2": 0.0, "q3": 0.0}
    assert dense.without_results == 1


@pytest.mark.parametrize(
    ("metrics", "limit"),
    [("nDCG@10", 10), ("nDCG@10,R@250,MRR@10", 250), ("nDCG@10,AP", 100), ("R@250,AP", 250)],
)
async def test_the_deepest_metric_says_how_many_results_are_asked_for(metrics: str, limit: int) -> None:
    """Metrics without a cutoff look at 100."""
    search = CannedSearch({})

    await evaluated(search, metrics=parse_metrics(metrics))

    assert {one["limit"] for one in search.asked} == {limit}


async def test_a_querys_own_item_is_left_out_and_costs_no_place() -> None:
    """The search ranks as if it did not exist, so the relevant one moves up."""
    queries = [
        JudgedQuery(query_id="q0", text="text 0", metadata={"self_id": "me"}),
        JudgedQuery(query_id="q1", text="text 1"),
    ]
    search = CannedSearch({("fused", "text 0"): ["me", "d0"], ("fused", "text 1"): ["x", "d1"]})

    report = await evaluated(
        search, queries=queries, metrics=parse_metrics("R@1"), drop_self=DropSelf.parse("metadata.self_id")
    )

    assert [one["where"] for one in search.asked] == [{"item_id": {"ne": "me"}}, None]
    assert [one["limit"] for one in search.asked] == [1, 1]
    assert report.variants[0].per_query["R@1"] == {"q0": 1.0, "q1": 0.0}


async def test_a_name_that_no_query_has_is_refused() -> None:
    """A slip of the pen would otherwise change nothing but the figures."""
    with pytest.raises(InvalidRequestError, match=r"no query has metadata\.nope"):
        await evaluated(CannedSearch({}), drop_self=DropSelf.parse("metadata.nope"))


async def test_results_beyond_the_depth_do_not_count() -> None:
    """AP looks at the 100 results that were asked for, even if a search gives more."""
    search = CannedSearch({("fused", "text 0"): [*(f"x{number}" for number in range(100)), "d0"]})

    report = await evaluated(search, queries=QUERIES[:1], metrics=parse_metrics("AP"))

    assert report.variants[0].means == {"AP": 0.0}


async def test_each_query_searches_within_its_own_filter() -> None:
    """The filter's value is the query's; without expressions there is no filter."""
    queries = [JudgedQuery(query_id=f"q{n}", text=f"text {n}", metadata={"room": f"r{n}"}) for n in range(2)]
    filtered, plain = CannedSearch({}), CannedSearch({})

    await evaluated(filtered, queries=queries, where_from=[WhereFrom.parse("metadata.room=room")])
    await evaluated(plain, queries=queries)

    assert [one["where"] for one in filtered.asked] == [{"room": "r0"}, {"room": "r1"}]
    assert [one["where"] for one in plain.asked] == [None, None]


async def test_nothing_is_searched_when_a_query_lacks_its_filter() -> None:
    """The mistake in the last query is told before the first search."""
    queries = [JudgedQuery(query_id="q0", text="text 0", metadata={"room": "r"}), *QUERIES[1:]]
    search = CannedSearch({})

    with pytest.raises(InvalidRequestError, match=r"'q1' has no metadata\.room"):
        await evaluated(search, queries=queries, where_from=[WhereFrom.parse("metadata.room=room")])

    assert search.asked == []


async def test_latencies_are_medians_and_percentiles_in_milliseconds() -> None:
    """Searches of 1, 2, 3 and 4 ms have the median 2.5 and the 95th percentile 3.85."""
    report = await evaluated(CannedSearch({}), clock=Ticks())

    assert (report.variants[0].median_ms, report.variants[0].p95_ms) == pytest.approx((2.5, 3.85))


async def test_fused_is_compared_with_each_other_variant_on_the_first_metric() -> None:
    """Fused and lexical rank all four second, dense finds none: 2 of 16 sign patterns are as extreme."""
    fused = {("fused", f"text {number}"): ["x", f"d{number}"] for number in range(4)}
    lexical = {("lexical", f"text {number}"): ["x", f"d{number}"] for number in range(4)}

    report = await evaluated(
        CannedSearch(fused | lexical),
        variants=["lexical", "dense", "fused"],
        metrics=parse_metrics("MRR@10,R@100"),
        rng=np.random.default_rng(3),
    )

    found = [(one.name_a, one.name_b, one.difference, one.p_value) for one in report.comparisons]
    assert found == [("fused", "lexical", 0.0, 1.0), ("fused", "dense", 0.5, 0.125)]


async def test_without_a_fused_variant_nothing_is_compared() -> None:
    """Legs alone are reported side by side."""
    assert (await evaluated(CannedSearch({}), variants=["lexical", "dense"])).comparisons == ()


async def test_progress_counts_every_search() -> None:
    """From 1 to queries times variants."""
    seen: list[tuple[int, int]] = []

    await evaluated(
        CannedSearch({}),
        variants=["lexical", "fused"],
        concurrency=3,
        progress=lambda done, total: seen.append((done, total)),
    )

    assert seen == [(done, 8) for done in range(1, 9)]


@pytest.mark.parametrize("concurrency", [1, 3, 100])
async def test_searches_run_side_by_side_up_to_the_limit(concurrency: int) -> None:
    """Exactly as many searches are open at once as allowed, or as there are."""
    full = asyncio.Event()
    running, most, expected = 0, 0, min(concurrency, len(QUERIES))

    async def search(text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> list[str]:  # noqa: ARG001
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == expected:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        running -= 1
        return []

    async with asyncio.timeout(10):
        await evaluate(search, QUERIES, QRELS, metrics=parse_metrics("AP"), variants=["fused"], concurrency=concurrency)

    assert most == expected


async def test_the_report_does_not_depend_on_the_concurrency() -> None:
    """Queries stay in order whoever finishes first."""
    answers = {("fused", "text 1"): ["d1"], ("fused", "text 3"): ["x", "d3"]}

    one = await evaluated(CannedSearch(answers), concurrency=1, clock=lambda: 0.0)
    many = await evaluated(CannedSearch(answers), concurrency=4, clock=lambda: 0.0)

    assert one == many


async def test_an_error_of_a_search_ends_the_evaluation_as_it_is() -> None:
    """The caller sees the embedder's own error with its cause, no group, and no search goes on."""
    waiting = asyncio.Event()
    cancelled = 0

    async def search(text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> list[str]:  # noqa: ARG001
        nonlocal cancelled
        if text == "text 1":
            raise EmbedderUnavailableError("down; try again later") from ConnectionError("refused")
        try:
            await waiting.wait()
        except asyncio.CancelledError:
            cancelled += 1
            raise
        return []

    with pytest.raises(EmbedderUnavailableError, match="try again later") as caught:
        await evaluate(search, QUERIES, QRELS, metrics=parse_metrics("AP"), variants=["fused"], concurrency=2)

    assert isinstance(caught.value.__cause__, ConnectionError)
    assert cancelled == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ()}, "no metric"),
        ({"variants": []}, "variants"),
        ({"variants": ["dense", "dense"]}, "each once"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"qrels": {"other": {"d": 1}}}, "no query is judged"),
    ],
)
async def test_what_cannot_be_measured_is_refused(options: dict[str, Any], message: str) -> None:
    """The error comes before the first search."""
    search = CannedSearch({})

    with pytest.raises(InvalidRequestError, match=message):
        await evaluated(search, **options)

    assert search.asked == []


async def test_the_report_is_plain_json_with_queries_on_request() -> None:
    """It survives being written and read; values by query are large and therefore asked for."""
    report = await evaluated(CannedSearch({("fused", "text 0"): ["d0"]}), variants=["dense", "fused"])

    short, long = report.as_dict(), report.as_dict(per_query=True)

    assert json.loads(json.dumps(long)) == long
    assert short["variants"][1]["metrics"] == {"nDCG@10": 0.25}
    assert "per_query" not in short["variants"][1]
    assert long["variants"][1]["per_query"]["nDCG@10"] == {"q0": 1.0, "q1": 0.0, "q2": 0.0, "q3": 0.0}
    assert [(one["name_a"], one["name_b"]) for one in short["comparisons"]] == [("fused", "dense")]
