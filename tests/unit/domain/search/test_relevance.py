"""The relevance of a hit: its evidence, and checks of the coefficients."""

import json
import math
from pathlib import Path

import pytest

from retrieval.domain.errors import InvalidProfileError
from retrieval.domain.search.fusion import Candidate
from retrieval.domain.search.profile import Profile
from retrieval.domain.search.relevance import SHIPPED, Calibration, Evidence, evidence_of, most_by_words

ROOT = Path(__file__).parents[4]
BOTH = Calibration(space="s", both=(-4, 5, -7, 9, -24), dense=(-5, 7, -12), lexical=(-3, 9, -20))


def candidates(leg: str, **scores: float) -> list[Candidate]:
    """A leg's candidates, best first."""
    return [Candidate(leg, name, rank, score) for rank, (name, score) in enumerate(scores.items(), 1)]


def test_evidence_is_what_each_leg_knows_and_how_far_it_lies_behind_the_best() -> None:
    """An item without words has none only where the search would know."""
    rankings = {"dense": candidates("dense", a=0.8, b=0.5), "lexical": candidates("lexical", b=12.0, c=6.0)}

    a, b, c = evidence_of(["a", "b", "c"], rankings, 24.0, knows_all_words=True)

    assert a == Evidence(0.8, 0.0, 0.0, 0.5)
    assert b == pytest.approx((0.5, 0.3, 0.5, 0.0))
    assert c == Evidence(None, 0.0, 0.25, 0.25)
    [unknown] = evidence_of(["a"], rankings, 24.0, knows_all_words=False)
    assert unknown.words is None


def test_of_several_wordings_the_best_score_counts() -> None:
    """A leg that did not run contributes nothing."""
    rankings = {"dense": candidates("dense", a=0.4), "dense:1": candidates("dense:1", a=0.6, b=0.7)}

    a, b = evidence_of(["a", "b"], rankings, 1.0, knows_all_words=True)

    assert (a.cosine, b.cosine) == (0.6, 0.7)
    assert a.words is None


def test_words_that_the_collection_does_not_know_lower_the_share() -> None:
    """The most grows with the words of the query."""
    assert most_by_words("apple pie", 100) == pytest.approx(2 * 2.2 * math.log(202))
    assert most_by_words("apple apple", 100) == most_by_words("apple", 100)
    assert most_by_words("", 0) > 0


def test_the_model_is_that_of_what_is_known() -> None:
    """Cosine and words, one of both, or nothing."""
    evidence = [Evidence(0.8, 0.0, 0.5, 0.0), Evidence(0.8, 0.0, None, 0.0), Evidence(None, 0.0, 0.5, 0.0)]

    relevances = BOTH.relevances([*evidence, Evidence(None, 0.0, None, 0.0), Evidence(-200.0, 0.0, None, 0.0)])

    expected = [1 / (1 + math.exp(-z)) for z in (-4 + 4 + 4.5, -5 + 5.6, -3 + 4.5)]
    assert relevances == [*map(pytest.approx, expected), None, 0.0]


def test_without_coefficients_there_is_no_relevance() -> None:
    """A model that was not fitted is not guessed."""
    assert Calibration(space="s").relevances([Evidence(0.8, 0.0, 0.5, 0.0)]) == [None]


@pytest.mark.parametrize(
    "coefficients",
    [
        {"both": (1, 2)},
        {"dense": (1, 2, float("nan"))},
        {"lexical": "abc"},
        {"space": "\x00"},
        {"fitted_on": "x" * 1001},
    ],
)
def test_coefficients_that_cannot_be_are_refused(coefficients: dict[str, object]) -> None:
    """The error names the part."""
    with pytest.raises(InvalidProfileError, match=f"calibration {next(iter(coefficients))} is"):
        Calibration(**{"space": "s", **coefficients})  # type: ignore[arg-type]


def test_a_profile_keeps_its_calibration() -> None:
    """It is stored with the profile, and read back."""
    profile = Profile(calibration=BOTH)

    assert Profile.from_dict(profile.as_dict()) == profile
    assert Profile.from_dict({"legs": {"dense": 1}, "calibration": None}).calibration is None
    refused: list[dict[str, object]] = [
        {"calibration": {"space": "s", "more": 1}},
        {"calibration": [1]},
        {"calibration": {}},
    ]
    for wrong in refused:
        with pytest.raises(InvalidProfileError):
            Profile.from_dict({"legs": {"dense": 1}, **wrong})


def test_the_shipped_calibration_is_that_of_the_benchmark() -> None:
    """The calibration and the benchmark's result have to change together."""
    fitted = json.loads((ROOT / "benchmarks/results/relevance.json").read_text())["calibration"]

    assert SHIPPED["minilm", "all-MiniLM-L6-v2"].as_dict() == fitted


@pytest.mark.parametrize("shipped", SHIPPED.values())
def test_the_shipped_calibration_gives_better_hits_more_relevance(shipped: Calibration) -> None:
    """An unrelated hit gets a low relevance."""
    far, near = Evidence(0.1, 0.0, 0.0, 0.0), Evidence(0.7, 0.0, 0.6, 0.0)

    low, high = shipped.relevances([far, near])

    assert low is not None
    assert high is not None
    assert low < 0.05
    assert high > 0.5
