"""Off-policy estimates on the Open Bandit data: the Open Bandit Pipeline's figures, and the other log's truth.

Needs the data: set RETRIEVAL_TEST_DATA to the folder that holds obd. Skipped, and said, where it is not there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from open_bandit import PIPELINE, Estimated, estimated

from retrieval.domain.learning.off_policy import Estimator

DATA = Path(os.environ.get("RETRIEVAL_TEST_DATA", "")) / "obd"

pytestmark = [
    pytest.mark.skipif(
        not (os.environ.get("RETRIEVAL_TEST_DATA") and DATA.is_dir()),
        reason="NOT MEASURED: set RETRIEVAL_TEST_DATA to the folder of the test collections, with obd in it",
    ),
    pytest.mark.quality,
]


@pytest.fixture(scope="module")
def comparisons() -> list[Estimated]:
    """Each policy by the other's log, in every campaign."""
    return estimated(DATA)


def test_ips_and_snips_are_the_pipelines(comparisons: list[Estimated]) -> None:
    """To 1e-9, for both policies in all three campaigns."""
    assert {(comparison.campaign, comparison.target) for comparison in comparisons} == set(PIPELINE)
    for comparison in comparisons:
        for name, value in PIPELINE[comparison.campaign, comparison.target].items():
            assert comparison.estimates[Estimator(name)].value == pytest.approx(value, abs=1e-9)


def test_intervals_hold_what_the_policy_earned_itself(comparisons: list[Estimated]) -> None:
    """SNIPS by the other policy's log, for every policy and campaign; IPS too, by the uniform log."""
    for comparison in comparisons:
        snips, ips = comparison.estimates[Estimator.SNIPS], comparison.estimates[Estimator.IPS]
        assert snips.low <= comparison.on_policy <= snips.high
        if comparison.target == "bts":
            assert ips.low <= comparison.on_policy <= ips.high


def test_a_log_without_a_floor_is_refused_where_it_cannot_speak(comparisons: list[Estimated]) -> None:
    """BTS hardly ever showed some items: of 10,000 rows, only two tell what a uniform choice earns."""
    refused = {
        (comparison.campaign, comparison.target) for comparison in comparisons if comparison.weighing.objections()
    }
    assert refused == {("women", "random")}
