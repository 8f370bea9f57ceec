"""Evaluation of a search and of a collection, and metrics against values worked out by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.domain.errors import EmbedderUnavailableError, InvalidProfileError, InvalidRequestError
from retrieval.domain.search.hit import Explanation, Hit, Path, SearchResult
from retrieval.domain.search.profile import LegName, Profile
from retrieval.services.evaluate import (
    Ndcg,
    Report,
    chosen_legs,
    evaluate,
    evaluate_collection,
    measure,
    parse_metric,
    parse_metrics,
)
from retrieval.services.judgements import DropSelf, JudgedQuery, WhereFrom
from tests.support.searching import without_excluded

QUERIES = [JudgedQuery(query_id=f"q{number}", text=f"text {number}") for number in range(4)]
QRELS = {f"q{number}": {f"d{number}": 1} for number in range(4)}


class CannedSearch:
    """Answers from a table by variant and text, and records the calls."""

    def __init__(self, answers: Mapping[tuple[str, str], Sequence[str]]) -> None:
        self.answers = answers
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> Sequence[str]:
        """The canned item ids."""
        self.asked.append({"text": text, "where": where, "limit": limit, "variant": variant})
        return without_excluded(self.answers.get((variant, text), []), where)


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


async def test_every_variant_answers_every_judged_query() -> None:
    """In the order of variants and queries; unjudged queries are left out and counted."""
    search = CannedSearch({})
    queries = [JudgedQuery(query_id="unjudged", text="nobody knows"), *QUERIES[:2]]

    report = await evaluated(search, queries=queries, variants=["lexical", "dense"])

    assert [(request["variant"], request["text"]) for request in search.asked] == [
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
async def test_the_deepest_metric_determines_the_limit(metrics: str, limit: int) -> None:
    """Metrics without a cutoff look at 100."""
    search = CannedSearch({})

    await evaluated(search, metrics=parse_metrics(metrics))

    assert {request["limit"] for request in search.asked} == {limit}


async def test_a_querys_own_item_is_left_out_and_costs_no_place() -> None:
    """The metrics are those of a ranking without it, so the relevant item moves up."""
    queries = [
        JudgedQuery(query_id="q0", text="text 0", metadata={"self_id": "me"}),
        JudgedQuery(query_id="q1", text="text 1"),
    ]
    search = CannedSearch({("fused", "text 0"): ["me", "d0"], ("fused", "text 1"): ["x", "d1"]})

    report = await evaluated(
        search, queries=queries, metrics=parse_metrics("R@1"), drop_self=DropSelf.parse("metadata.self_id")
    )

    assert [request["where"] for request in search.asked] == [{"item_id": {"ne": "me"}}, None]
    assert [request["limit"] for request in search.asked] == [1, 1]
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

    assert [request["where"] for request in filtered.asked] == [{"room": "r0"}, {"room": "r1"}]
    assert [request["where"] for request in plain.asked] == [None, None]


async def test_nothing_is_searched_when_a_query_lacks_its_filter() -> None:
    """The last query's mistake is reported before the first search."""
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

    rows = [
        (comparison.name_a, comparison.name_b, comparison.difference, comparison.p_value)
        for comparison in report.comparisons
    ]
    assert rows == [("fused", "lexical", 0.0, 1.0), ("fused", "dense", 0.5, 0.125)]


async def test_without_a_fused_variant_nothing_is_compared() -> None:
    """Legs alone are reported side by side."""
    assert (await evaluated(CannedSearch({}), variants=["lexical", "dense"])).comparisons == ()


async def test_progress_counts_every_search() -> None:
    """From 1 to queries times variants."""
    progress: list[tuple[int, int]] = []

    await evaluated(
        CannedSearch({}),
        variants=["lexical", "fused"],
        progress=lambda done, total: progress.append((done, total)),
    )

    assert progress == [(count, 8) for count in range(1, 9)]


async def test_an_error_of_a_search_ends_the_evaluation_as_it_is() -> None:
    """The caller sees the embedder's own error with its cause, and no search goes on."""
    asked: list[str] = []

    async def search(text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> list[str]:  # noqa: ARG001
        asked.append(text)
        if text == "text 1":
            raise EmbedderUnavailableError("down; try again later") from ConnectionError("refused")
        return []

    with pytest.raises(EmbedderUnavailableError, match="try again later") as caught:
        await evaluate(search, QUERIES, QRELS, metrics=parse_metrics("AP"), variants=["fused"])

    assert isinstance(caught.value.__cause__, ConnectionError)
    assert asked[-1] == "text 1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ()}, "no metric"),
        ({"variants": []}, "variants"),
        ({"variants": ["dense", "dense"]}, "each once"),
        ({"qrels": {"other": {"d": 1}}}, "no query is judged"),
    ],
)
async def test_impossible_evaluations_are_refused(options: dict[str, Any], message: str) -> None:
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
    assert [(comparison["name_a"], comparison["name_b"]) for comparison in short["comparisons"]] == [("fused", "dense")]


QRELS_METRICS = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"z": 1}}


def test_the_users_spelling_is_kept() -> None:
    """MRR is the library's RR, and is shown as MRR."""
    metrics = parse_metrics(" nDCG@10, R@100 ,MRR@10,AP,nDCG@10")

    assert tuple(metric.name for metric in metrics) == ("nDCG@10", "R@100", "MRR@10", "AP")
    assert parse_metric("RR@10").measure == metrics[2].measure
    assert tuple(metric.cutoff for metric in metrics) == (10, 100, 10, None)


def test_a_comma_inside_parentheses_belongs_to_the_metric() -> None:
    """Metrics with parameters can be in a list."""
    assert tuple(metric.name for metric in parse_metrics("P(rel=2, judged_only=True)@5,AP")) == (
        "P(rel=2, judged_only=True)@5",
        "AP",
    )


@pytest.mark.parametrize(
    "name",
    [
        "foo@10",
        "nDCG@",
        "nDCG@x",
        "nDCG@0",
        "nDCG@-1",
        "R@1.5",
        "nDCG@True",
        "INST",
        "",
        "1+1",
        "nDCG@10 and",
    ],
)
def test_an_unknown_metric_is_answered_with_examples(name: str) -> None:
    """Metrics that do not parse, ignore their cutoff or have no provider are refused in the same way."""
    with pytest.raises(InvalidRequestError, match=r"nDCG@10, R@100, MRR@10"):
        parse_metric(name)


@pytest.mark.parametrize("names", ["", " , ", []])
def test_no_metric_is_refused(names: str | list[str]) -> None:
    """An evaluation needs something to measure."""
    with pytest.raises(InvalidRequestError, match="no metric"):
        parse_metrics(names)


def test_values_are_those_worked_out_by_hand() -> None:
    """Relevant items at ranks 1 (grade 1) and 2 (grade 2) of q1; q2's at rank 3."""
    run = {"q1": ["b", "a", "x"], "q2": ["x", "y", "z"]}

    result = measure(run, QRELS_METRICS, parse_metrics("nDCG@10,MRR@10,R@2,P@2,AP"))

    q1 = (1 / math.log2(2) + 2 / math.log2(3)) / (2 / math.log2(2) + 1 / math.log2(3))
    assert result.per_query["nDCG@10"] == pytest.approx({"q1": q1, "q2": 0.5})
    assert result.per_query["MRR@10"] == pytest.approx({"q1": 1.0, "q2": 1 / 3})
    assert result.per_query["R@2"] == pytest.approx({"q1": 1.0, "q2": 0.0})
    assert result.per_query["P@2"] == pytest.approx({"q1": 1.0, "q2": 0.0})
    assert result.per_query["AP"] == pytest.approx({"q1": 1.0, "q2": 1 / 3})
    assert result.means["nDCG@10"] == pytest.approx((q1 + 0.5) / 2)


@pytest.mark.parametrize("run", [{}, {"q1": []}, {"unknown": ["a"]}])
def test_queries_without_results_count_as_zero(run: dict[str, list[str]]) -> None:
    """A search that finds nothing must not look better by being left out of the mean."""
    result = measure(run, QRELS_METRICS, parse_metrics())

    assert result.per_query["nDCG@10"] == {"q1": 0.0, "q2": 0.0}
    assert result.means == {"nDCG@10": 0.0, "R@100": 0.0, "MRR@10": 0.0}


def test_half_of_the_queries_answered_is_half_of_the_mean() -> None:
    """A missing query and a perfect one average to a half."""
    assert measure({"q2": ["z"]}, QRELS_METRICS, parse_metrics("nDCG@10")).means["nDCG@10"] == pytest.approx(0.5)


def test_the_order_of_a_long_ranking_is_kept() -> None:
    """Ranks far down still differ: the relevant item is at rank 20,000 exactly."""
    run = {"q2": [f"x{number}" for number in range(19_999)] + ["z"]}

    result = measure(run, {"q2": {"z": 1}}, parse_metrics("RR"))

    assert result.means["RR"] == pytest.approx(1 / 20_000)


def test_grades_below_zero_are_irrelevant() -> None:
    """TREC judges spam with -2; it takes nothing away and gives nothing."""
    result = measure({"q": ["spam", "a"]}, {"q": {"spam": -2, "a": 1}}, parse_metrics("nDCG@10,R@1"))

    assert result.means == pytest.approx({"nDCG@10": 1 / math.log2(3), "R@1": 0.0})


@pytest.mark.parametrize("grades", [{"spam": -5}, {"spam": 0}, {}])
def test_queries_with_nothing_relevant_score_zero(grades: dict[str, int]) -> None:
    """They are measured together with the others."""
    run = {"q1": ["a", "b", "x"], "q3": ["spam", "a"]}

    result = measure(run, QRELS_METRICS | {"q3": grades}, parse_metrics("nDCG@10,R@2,MRR@10,AP"))

    assert [result.per_query[name]["q3"] for name in result.means] == [0.0] * 4
    assert result.per_query["nDCG@10"]["q1"] == pytest.approx(1.0)


def test_an_item_found_twice_is_refused_and_named() -> None:
    """A ranking with a repeated item has no well-defined recall."""
    with pytest.raises(InvalidRequestError, match="'q1': item 'a' was found twice"):
        measure({"q1": ["b", "a", "a"]}, QRELS_METRICS, parse_metrics())


def test_without_judgements_or_metrics_nothing_is_measured() -> None:
    """An empty mean is not a number."""
    with pytest.raises(InvalidRequestError, match="nothing to measure"):
        measure({"q1": ["a"]}, {}, parse_metrics())
    with pytest.raises(InvalidRequestError, match="nothing to measure"):
        measure({"q1": ["a"]}, QRELS_METRICS, ())


items = st.sampled_from([f"d{number}" for number in range(12)])


@given(
    ranking=st.lists(items, min_size=1, unique=True),
    grades=st.dictionaries(items, st.integers(-1, 3), min_size=1),
    cutoff=st.integers(1, 15),
)
@settings(max_examples=200, deadline=None)
def test_the_fast_ndcg_is_the_librarys(ranking: list[str], grades: dict[str, int], cutoff: int) -> None:
    """Every ranking, grading and cutoff gives what ir-measures gives."""
    metric = parse_metrics([f"nDCG@{cutoff}"])
    expected = measure({"q": ranking}, {"q": grades}, metric).means[f"nDCG@{cutoff}"]

    assert Ndcg({"q": grades}, cutoff).score("q", ranking) == pytest.approx(expected, abs=1e-12)


@given(st.lists(items, min_size=1, unique=True), st.dictionaries(items, st.integers(1, 3), min_size=1))
def test_the_ideal_ranking_is_never_beaten(ranking: list[str], grades: dict[str, int]) -> None:
    """Values lie in [0, 1], and the ranking by grade has 1."""
    ndcg = Ndcg({"q": grades}, 5)

    assert 0 <= ndcg.score("q", ranking) <= 1 + 1e-12
    assert ndcg.score("q", sorted(grades, key=lambda item: -grades[item])) == pytest.approx(1.0)


def test_the_fast_ndcg_of_an_unjudged_query_is_zero() -> None:
    """There is no ideal ranking to compare with."""
    assert [Ndcg({"q": {"a": 0}}).score(query_id, ["a"]) for query_id in ("q", "other")] == [0.0, 0.0]


def test_the_fast_ndcg_needs_a_rank_to_look_at() -> None:
    """A cutoff below 1 is refused."""
    with pytest.raises(InvalidRequestError, match="at least 1"):
        Ndcg(QRELS_METRICS, 0)


def test_metrics_are_the_librarys_own() -> None:
    """A whole run gives the aggregate that ir-measures computes by itself."""
    run = {"q1": ["c", "a", "b"], "q2": ["y", "z"]}
    scores = {query_id: {item: -float(rank) for rank, item in enumerate(r)} for query_id, r in run.items()}
    metrics = parse_metrics("nDCG@10,R@2,MRR@10,AP,Bpref")

    expected = ir_measures.calc_aggregate([metric.measure for metric in metrics], QRELS_METRICS, scores)

    assert measure(run, QRELS_METRICS, metrics).means == pytest.approx(
        {metric.name: expected[metric.measure] for metric in metrics}
    )


QUERIES_COLLECTION = [
    JudgedQuery(query_id="q1", text="one", metadata={"self_id": "x", "project": "p"}),
    JudgedQuery(query_id="q2", text="two", metadata={"self_id": "y", "project": "q"}),
]
QRELS_COLLECTION = {"q1": {"a": 1}, "q2": {"b": 1}}
METRICS = parse_metrics("nDCG@10,R@100")


@dataclass
class Searched:
    """A collection whose answers are written down by legs."""

    answers: Mapping[tuple[str, ...] | None, Sequence[str]]
    profile: Profile = field(default_factory=Profile)
    notes: tuple[str, ...] = ()
    asked: list[dict[str, Any]] = field(default_factory=list)
    absent: frozenset[str] = frozenset()

    async def get(self, item_ids: Sequence[str]) -> dict[str, object]:
        """The items that exist."""
        return {item_id: object() for item_id in item_ids if item_id not in self.absent}

    async def search(
        self,
        query: str,
        *,
        where: dict[str, Any] | None,
        limit: int,
        legs: Sequence[str] | None,
        profile: Profile | None,
        syntax: bool,
    ) -> SearchResult:
        """The stored ids of the query, whose text is passed unchanged."""
        assert not syntax
        chosen = None if legs is None else tuple(legs)
        self.asked.append({"query": query, "where": where, "limit": limit, "legs": chosen, "profile": profile})
        hits = [
            Hit(item_id=item_id, score=0.0, rank=rank, explanation=Explanation("rrf", ()))
            for rank, item_id in enumerate(without_excluded(self.answers[chosen], where), 1)
        ]
        return SearchResult(hits=tuple(hits), path=Path.NONE, why="", profile_version=1, notes=self.notes)


def both_legs(**more: Any) -> Searched:
    """Dense finds one answer, lexical the other, fused both."""
    return Searched({("dense",): ["a"], ("lexical",): ["b"], None: ["a", "b"]}, **more)


async def test_each_leg_is_measured_alone_and_then_the_profile() -> None:
    """The profile as it is: no legs are named for the fused search."""
    report = (await evaluate_collection(both_legs(), QUERIES_COLLECTION, QRELS_COLLECTION, metrics=METRICS)).report

    assert [variant.variant for variant in report.variants] == ["dense", "lexical", "fused"]
    assert [variant.means["R@100"] for variant in report.variants] == [0.5, 0.5, 1.0]
    assert [(comparison.name_a, comparison.name_b) for comparison in report.comparisons] == [
        ("fused", "dense"),
        ("fused", "lexical"),
    ]


async def test_the_legs_come_first() -> None:
    """A leg that cannot run is then reported before the long work."""
    collection = both_legs()
    await evaluate_collection(collection, QUERIES_COLLECTION, QRELS_COLLECTION, metrics=METRICS)

    assert [request["legs"] for request in collection.asked[::2]] == [("dense",), ("lexical",), None]


async def test_another_profile_is_measured_before_it_is_in_use() -> None:
    """It answers every search, and its legs are the variants."""
    collection = Searched({("lexical",): ["a"], ("rated",): ["b"], None: ["a", "b"]})
    profile = Profile(legs={"lexical": 1.0, "rated": 0.5})
    result = await evaluate_collection(
        collection, QUERIES_COLLECTION, QRELS_COLLECTION, metrics=METRICS, profile=profile
    )

    assert [variant.variant for variant in result.report.variants] == ["lexical", "rated", "fused"]
    assert all(asked["profile"] is profile for asked in collection.asked)


async def test_named_legs_restrict_the_fused_search_too() -> None:
    """Also where the profile has others."""
    collection = Searched({("dense",): [], ("lexical",): ["b"], ("lexical", "dense"): ["b"]})
    report = await evaluate_collection(
        collection, QUERIES_COLLECTION, QRELS_COLLECTION, metrics=METRICS, legs=["lexical", "dense"]
    )

    assert [variant.variant for variant in report.report.variants] == ["lexical", "dense", "fused"]


async def test_one_leg_is_compared_with_nothing() -> None:
    """Its fusion would be the same."""
    report = (
        await evaluate_collection(both_legs(), QUERIES_COLLECTION, QRELS_COLLECTION, metrics=METRICS, legs=["dense"])
    ).report

    assert [variant.variant for variant in report.variants] == ["dense"]
    assert report.comparisons == ()


async def test_queries_bring_their_filter_and_leave_themselves_out() -> None:
    """The query's own item does not count, and a search requests at most its maximum."""
    collection = Searched({("dense",): ["x", "y", "a", "b"]})
    report = await evaluate_collection(
        collection,
        QUERIES_COLLECTION,
        QRELS_COLLECTION,
        metrics=parse_metrics("MRR@1000"),
        legs=["dense"],
        where_from=[WhereFrom.parse("metadata.project=project")],
        drop_self=DropSelf.parse("metadata.self_id"),
    )

    assert report.report.variants[0].per_query["MRR@1000"] == {"q1": 1 / 2, "q2": 1 / 3}
    filters = [request["where"]["and"][0] for request in collection.asked]
    assert filters == [{"project": "p"}, {"project": "q"}]
    assert [request["limit"] for request in collection.asked] == [1000, 1000]


async def test_notes_of_searches_are_counted() -> None:
    """A leg that did not run changes what the figures mean."""
    report = await evaluate_collection(
        both_legs(notes=("no embedder",)), QUERIES_COLLECTION, QRELS_COLLECTION, metrics=METRICS
    )

    assert report.notes == {"no embedder": 6}
    assert report.as_dict()["notes"] == {"no embedder": 6}


async def test_a_metric_deeper_than_a_search_is_refused_before_the_first() -> None:
    """The figure would be another than its name says."""
    collection = both_legs()
    with pytest.raises(InvalidRequestError, match=r"R@5000 looks at 5000"):
        await evaluate_collection(collection, QUERIES_COLLECTION, QRELS_COLLECTION, metrics=parse_metrics("R@5000"))
    assert collection.asked == []


def test_legs_without_weight_are_not_measured() -> None:
    """Naming them explicitly overrides this."""
    profile = Profile(legs={LegName.DENSE: 0.0, LegName.LEXICAL: 1.0})
    assert chosen_legs(profile, None) == ("lexical",)
    assert chosen_legs(profile, ["dense", "dense"]) == ("dense",)
    with pytest.raises(InvalidProfileError, match="no leg 'bm25'"):
        chosen_legs(profile, ["bm25"])


async def test_missing_judged_items_are_reported() -> None:
    """Some in a note; where none is there, nothing is measured."""
    some = await evaluate_collection(
        both_legs(absent=frozenset("b")), QUERIES_COLLECTION, QRELS_COLLECTION, metrics=METRICS
    )
    assert "1 of 2 relevant items is not in the collection, such as 'b'" in some.notes
    collection = both_legs(absent=frozenset("ab"))
    with pytest.raises(InvalidRequestError, match="no judged item is in the collection, such as 'a'"):
        await evaluate_collection(collection, QUERIES_COLLECTION, QRELS_COLLECTION, metrics=METRICS)
    assert not collection.asked
