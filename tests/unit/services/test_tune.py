"""Tuning on candidates made to have a known best setting."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.domain.errors import InvalidProfileError, InvalidRequestError
from retrieval.domain.search.fusion import Candidate
from retrieval.domain.search.profile import Fusion, FusionKind
from retrieval.domain.search.refining import PoolVectors
from retrieval.services.evaluate import measure, parse_metrics
from retrieval.services.tune import REFINED, Setting, TuningReport, grid, tune

EVEN = Setting({"dense": 1.0, "lexical": 1.0})
LEXICAL = Setting({"lexical": 1.0})
WEIGHTED = Fusion(kind=FusionKind.WEIGHTED_SUM)

Case = tuple[dict[str, dict[str, list[Candidate]]], dict[str, dict[str, int]]]


def ranked(leg: str, item_ids: Sequence[str]) -> list[Candidate]:
    """Candidates in that order with evenly falling scores."""
    return [Candidate(leg, item_id, rank, 1 / rank) for rank, item_id in enumerate(item_ids, start=1)]


def noisy_dense(queries: int, seed: int = 1) -> Case:
    """Lexical finds the relevant item at rank 1, dense ranks at random: lexical alone is best."""
    rng = np.random.default_rng(seed)
    rankings, qrels = {}, {}
    for number in range(queries):
        others = [f"x{i}" for i in rng.permutation(30)]
        rankings[f"q{number}"] = {
            "lexical": ranked("lexical", ["hit", *others[:20]]),
            "dense": ranked("dense", [f"x{i}" for i in rng.permutation(30)]),
        }
        qrels[f"q{number}"] = {"hit": 1}
    return rankings, qrels


def complementary(queries: int, seed: int = 1) -> Case:
    """Each leg has the relevant item at rank 2 behind an error of its own: only both have it first."""
    rng = np.random.default_rng(seed)
    rankings, qrels = {}, {}
    for number in range(queries):
        rankings[f"q{number}"] = {
            leg: ranked(leg, [f"{leg} error", "hit", *(f"{leg} {i}" for i in rng.permutation(10))])
            for leg in ("dense", "lexical")
        }
        qrels[f"q{number}"] = {"hit": 1}
    return rankings, qrels


def split(*, dense: int, lexical: int) -> Case:
    """So many queries that only dense answers, and so many that only lexical answers."""
    legs = ["dense"] * dense + ["lexical"] * lexical
    rankings = {f"q{number}": {leg: ranked(leg, ["hit"])} for number, leg in enumerate(legs)}
    return rankings, {query_id: {"hit": 1} for query_id in rankings}


def test_a_noisy_leg_is_tuned_away() -> None:
    """From an even fusion, tuning goes to the good leg alone, and every fold agrees."""
    rankings, qrels = noisy_dense(40)

    report = tune(rankings, qrels, EVEN)

    assert report.improves
    assert report.proposal == LEXICAL
    assert set(map(Setting.describe, report.chosen)) == {"lexical alone"}
    assert report.reason.startswith("change to lexical alone: tuning gains +")
    assert report.comparisons[0].significant
    assert report.comparisons[0].mean_a == 1.0


def test_complementary_legs_are_fused() -> None:
    """From one leg alone, tuning goes to the simplest fusion that is best."""
    rankings, qrels = complementary(20)

    report = tune(rankings, qrels, LEXICAL)

    assert report.improves
    assert report.proposal == EVEN
    assert [one.name_b for one in report.comparisons] == ["current", "dense alone"]
    assert [one.mean_b for one in report.comparisons] == pytest.approx([1 / math.log2(3)] * 2)


def test_the_best_setting_is_kept() -> None:
    """When the current setting is as good as any, it stays, although others equal it."""
    rankings, qrels = noisy_dense(20)
    heavy = Setting({"lexical": 5.0})

    report = tune(rankings, qrels, heavy)

    assert not report.improves
    assert report.proposal is heavy
    assert report.reason == "keep the current profile: it is the best of 21 settings"


def test_a_gain_on_few_queries_is_not_believed() -> None:
    """Five queries, all better: p is 2/32 at the least, so the profile stays and the reason says why."""
    rankings, qrels = complementary(5)

    report = tune(rankings, qrels, LEXICAL)

    assert not report.improves
    assert report.proposal is LEXICAL
    assert report.comparisons[0].difference > 0
    assert "may be chance; judge more than 5 queries" in report.reason


def test_a_gain_that_vanishes_on_held_out_queries_is_not_believed() -> None:
    """Every setting fits a few queries of its own: the best on all is no better on queries it did not see."""
    rng = np.random.default_rng(4)
    items = [f"d{number}" for number in range(20)]
    rankings = {
        f"q{number}": {leg: ranked(leg, [items[i] for i in rng.permutation(20)]) for leg in ("dense", "lexical")}
        for number in range(60)
    }
    qrels = {query_id: {items[int(rng.integers(20))]: 1} for query_id in rankings}

    report = tune(rankings, qrels, EVEN)

    assert report.means[0][1] > {setting.describe(): mean for setting, mean in report.means}[EVEN.describe()]
    assert not report.improves
    assert report.reason.startswith("keep the current profile: ")
    assert report.proposal is EVEN


def test_held_out_queries_have_no_say_in_their_own_setting() -> None:
    """Dense answers half of the queries and lexical the rest: the others always choose the leg that fails."""
    rankings, qrels = split(dense=4, lexical=4)

    report = tune(rankings, qrels, Setting({"dense": 1.0}), settings=[LEXICAL], folds=8)

    assert report.comparisons[0].mean_a == 0.0
    assert report.comparisons[0].mean_b == 0.5
    assert sorted(map(Setting.describe, report.chosen)) == ["dense alone"] * 4 + ["lexical alone"] * 4


def test_a_setting_that_loses_on_held_out_queries_is_not_proposed() -> None:
    """The best on all queries by one of 21, and significantly worse held out: the reason says that."""
    rankings, qrels = split(dense=10, lexical=11)

    report = tune(rankings, qrels, Setting({"dense": 1.0}), settings=[LEXICAL], folds=21)

    assert report.means[0][0] == LEXICAL
    assert report.comparisons[0].significant
    assert not report.improves
    assert report.reason.startswith("keep the current profile: no gain on held-out queries (-0.4762, p = ")


def test_equal_input_and_seed_give_an_equal_report() -> None:
    """The order of the queries does not matter; the seed does and is reported."""
    rankings, qrels = noisy_dense(23)
    turned = dict(reversed(rankings.items()))

    assert tune(rankings, qrels, EVEN, seed=5) == tune(turned, qrels, EVEN, seed=5)
    assert tune(rankings, qrels, EVEN, seed=5).seed == 5


def test_means_are_those_of_the_standard_metric() -> None:
    """Every setting's mean is the nDCG that ir-measures gives for its rankings, best first."""
    rankings, qrels = noisy_dense(12, seed=9)

    report = tune(rankings, qrels, EVEN, cutoff=5)

    assert report.metric == "nDCG@5"
    assert len(report.means) == 20
    assert [mean for _, mean in report.means] == sorted((mean for _, mean in report.means), reverse=True)
    for setting, mean in report.means:
        run = {query_id: setting.rank(legs) for query_id, legs in rankings.items()}
        assert mean == pytest.approx(measure(run, qrels, parse_metrics("nDCG@5")).means["nDCG@5"])


def test_the_current_setting_and_each_leg_are_always_tried() -> None:
    """Even when the settings given leave them out, and each only once."""
    rankings, qrels = noisy_dense(10)

    report = tune(rankings, qrels, EVEN, settings=[Setting({"dense": 1.0, "lexical": 4.0}), LEXICAL])

    described = sorted(setting.describe() for setting, _ in report.means)
    assert described == sorted(["dense alone", "lexical alone", EVEN.describe(), "RRF (k = 60) of dense 1, lexical 4"])


def test_progress_counts_the_settings() -> None:
    """From 1 to the number of settings tried."""
    rankings, qrels = complementary(5)
    seen: list[tuple[int, int]] = []

    tune(rankings, qrels, EVEN, progress=lambda done, total: seen.append((done, total)))

    assert seen == [(done, 20) for done in range(1, 21)]


def test_queries_without_a_relevant_item_are_left_out() -> None:
    """They score 0 under every setting and would only blur the means."""
    rankings, qrels = complementary(6)
    qrels["q0"] = {"hit": 0}
    del qrels["q1"]

    assert tune(rankings, qrels, EVEN, folds=2).queries == 4


def test_a_query_that_a_leg_finds_nothing_for_scores_zero_there() -> None:
    """Empty and missing legs are no error."""
    rankings = {
        "q0": {"lexical": ranked("lexical", ["hit"]), "dense": []},
        "q1": {"dense": ranked("dense", ["hit"])},
    }
    report = tune(rankings, {"q0": {"hit": 1}, "q1": {"hit": 1}}, EVEN, folds=2)

    means = {setting.describe(): mean for setting, mean in report.means}
    assert (means["lexical alone"], means["dense alone"], means[EVEN.describe()]) == (0.5, 0.5, 1.0)


@pytest.mark.parametrize(("queries", "folds"), [(4, 5), (10, 1), (0, 5)])
def test_too_few_queries_for_the_folds_are_refused(queries: int, folds: int) -> None:
    """Each fold needs a query, and the choice needs other folds."""
    rankings, qrels = complementary(queries)

    with pytest.raises(InvalidRequestError, match=f"{queries} judged queries in {folds} folds"):
        tune(rankings, qrels, EVEN, folds=folds)


@pytest.mark.parametrize(("legs", "count"), [(["a"], 1), (["a", "b"], 20), (["a", "b", "c"], 88)])
def test_the_grid_tries_each_combination_once(legs: list[str], count: int) -> None:
    """Sizes are as documented and no two settings are the same in other terms."""
    tried = grid(legs)
    shapes = {
        (s.fusion.kind, tuple((leg, round(w / sum(s.legs.values()), 9)) for leg, w in s.legs.items())) for s in tried
    }

    assert len(tried) == len(shapes) == count


def test_the_grid_goes_from_simple_to_elaborate() -> None:
    """Single legs, then the even RRF, then others: equal quality goes to the simpler one."""
    tried = grid(["dense", "lexical"], k=10)

    assert [setting.describe() for setting in tried[:4]] == [
        "dense alone",
        "lexical alone",
        "RRF (k = 10) of dense 1, lexical 1",
        "RRF (k = 10) of dense 2, lexical 3",
    ]
    assert tried[-1].describe() == "weighted sum of dense 0.9, lexical 0.1"


def test_weighted_sums_with_the_dense_leg_are_tried_refined_where_that_can_be_told() -> None:
    """With vectors, that is: after those that are not, so that equal quality goes to the simpler one."""
    added = [one for one in grid(["dense", "lexical"], with_refining=True) if not one.refining.is_off]

    assert added == [replace(one, refining=REFINED) for one in grid(["dense", "lexical"])[-9:]]
    assert added[0].describe() == "weighted sum of dense 0.1, lexical 0.9, refined by 0.25"
    assert grid(["lexical"], with_refining=True) == grid(["lexical"])


def test_refining_is_proposed_where_it_helps() -> None:
    """The second relevant item stands far behind in both legs, and is like the first: only vectors show it."""
    others = [f"x{number}" for number in range(20)]
    in_order = {leg: ranked(leg, ["first", *others[:12], "hit", *others[12:]]) for leg in ("dense", "lexical")}
    rankings = {f"q{number}": in_order for number in range(20)}
    qrels = {key: {"first": 1, "hit": 1} for key in rankings}
    alike = {"first": np.array([1.0, 0.0, 0.0]), "hit": np.array([0.9, 0.1, 0.0])}
    vectors = alike | {other: np.array([0.0, 1.0, place / 20]) for place, other in enumerate(others)}

    report = tune(rankings, qrels, EVEN, vectors=PoolVectors.of(vectors))

    assert report.improves
    assert report.proposal.refining == REFINED
    assert not tune(rankings, qrels, EVEN).improves


def test_a_grid_without_legs_is_refused() -> None:
    """There is nothing to tune."""
    with pytest.raises(InvalidProfileError, match="no leg"):
        grid([])


@pytest.mark.parametrize("weights", [{}, {"dense": 0.0}, {"dense": -1.0}, {"dense": math.nan}, {"dense": math.inf}])
def test_weights_that_make_no_ranking_are_refused(weights: dict[str, float]) -> None:
    """Weights are finite, not negative, and one is above 0."""
    with pytest.raises(InvalidProfileError, match="leg weights"):
        Setting(weights)


def test_a_setting_keeps_its_own_weights() -> None:
    """Changing the mapping that it was made from changes nothing."""
    weights = {"dense": 1.0}
    setting = Setting(weights)
    weights["dense"] = 9.0

    assert setting == Setting({"dense": 1.0})


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.sampled_from([Fusion(), WEIGHTED]))
@settings(max_examples=50, deadline=None)
def test_a_leg_alone_ranks_as_the_leg_does(item_ids: list[str], fusion: Fusion) -> None:
    """Fusion of one leg leaves its order, and other legs' candidates stay out."""
    rankings = {"dense": ranked("dense", item_ids), "lexical": ranked("lexical", ["z", "y"])}

    assert Setting({"dense": 2.0}, fusion).rank(rankings) == item_ids


def test_the_report_is_plain_json() -> None:
    """It survives being written and read, and names every setting with its mean."""
    rankings, qrels = complementary(8)
    report: TuningReport = tune(rankings, qrels, LEXICAL)

    plain = report.as_dict()

    assert json.loads(json.dumps(plain)) == plain
    assert plain["proposal"] == {
        "legs": {"dense": 1.0, "lexical": 1.0},
        "fusion": {"kind": "rrf", "k": 60},
        "refining": {"share": 0.0},
    }
    assert len(plain["means"]) == 20
    assert fmean(one["mean"] for one in plain["means"]) <= plain["means"][0]["mean"]
