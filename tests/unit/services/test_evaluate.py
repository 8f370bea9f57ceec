"""Evaluation of a search and of a collection, and metrics against values worked out by hand."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import ir_measures
import pytest

from retrieval.domain.errors import EmbedderUnavailableError, InvalidProfileError, InvalidRequestError
from retrieval.domain.learning.context import Context
from retrieval.domain.search.hit import Explanation, Hit, Path, SearchResult
from retrieval.domain.search.profile import LegName, Profile
from retrieval.services.evaluate import (
    Metric,
    Report,
    chosen_legs,
    evaluate,
    evaluate_collection,
    measure,
    parse_metric,
    parse_metrics,
)
from retrieval.services.judgements import JudgedQuery
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
    ("metrics", "limits"),
    [("nDCG@10", [10]), ("nDCG@10,R@250,MRR@10", [10, 250]), ("AP,nDCG@10", [100, 10]), ("AP,R@100", [100])],
)
async def test_each_metric_is_of_searches_for_as_many_results_as_it_uses(metrics: str, limits: list[int]) -> None:
    """A deeper search may rank the first results otherwise. Metrics without a cutoff look at 100."""
    search = CannedSearch({})

    await evaluated(search, queries=QUERIES[:1], metrics=parse_metrics(metrics))

    assert [request["limit"] for request in search.asked] == limits


async def test_a_metric_does_not_depend_on_the_others() -> None:
    """The search here ranks another item first if it returns more results."""

    async def search(text: str, *, where: dict[str, Any] | None, limit: int, variant: str) -> list[str]:  # noqa: ARG001
        return ["d0", "x"] if limit == 1 else ["x", "d0"]

    alone, together = [
        await evaluate(search, QUERIES[:1], QRELS, metrics=parse_metrics(names), variants=["fused"])
        for names in ("R@1", "R@1,MRR@10")
    ]
    assert together.variants[0].means == {"R@1": 1.0, "MRR@10": 0.5}
    assert alone.variants[0].means == {"R@1": 1.0}


async def test_results_beyond_the_depth_do_not_count() -> None:
    """AP looks at the 100 results that were asked for, even if a search gives more."""
    search = CannedSearch({("fused", "text 0"): [*(f"x{number}" for number in range(100)), "d0"]})

    report = await evaluated(search, queries=QUERIES[:1], metrics=parse_metrics("AP"))

    assert report.variants[0].means == {"AP": 0.0}


async def test_each_query_searches_within_its_own_filter() -> None:
    """A query without a filter searches everything."""
    queries = [replace(QUERIES[0], where={"item_id": {"ne": "me"}}), QUERIES[1]]
    search = CannedSearch({("fused", "text 0"): ["me", "d0"]})

    report = await evaluated(search, queries=queries, metrics=parse_metrics("R@1"))

    assert [request["where"] for request in search.asked] == [{"item_id": {"ne": "me"}}, None]
    assert report.variants[0].per_query["R@1"] == {"q0": 1.0, "q1": 0.0}


async def test_latencies_are_medians_and_percentiles_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of 1, 2, 3 and 4 ms have the median 2.5 and the 95th percentile 3.85."""
    monkeypatch.setattr("retrieval.services.evaluate.time.perf_counter", Ticks())
    report = await evaluated(CannedSearch({}))
    monkeypatch.undo()

    assert (report.variants[0].median_ms, report.variants[0].p95_ms) == pytest.approx((2.5, 3.85))


async def test_fused_is_compared_with_each_other_variant_on_the_first_metric() -> None:
    """Fused and lexical rank all four second, dense finds none: 2 of 16 sign patterns are as extreme."""
    fused = {("fused", f"text {number}"): ["x", f"d{number}"] for number in range(4)}
    lexical = {("lexical", f"text {number}"): ["x", f"d{number}"] for number in range(4)}

    report = await evaluated(
        CannedSearch(fused | lexical),
        variants=["lexical", "dense", "fused"],
        metrics=parse_metrics("MRR@10,R@100"),
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


async def test_judgements_of_other_queries_are_refused() -> None:
    """The error comes before the first search."""
    search = CannedSearch({})

    with pytest.raises(InvalidRequestError, match="no query is judged"):
        await evaluated(search, qrels={"other": {"d": 1}})

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
    assert tuple(metric.limit for metric in metrics) == (10, 100, 10, 100)


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

    def scores(metric: str) -> dict[str, float]:
        return measure(run, QRELS_METRICS, parse_metric(metric))

    q1 = (1 / math.log2(2) + 2 / math.log2(3)) / (2 / math.log2(2) + 1 / math.log2(3))
    assert scores("nDCG@10") == pytest.approx({"q1": q1, "q2": 0.5})
    assert scores("MRR@10") == pytest.approx({"q1": 1.0, "q2": 1 / 3})
    assert scores("R@2") == pytest.approx({"q1": 1.0, "q2": 0.0})
    assert scores("P@2") == pytest.approx({"q1": 1.0, "q2": 0.0})
    assert scores("AP") == pytest.approx({"q1": 1.0, "q2": 1 / 3})


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval is a program in Perl")
def test_metrics_of_a_program_that_takes_numbers_as_ids_are_computed(capfd: pytest.CaptureFixture[str]) -> None:
    """Ids of queries and items may be any text. Grades of 2, 0 and 1, in this order."""
    run, qrels = {"my query": ["a b", "x", "c"], "q2": ["y"]}, {"my query": {"a b": 2, "c": 1}, "q2": {"z": 1}}

    gains = [(2**grade - 1) / 16 for grade in (2, 1)]
    err = gains[0] + (1 - gains[0]) * gains[1] / 3
    ndcg = (3 + 1 / math.log2(4)) / (3 + 1 / math.log2(3))
    for name, value in (("ERR@10", err), ('nDCG(dcg="exp-log2")@10', ndcg)):
        scores = measure(run, qrels, parse_metric(name))
        assert scores == pytest.approx({"my query": value, "q2": 0.0}, abs=1e-5)
        with pytest.raises(InvalidRequestError, match=r"takes grades up to 4, and the judgements have 5: use smaller"):
            measure(run, {"q2": {"z": 5}}, parse_metric(name))
    assert capfd.readouterr() == ("", "")


def test_a_metric_whose_program_is_missing_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says what to install."""
    monkeypatch.setattr(ir_measures.providers.registry["gdeval"], "_is_available", False)
    with pytest.raises(InvalidRequestError, match=r"^ERR@10 cannot be computed here: .*Install perl.*; use names such"):
        parse_metric("ERR@10")


@pytest.mark.parametrize("run", [{}, {"q1": []}, {"unknown": ["a"]}])
def test_queries_without_results_count_as_zero(run: dict[str, list[str]]) -> None:
    """A search that finds nothing must not look better by being left out of the mean."""
    for metric in parse_metrics():
        assert measure(run, QRELS_METRICS, metric) == {"q1": 0.0, "q2": 0.0}


def test_a_query_that_is_missing_in_the_run_counts_beside_one_that_is_perfect() -> None:
    """The mean is a half."""
    assert measure({"q2": ["z"]}, QRELS_METRICS, parse_metric("nDCG@10")) == pytest.approx({"q1": 0.0, "q2": 1.0})


def test_the_order_of_a_long_ranking_is_kept() -> None:
    """Ranks far down still differ: the relevant item is at rank 20,000 exactly."""
    run = {"q2": [f"x{number}" for number in range(19_999)] + ["z"]}

    assert measure(run, {"q2": {"z": 1}}, parse_metric("RR")) == pytest.approx({"q2": 1 / 20_000})


def test_grades_below_zero_are_irrelevant() -> None:
    """TREC judges spam with -2; it takes nothing away and gives nothing."""
    for metric, score in (("nDCG@10", 1 / math.log2(3)), ("R@1", 0.0)):
        scores = measure({"q": ["spam", "a"]}, {"q": {"spam": -2, "a": 1}}, parse_metric(metric))
        assert scores == pytest.approx({"q": score})


@pytest.mark.parametrize("grades", [{"spam": -5}, {"spam": 0}, {}])
def test_queries_with_nothing_relevant_score_zero(grades: dict[str, int]) -> None:
    """They are measured together with the others."""
    run = {"q1": ["a", "b", "x"], "q3": ["spam", "a"]}

    metrics = parse_metrics("nDCG@10,R@2,MRR@10,AP")
    first, *others = [measure(run, QRELS_METRICS | {"q3": grades}, metric) for metric in metrics]

    assert [scores["q3"] for scores in (first, *others)] == [0.0] * 4
    assert first["q1"] == pytest.approx(1.0)


def test_metrics_are_the_librarys_own() -> None:
    """A whole run gives the aggregate that ir-measures computes by itself."""
    run = {"q1": ["c", "a", "b"], "q2": ["y", "z"]}
    scores = {query_id: {item: -float(rank) for rank, item in enumerate(r)} for query_id, r in run.items()}
    metrics = parse_metrics("nDCG@10,R@2,MRR@10,AP,Bpref")

    expected = ir_measures.calc_aggregate([metric.measure for metric in metrics], QRELS_METRICS, scores)

    for metric in metrics:
        assert fmean(measure(run, QRELS_METRICS, metric).values()) == pytest.approx(expected[metric.measure])


QUERIES_COLLECTION = [JudgedQuery(query_id="q1", text="one"), JudgedQuery(query_id="q2", text="two")]
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

    @property
    def stored(self) -> Searched:
        """The collection with its profile."""
        return self

    def unrecorded(self) -> Searched:
        """Nothing is recorded anyway."""
        return self

    async def place(self) -> Searched:
        """The first argument of ``get``."""
        return self

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
        context: Context,
    ) -> SearchResult:
        """The stored ids of the query, whose text is passed unchanged."""
        assert context == Context()
        assert not syntax
        chosen = None if legs is None else tuple(legs)
        self.asked.append({"query": query, "where": where, "limit": limit, "legs": chosen, "profile": profile})
        hits = [
            Hit(item_id=item_id, score=0.0, rank=rank, explanation=Explanation("rrf", ()))
            for rank, item_id in enumerate(without_excluded(self.answers[chosen], where), 1)
        ]
        return SearchResult(hits=tuple(hits), path=Path.NONE, why="", profile_version=1, notes=self.notes)


@pytest.fixture(autouse=True)
def of_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collections are those of ``Searched``."""
    monkeypatch.setattr("retrieval.services.evaluate.search", Searched.search)
    monkeypatch.setattr("retrieval.services.evaluate.read_items", Searched.get)


async def measured(collection: Any, *, metrics: Sequence[Metric] = METRICS, **options: Any) -> Report:
    """The report on the two queries."""
    return await evaluate_collection(collection, QUERIES_COLLECTION, QRELS_COLLECTION, metrics=metrics, **options)


def both_legs(**more: Any) -> Searched:
    """Dense finds one answer, lexical the other, fused both."""
    return Searched({("dense",): ["a"], ("lexical",): ["b"], None: ["a", "b"]}, **more)


async def test_each_leg_is_measured_alone_and_then_the_profile() -> None:
    """The profile as it is: no legs are named for the fused search."""
    report = await measured(both_legs())

    assert [variant.variant for variant in report.variants] == ["dense", "lexical", "fused"]
    assert [variant.means["R@100"] for variant in report.variants] == [0.5, 0.5, 1.0]
    assert [(comparison.name_a, comparison.name_b) for comparison in report.comparisons] == [
        ("fused", "dense"),
        ("fused", "lexical"),
    ]


async def test_the_legs_come_first() -> None:
    """A leg that cannot run is then reported before the long work."""
    collection = both_legs()
    await measured(collection)

    assert [request["legs"] for request in collection.asked[::4]] == [("dense",), ("lexical",), None]


async def test_another_profile_is_measured_before_it_is_in_use() -> None:
    """It answers every search, and its legs are the variants."""
    collection = Searched({("lexical",): ["a"], ("rated",): ["b"], None: ["a", "b"]})
    profile = Profile(legs={"lexical": 1.0, "rated": 0.5})
    result = await measured(collection, profile=profile)

    assert [variant.variant for variant in result.variants] == ["lexical", "rated", "fused"]
    assert all(asked["profile"] is profile for asked in collection.asked)


async def test_named_legs_restrict_the_fused_search_too() -> None:
    """Also where the profile has others."""
    collection = Searched({("dense",): [], ("lexical",): ["b"], ("lexical", "dense"): ["b"]})
    report = await measured(collection, legs=["lexical", "dense"])

    assert [variant.variant for variant in report.variants] == ["lexical", "dense", "fused"]


async def test_one_leg_is_compared_with_nothing() -> None:
    """Its fusion would be the same."""
    report = await measured(both_legs(), legs=["dense"])

    assert [variant.variant for variant in report.variants] == ["dense"]
    assert report.comparisons == ()


async def test_a_search_requests_at_most_its_maximum() -> None:
    """It is as many results as the deepest metric uses."""
    collection = Searched({("dense",): ["x", "a", "b"]})
    report = await measured(collection, metrics=parse_metrics("MRR@1000"), legs=["dense"])

    assert report.variants[0].per_query["MRR@1000"] == {"q1": 1 / 2, "q2": 1 / 3}
    assert [request["limit"] for request in collection.asked] == [1000, 1000]


async def test_notes_of_searches_are_counted() -> None:
    """A leg that did not run changes what the figures mean."""
    report = await measured(both_legs(notes=("no embedder",)))

    assert report.notes == {"no embedder": 6}
    assert report.as_dict()["notes"] == {"no embedder": 6}


async def test_a_metric_deeper_than_a_search_is_refused_before_the_first() -> None:
    """The figure would be another than its name says."""
    collection = both_legs()
    with pytest.raises(InvalidRequestError, match=r"R@5000 looks at 5000"):
        await measured(collection, metrics=parse_metrics("R@5000"))
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
    some = await measured(both_legs(absent=frozenset("b")))
    assert "1 of 2 relevant items is not in the collection, such as 'b'" in some.notes
    collection = both_legs(absent=frozenset("ab"))
    with pytest.raises(InvalidRequestError, match="no judged item is in the collection, such as 'a'"):
        await measured(collection)
    assert not collection.asked
