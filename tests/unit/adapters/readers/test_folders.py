"""The files of a folder that are documents, and the files that are never read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from retrieval.adapters.readers.folders import find_documents, holds_documents
from retrieval.domain.errors import InvalidItemError, InvalidRequestError
from tests.support.documents import write_handbook


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    """A folder of documents."""
    return write_handbook(tmp_path / "handbook")


def test_a_folder_gives_its_documents_by_their_paths(handbook: Path) -> None:
    """In order; hidden files and those of other endings are counted."""
    documents = find_documents([handbook])

    assert [file.document_id for file in documents.files] == [
        "handbook/backups.md", "handbook/note.docx", "handbook/page.html", "handbook/policy.pdf",
        "handbook/team/empty.md", "handbook/team/plain.txt", "handbook/team/rota.py",
    ]  # fmt: skip
    assert [folder.name for folder in documents.folders] == ["handbook"]
    assert documents.skipped == {"hidden": 1, ".png": 1}
    assert documents.files[0].read().data.startswith(b"# Backups")


def test_a_folder_has_its_own_name_however_it_is_given(handbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``.`` has none."""
    monkeypatch.chdir(handbook)

    assert find_documents(["."]) == find_documents([handbook]) == find_documents([f"{handbook}/team/.."])


def test_nothing_outside_of_the_folder_is_read(handbook: Path, tmp_path: Path) -> None:
    """Links are counted; a file that becomes one after the look is refused."""
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    (handbook / "link.md").symlink_to(secret)
    (handbook / "links").symlink_to(tmp_path)
    documents = find_documents([handbook])

    assert documents.skipped["links"] == 2
    assert not [file for file in documents.files if "link" in file.document_id or "secret" in file.document_id]

    backups = documents.files[0]
    backups.path.unlink()
    backups.path.symlink_to(secret)
    with pytest.raises(InvalidItemError, match="lies outside of its folder"):
        backups.read()
    backups.path.unlink()
    backups.path.symlink_to(handbook / "page.html")
    with pytest.raises(InvalidItemError, match="cannot be opened"):
        backups.read()


def test_a_pipe_is_not_waited_for(handbook: Path) -> None:
    """A pipe is not read, because its writer may never come."""
    os.mkfifo(handbook / "pipe.md")
    [pipe] = [file for file in find_documents([handbook]).files if file.path.name == "pipe.md"]

    with pytest.raises(InvalidItemError, match="is not a regular file"):
        pipe.read()


def test_a_file_that_is_too_large_is_refused(handbook: Path) -> None:
    """Before it is read."""
    with pytest.raises(InvalidItemError, match=r"has \d+ bytes; at most 10 are read"):
        find_documents([handbook]).files[0].read(most_bytes=10)


def test_a_file_removed_meanwhile_is_reported(handbook: Path) -> None:
    """It stops no other."""
    file = find_documents([handbook]).files[0]
    assert file.size == len(file.read().data)
    file.path.unlink()

    assert file.size == 0
    with pytest.raises(InvalidItemError, match="cannot be opened: No such file"):
        file.read()


def test_a_file_that_is_named_may_be_a_link(handbook: Path, tmp_path: Path) -> None:
    """A named link stands for its target; its id is the link's name."""
    (tmp_path / "named.md").symlink_to(handbook / "backups.md")
    [file] = find_documents([tmp_path / "named.md"]).files

    assert (file.document_id, file.read().data[:9]) == ("named.md", b"# Backups")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["gone.md"], "gone.md: there is no such file or folder"),
        (["a.xyz"], "a.xyz: the name does not tell what document it is"),
        (["one/a.md", "two/a.md"], "would both be the document 'a.md'"),
    ],
)
def test_paths_that_cannot_be_meant_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], message: str
) -> None:
    """Before anything is stored."""
    for name in ("a.xyz", "one/a.md", "two/a.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidRequestError, match=re.escape(message)):
        find_documents(names)


def test_a_path_given_twice_counts_once(handbook: Path) -> None:
    """The folder and again the folder."""
    assert len(find_documents([handbook, handbook]).files) == 7


def test_documents_are_distinguished_from_files_of_items(handbook: Path) -> None:
    """By their endings."""
    assert [holds_documents(name) for name in (handbook, "x.md", "x.jsonl", "x.csv", "-")] == [
        True, True, False, False, False
    ]  # fmt: skip


@pytest.mark.parametrize("given", ["", None, 5, b"folder"])
def test_an_invalid_path_is_refused(given: Any) -> None:
    """An empty name, as of a variable that is not set, does not stand for the current folder."""
    with pytest.raises(InvalidRequestError, match="is not a path"):
        find_documents([given])
