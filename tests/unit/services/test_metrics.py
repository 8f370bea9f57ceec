"""Metrics against values worked out by hand, and the fast nDCG against the library."""

from __future__ import annotations

import math

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidRequestError
from retrieval.services.evaluate import Ndcg, measure, parse_metric, parse_metrics

QRELS = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"z": 1}}


def test_the_users_spelling_is_kept() -> None:
    """MRR is the library's RR, and is shown as MRR."""
    metrics = parse_metrics(" nDCG@10, R@100 ,MRR@10,AP,nDCG@10")

    assert tuple(metric.name for metric in metrics) == ("nDCG@10", "R@100", "MRR@10", "AP")
    assert parse_metric("RR@10").measure == metrics[2].measure
    assert tuple(metric.cutoff for metric in metrics) == (10, 100, 10, None)


def test_a_comma_inside_parentheses_belongs_to_the_metric() -> None:
    """Metrics with parameters can stand in a list."""
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
    """Names that do not parse, have no use for their cutoff or no provider are all refused alike."""
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

    found = measure(run, QRELS, parse_metrics("nDCG@10,MRR@10,R@2,P@2,AP"))

    q1 = (1 / math.log2(2) + 2 / math.log2(3)) / (2 / math.log2(2) + 1 / math.log2(3))
    assert found.per_query["nDCG@10"] == pytest.approx({"q1": q1, "q2": 0.5})
    assert found.per_query["MRR@10"] == pytest.approx({"q1": 1.0, "q2": 1 / 3})
    assert found.per_query["R@2"] == pytest.approx({"q1": 1.0, "q2": 0.0})
    assert found.per_query["P@2"] == pytest.approx({"q1": 1.0, "q2": 0.0})
    assert found.per_query["AP"] == pytest.approx({"q1": 1.0, "q2": 1 / 3})
    assert found.means["nDCG@10"] == pytest.approx((q1 + 0.5) / 2)


@pytest.mark.parametrize("run", [{}, {"q1": []}, {"unknown": ["a"]}])
def test_queries_without_results_count_as_zero(run: dict[str, list[str]]) -> None:
    """A search that finds nothing must not look better by being left out of the mean."""
    found = measure(run, QRELS, parse_metrics())

    assert found.per_query["nDCG@10"] == {"q1": 0.0, "q2": 0.0}
    assert found.means == {"nDCG@10": 0.0, "R@100": 0.0, "MRR@10": 0.0}


def test_half_of_the_queries_answered_is_half_of_the_mean() -> None:
    """A missing query and a perfect one average to a half."""
    assert measure({"q2": ["z"]}, QRELS, parse_metrics("nDCG@10")).means["nDCG@10"] == pytest.approx(0.5)


def test_the_order_of_a_long_ranking_is_kept() -> None:
    """Ranks far down still differ: the relevant item is at rank 20,000 exactly."""
    run = {"q2": [f"x{number}" for number in range(19_999)] + ["z"]}

    found = measure(run, {"q2": {"z": 1}}, parse_metrics("RR"))

    assert found.means["RR"] == pytest.approx(1 / 20_000)


def test_grades_below_zero_are_irrelevant() -> None:
    """TREC judges spam with -2; it takes nothing away and gives nothing."""
    found = measure({"q": ["spam", "a"]}, {"q": {"spam": -2, "a": 1}}, parse_metrics("nDCG@10,R@1"))

    assert found.means == pytest.approx({"nDCG@10": 1 / math.log2(3), "R@1": 0.0})


@pytest.mark.parametrize("grades", [{"spam": -5}, {"spam": 0}, {}])
def test_queries_with_nothing_relevant_score_zero(grades: dict[str, int]) -> None:
    """Such queries are measured beside others, whatever their grades."""
    run = {"q1": ["a", "b", "x"], "q3": ["spam", "a"]}

    found = measure(run, QRELS | {"q3": grades}, parse_metrics("nDCG@10,R@2,MRR@10,AP"))

    assert [found.per_query[name]["q3"] for name in found.means] == [0.0] * 4
    assert found.per_query["nDCG@10"]["q1"] == pytest.approx(1.0)


def test_an_item_found_twice_is_refused_and_named() -> None:
    """A ranking with a repeated item has no well-defined recall."""
    with pytest.raises(InvalidRequestError, match="'q1': item 'a' was found twice"):
        measure({"q1": ["b", "a", "a"]}, QRELS, parse_metrics())


def test_without_judgements_or_metrics_nothing_is_measured() -> None:
    """An empty mean is no number."""
    with pytest.raises(InvalidRequestError, match="nothing to measure"):
        measure({"q1": ["a"]}, {}, parse_metrics())
    with pytest.raises(InvalidRequestError, match="nothing to measure"):
        measure({"q1": ["a"]}, QRELS, ())


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
        Ndcg(QRELS, 0)


def test_metrics_are_the_librarys_own() -> None:
    """A whole run gives the aggregate that ir-measures computes by itself."""
    run = {"q1": ["c", "a", "b"], "q2": ["y", "z"]}
    scores = {query_id: {item: -float(rank) for rank, item in enumerate(r)} for query_id, r in run.items()}
    metrics = parse_metrics("nDCG@10,R@2,MRR@10,AP,Bpref")

    expected = ir_measures.calc_aggregate([metric.measure for metric in metrics], QRELS, scores)

    assert measure(run, QRELS, metrics).means == pytest.approx(
        {metric.name: expected[metric.measure] for metric in metrics}
    )
