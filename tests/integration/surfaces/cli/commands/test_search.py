"""``retrieval search``: every option of a search reaches it, by the record that it leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import retrieval.sync
from retrieval import Context, Profile, Settings
from retrieval.domain.errors import EmptyQueryError, WrongDimensionError
from retrieval.surfaces.cli.app import app
from retrieval.sync import SyncPlatform


@pytest.fixture
def platform(database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncPlatform]:
    """A collection ``docs`` of two items with vectors, that the program finds by its environment."""
    for name, value in {"DATABASE_URL": database_url, "TENANT": settings.tenant, "EMBEDDER": "hashing"}.items():
        monkeypatch.setenv(f"RETRIEVAL_{name}", value)
    monkeypatch.setenv("RETRIEVAL_SCHEMA", settings.database_schema)
    with retrieval.sync.connect(database_url, settings=settings.model_copy(update={"embedder": "hashing"})) as opened:
        opened.collection("docs").add([
            {"_id": "1", "title": "First", "text": "the cat sat", "tags": ["pet"]},
            {"_id": "2", "title": "Second", "text": "a cat, a cat", "metadata": {"level": "high"}},
        ])  # fmt: skip
        yield opened


def json_output(*words: str) -> Any:
    """The JSON output of the program."""
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exception is None, result.exception
    return json.loads(result.output)


def test_every_option_reaches_the_search(platform: SyncPlatform, tmp_path: Path) -> None:
    """The record has the typed values."""
    path = tmp_path / "words.json"
    path.write_text(json.dumps(Profile(legs={"lexical": 1.0}).as_dict()))
    payload = json_output(
        *("search", "docs", "cat", "--profile", str(path), "--rewrite", "kitten", "--rewrite", "tom", "-n", "1"),
        *("--prefer", "level=high", "--entity", "questions:q1", "--entity", "questions:q2", "--tag", "pet"),
        *("--as-of", "2026-03-01", "--actor", "ann", "--session", "s-1", "--domain", "pets", "--complexity", "0.5"),
        *("--backtracks", "2", "--generated"),
    )
    assert [hit["id"] for hit in payload["hits"]] == ["2"]
    record = platform.retrieval(payload["retrieval_id"])
    assert record.context == Context(
        domain="pets", complexity=0.5, actor="ann", session="s-1", backtracks=2, generated=True
    )
    request = record.request
    assert (record.profile_version, request["profile"]["legs"], request["limit"]) == (0, {"lexical": 1.0}, 1)
    assert (request["rewrites"], request["tags"]) == (["kitten", "tom"], ["pet"])
    assert request["preferred"] == {"level": {"in": ["high"]}}
    assert sorted(map(tuple, request["entities"])) == [("questions", "q1"), ("questions", "q2")]
    assert request["as_of"].startswith("2026-03-01T00:00")


def test_a_vector_takes_the_place_of_the_words(platform: SyncPlatform, tmp_path: Path) -> None:
    """A vector in a file finds the nearest items; another length is refused."""
    [vector] = platform.collection("docs").vectors_of(["First\nthe cat sat"])
    path, short = tmp_path / "vector.json", tmp_path / "short.json"
    path.write_text(json.dumps([float(number) for number in vector]))
    short.write_text("[1, 0.5]")
    payload = json_output("search", "docs", "--vector", str(path), "--profile", "1")
    assert (payload["hits"][0]["id"], payload["profile_version"]) == ("1", None)
    assert json_output("search", "docs", "cat", "--about", str(path))["hits"]
    for option in ("--vector", "--about"):
        refused = CliRunner().invoke(app, ["search", "docs", "cat", option, str(short)])
        assert isinstance(refused.exception, WrongDimensionError)


@pytest.mark.usefixtures("platform")
def test_words_are_optional_where_the_legs_need_none() -> None:
    """The platform decides it, as on every surface: it knows the collection's profile."""
    assert [hit["id"] for hit in json_output("search", "docs", "--legs", "tagged", "--tag", "pet")["hits"]] == ["1"]
    assert isinstance(CliRunner().invoke(app, ["search", "docs"]).exception, EmptyQueryError)


@pytest.mark.usefixtures("platform")
def test_a_preview_takes_the_query_as_text_too() -> None:
    """With ``--plain`` a minus excludes nothing; the context is given as for a search."""
    arguments = ("profiles", "preview", "docs", "cat -sat", "-p", "active", "--session", "s-1", "--domain", "pets")

    def shown(*more: str) -> list[str]:
        return [hit["hit"]["id"] for hit in json_output(*arguments, *more)["previews"][0]["hits"]]

    assert shown() == ["2"]
    assert sorted(shown("--plain")) == ["1", "2"]


JUDGED = "query,expected_id\n" + "".join(f"cat sat {number},1\nhigh a cat {number},2\n" for number in range(8))


@pytest.mark.usefixtures("platform")
def test_a_calibration_is_fitted_shown_and_used(tmp_path: Path) -> None:
    """Nothing is stored before ``--apply``; then hits have a relevance, and a search can require one."""
    path = tmp_path / "judged.csv"
    path.write_text(JUDGED)
    trial = CliRunner().invoke(app, ["calibrate", "docs", "--queries", str(path)])
    assert trial.exit_code == 0, trial.output
    assert "fitted on 16 judged queries, 32 hits" in trial.output
    assert "to use it, run the same command again with --apply" in trial.output
    assert json_output("search", "docs", "cat")["hits"][0]["relevance"] is None

    stored = json_output("calibrate", "docs", "--queries", str(path), "--apply")

    assert (stored["profile_version"], stored["calibration"]["fitted_on"]) == (2, "16 judged queries, 32 hits")
    first, second = json_output("search", "docs", "cat sat")["hits"]
    assert first["relevance"] > second["relevance"]
    assert [
        hit["id"]
        for hit in json_output("search", "docs", "cat sat", "--min-relevance", str(first["relevance"]))["hits"]
    ] == ["1"]
    table = CliRunner().invoke(app, ["search", "docs", "cat sat", "--min-score", "100"])
    assert "0 hits" in table.output
    assert "note: nothing found: none of the best 2 items has score 100" in table.output
    result = CliRunner().invoke(app, ["search", "docs", "cat sat"])
    assert f"{first['score']:.4f}  {first['relevance']:>4.0%}  1  First" in result.output


def test_a_calibration_that_cannot_be_is_refused(platform: SyncPlatform, tmp_path: Path) -> None:
    """With what to do, and nothing is stored."""
    path = tmp_path / "judged.csv"
    path.write_text("query,expected_id\ncat,1\n")
    for words, message in (
        (["--queries", str(path)], "needs 10 of each"),
        ([], "needs 10 of each"),
        (["--drop-self", "metadata.x"], "--drop-self need it"),
    ):
        result = CliRunner().invoke(app, ["calibrate", "docs", *words, "--apply"])
        assert result.exit_code != 0
        assert message in " ".join(f"{result.output} {result.exception}".split())
    assert platform.collection("docs").profile.calibration is None
