"""What gets its name once it is complete: it replaces nothing, and what a killed process left is removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retrieval.adapters.unfinished import name_file, unfinished
from retrieval.domain.errors import ConflictError
from tests.support.forked_program import forking


def _leave(path: str) -> None:
    """Begin to write, and end without a word, as a killed process does."""
    with unfinished(Path(path)) as place:
        (place / "half").write_text("half")
        (place / "folder").mkdir()
        os._exit(0)


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """By the next one that writes the same file."""
    path = tmp_path / "docs.jsonl"
    child = forking().Process(target=_leave, args=(str(path),))
    child.start()
    child.join()
    (left,) = tmp_path.iterdir()
    assert {found.name for found in left.iterdir()} >= {"half", "folder"}
    with unfinished(path) as place:
        assert place == left
        assert not {found.name for found in place.iterdir()} & {"half", "folder"}
    assert list(tmp_path.iterdir()) == []


def test_of_two_at_once_the_second_is_refused(tmp_path: Path) -> None:
    """The first goes on; another name is free."""
    with unfinished(tmp_path / "docs.jsonl") as place:
        (place / "half").write_text("half")
        with pytest.raises(ConflictError, match="another process is writing"), unfinished(tmp_path / "docs.jsonl"):
            pass
        with unfinished(tmp_path / "others.jsonl"):
            pass
        assert (place / "half").read_text() == "half"
    assert list(tmp_path.iterdir()) == []


def test_a_file_replaces_none(tmp_path: Path) -> None:
    """Not even one that has just got the name."""
    file, path = tmp_path / "new", tmp_path / "docs.jsonl"
    file.write_text("complete")
    name_file(file, path)
    assert (path.read_text(), file.exists()) == ("complete", False)
    file.write_text("another")
    with pytest.raises(FileExistsError):
        name_file(file, path)
    assert path.read_text() == "complete"
