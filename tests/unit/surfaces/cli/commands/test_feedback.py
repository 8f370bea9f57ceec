"""Events from the command line: what could not be used."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from retrieval.adapters.store.learning.models import StoredModel
from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.cli.app import app
from retrieval.surfaces.cli.commands.feedback import trial_text


@pytest.mark.parametrize("verdict", [[], ["--helpful", "--reward", "1"]])
def test_an_event_without_a_single_verdict_gets_the_options(verdict: list[str]) -> None:
    """The message has command-line options instead of keyword arguments."""
    error = CliRunner().invoke(app, ["feedback", "--collection", "c", "a", *verdict]).exception

    assert isinstance(error, InvalidRequestError)
    assert "one of: --helpful, --not-helpful, --reward R" in str(error)


def test_a_model_is_listed_with_the_figures_of_its_trial() -> None:
    """Each combination that was tried has its figures; one with too few verdicts has none."""
    figures = {"log_loss_less": 0.012, "log_loss_less_at_least": 0.004, "value_more": 0.03, "value_more_at_least": 0.01}
    tried = {"sum": {"passed": True, **figures}, "logit_stack": {"passed": False, "reason": "too few"}}
    now = datetime(2026, 5, 31, tzinfo=UTC)
    model = StoredModel(
        version=3, kind="shrinkage", metrics=tried, events=60, statistics_at=now, is_published=True, reason="better",
        created_at=now,
    )  # fmt: skip
    assert trial_text(model) == "sum: log-loss less 0.0120 ≥ 0.0040, value more 0.0300 ≥ 0.0100"
