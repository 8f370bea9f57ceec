"""``retrieval compare``, from its arguments to its output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import retrieval.sync
from retrieval import Profile, Settings
from retrieval.surfaces.cli.app import app


@pytest.fixture
def compare(database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """The program, with a collection ``docs`` of two items that was searched twice."""
    with retrieval.sync.connect(database_url, settings=settings) as platform:
        docs = platform.collection("docs")
        docs.add([{"_id": "1", "text": "the cat sat"}, {"_id": "2", "text": "a cat ran"}])
        docs.search("cat")
        docs.interleave("cat", profiles={"now": docs.profile, "other": Profile(legs={"lexical": 1.0})})
    monkeypatch.setenv("RETRIEVAL_DATABASE_URL", database_url)
    monkeypatch.setenv("RETRIEVAL_TENANT", settings.tenant)
    monkeypatch.setenv("RETRIEVAL_EMBEDDER", "none")
    return CliRunner()


def run_command(compare: CliRunner, *arguments: str) -> Result:
    """The result of the command."""
    return compare.invoke(app, ["compare", "docs", *arguments])


def test_too_few_recorded_searches_give_no_conclusion(compare: CliRunner, tmp_path: Path) -> None:
    """One search without feedback: counted, weighed, and no conclusion; the interleaved one is left out."""
    path = tmp_path / "words.json"
    path.write_text(json.dumps(Profile(legs={"lexical": 2.0}).as_dict()))
    result = run_command(compare, "--profile", str(path), "--since", "1h")
    assert result.exit_code == 0, result.output
    assert "words.json against profile 1: 1 search since" in result.output
    assert "left out: 1 search: no candidates were recorded with it" in result.output
    assert "no conclusion: words.json: no impression of it has a reward" in result.output


def test_json_holds_every_figure(compare: CliRunner) -> None:
    """A default reward makes both hits count, for either profile the same."""
    result = run_command(compare, "--profile", "1", "--default-reward", "0.25", "--json")
    payload = json.loads(result.output)
    assert (payload["profile"], payload["against"], payload["searches"], payload["changed"]) == (
        "profile 1",
        "profile 1",
        1,
        0,
    )
    assert [weight["rated"] for weight in payload["weights"]] == [2, 2]
    assert {estimate["first"]["value"] for estimate in payload["estimates"] if estimate["estimator"] == "snips"} == {
        0.25
    }
    assert payload["verdict"]["is_conclusive"] is False


def test_interleaved_searches_have_the_callers_names(compare: CliRunner) -> None:
    """One search was shown, without a rating."""
    result = run_command(compare, "--interleaved", "--profile", "other", "--against", "now")
    assert result.exit_code == 0, result.output
    assert "no conclusion: 0 interleaved searches were decided, below 6" in result.output


def test_a_profile_that_is_not_there_is_an_error(compare: CliRunner) -> None:
    """As is a time that cannot be read."""
    assert "has no profile 9; see: retrieval profiles list docs" in str(
        run_command(compare, "--profile", "9").exception
    )
    assert "cannot read --since" in str(run_command(compare, "--profile", "1", "--since", "soon").exception)
