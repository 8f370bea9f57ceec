"""A session's folder is looked at, wherever it is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from retrieval.apps.principles.startup.surroundings import Surroundings, look_around

DEADLINE = time.monotonic() + 3600


def test_the_manifests_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a relative name and through a link; without a word."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "go.mod").write_text("")
    (tmp_path / "link").symlink_to("there")
    monkeypatch.chdir(tmp_path)
    for name in ("there", "link", tmp_path / "there"):
        assert look_around(Path(name), DEADLINE, pytest.fail).project_tags == ("go",)


@pytest.mark.parametrize("name", ["gone", "n" * 5000, "loop"])
def test_without_a_folder_nothing_is_known(tmp_path: Path, name: str) -> None:
    """One that is gone, that none can be called, that leads to itself: a hint says so."""
    (tmp_path / "loop").symlink_to("loop")
    hints: list[str] = []
    assert look_around(tmp_path / name, DEADLINE, hints.append) == Surroundings()
    assert [hint.endswith("is no folder; going on without it") or len(name) > 200 for hint in hints] == [True]


def test_a_current_folder_that_was_removed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell may stand in it still."""
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    hints: list[str] = []
    assert look_around(Path(), DEADLINE, hints.append) == Surroundings()
    assert len(hints) == 1
