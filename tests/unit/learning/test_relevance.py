"""The fit of the calibration, on hits with known probabilities."""

from dataclasses import replace

import numpy as np
import pytest

from retrieval.domain.search.relevance import Calibration, Evidence
from retrieval.learning.relevance import (
    FEWEST,
    FEWEST_FROM_START,
    JudgedHit,
    calibration_error,
    can_fit,
    fit_calibration,
    held_out,
    quality_of,
)

TRUE = Calibration(space="s", both=(-3.0, 4.0, -6.0, 5.0, -8.0))


def draw_hits(hits: int, seed: int = 0) -> list[JudgedHit]:
    """Hits that are relevant with the probability of ``TRUE``."""
    rng = np.random.default_rng(seed)
    evidence = [Evidence(*map(float, row)) for row in rng.random((hits, 4))]
    relevances = TRUE.relevances(evidence)
    return [
        JudgedHit(place // 10, legs, bool(rng.random() < (p or 0)))
        for place, (legs, p) in enumerate(zip(evidence, relevances, strict=True))
    ]


def test_the_fit_finds_the_coefficients_that_drew_the_hits() -> None:
    """Within what chance leaves of 40,000 hits, and the ridge takes."""
    fitted = fit_calibration({"both": draw_hits(40_000)}, space="s", fitted_on="drawn")

    assert fitted.both == pytest.approx(TRUE.both, abs=0.5)
    assert (fitted.dense, fitted.space, fitted.fitted_on) == ((), "s", "drawn")


def test_hits_that_weigh_nothing_change_nothing() -> None:
    """A set counts by its weight."""
    hits = draw_hits(2_000)
    others = [hit._replace(is_relevant=not hit.is_relevant, weight=1e-12) for hit in draw_hits(2_000, seed=1)]

    alone = fit_calibration({"both": hits}, space="", fitted_on="")
    both = fit_calibration({"both": [*hits, *others]}, space="", fitted_on="")

    assert both.both == pytest.approx(alone.both, rel=0.1)


def test_too_few_hits_of_a_kind_fit_nothing() -> None:
    """The result has neither a model nor a figure."""
    hits = [hit._replace(is_relevant=place < FEWEST - 1) for place, hit in enumerate(draw_hits(100))]

    assert not can_fit(hits)
    assert fit_calibration({"both": hits}, space="", fitted_on="").both == ()
    assert held_out("both", hits) is None


def test_from_a_start_few_hits_are_enough_to_be_more_honest() -> None:
    """The start is another collection's, whose similar items are less often relevant; fewer hits teach less."""
    start = replace(TRUE, both=(0.0, *TRUE.both[1:]))
    rest = draw_hits(4_000, seed=3)

    def error(hits: int) -> float:
        fitted = fit_calibration({"both": draw_hits(hits, seed=2)}, space="", fitted_on="", start=start)
        relevances = [
            relevance for relevance in fitted.relevances([hit.evidence for hit in rest]) if relevance is not None
        ]
        return quality_of(relevances, [hit.is_relevant for hit in rest]).error

    none, few, more = error(0), error(50), error(500)

    assert none > 0.15
    assert few < none / 2
    assert more < few


def test_without_hits_the_start_stays() -> None:
    """A model without hits keeps its start too."""
    hits = [hit._replace(is_relevant=place < FEWEST_FROM_START - 1) for place, hit in enumerate(draw_hits(100))]

    fitted = fit_calibration({"both": hits}, space="t", fitted_on="none", start=TRUE)

    assert fitted == replace(TRUE, space="t", fitted_on="none")
    assert held_out("both", hits, TRUE) is None


def test_many_hits_forget_the_start() -> None:
    """A wrong start has no effect in the end."""
    start = Calibration(space="s", both=(2.0, -4.0, 0.0, -5.0, 8.0))

    fitted = fit_calibration({"both": draw_hits(40_000)}, space="s", fitted_on="drawn", start=start)

    assert fitted.both == pytest.approx(TRUE.both, abs=0.5)


def test_held_out_queries_get_honest_probabilities() -> None:
    """A fit of the right shape is off by little on queries that it has not seen."""
    report = held_out("both", draw_hits(5_000))

    assert report is not None
    assert report.hits == 5_000
    assert report.error < 0.05
    assert report.told_apart is not None
    assert report.told_apart > 0.75
    assert sum(group.hits for group in report.bins) == 5_000


def test_quality_by_hand() -> None:
    """Four hits in two bins, of which one pair of four is the wrong way round."""
    report = quality_of([0.1, 0.1, 0.9, 0.05], [False, True, True, False])

    assert report.told_apart == pytest.approx(3.5 / 4)
    assert report.relevant == 0.5
    assert [(group.hits, group.relevant) for group in report.bins] == [(1, 0.0), (2, 0.5), (1, 1.0)]
    assert quality_of([0.5], [True]).told_apart is None


def test_calibration_error_is_the_mean_gap_between_promise_and_reward() -> None:
    """In five bins .2 is promised and .5 earned, in the other five .8 promised and .8 earned."""
    predicted = np.array([0.2] * 50 + [0.8] * 50)
    rewards = np.array([1.0, 0.0] * 25 + [*[1.0] * 8, 0.0, 0.0] * 5)

    assert calibration_error(predicted, rewards) == pytest.approx(0.15)
