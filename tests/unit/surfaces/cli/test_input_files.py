"""Several files as one input."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.domain.errors import ConfigurationError, InvalidRequestError
from retrieval.surfaces.cli.input_files import InputFiles


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two files of two items each."""
    paths = [tmp_path / "a.jsonl", tmp_path / "b.csv"]
    paths[0].write_text('{"_id": "1"}\n{"_id": "2"}\n')
    paths[1].write_text("key,title\n3,x\n4,y\n")
    return [str(path) for path in paths]


def test_files_are_read_one_after_the_other(files: list[str]) -> None:
    """Offsets rise to the size of all of them, which is known beforehand."""
    (Path(files[1])).write_text("id,title\n3,x\n4,y\n")
    source = InputFiles(files, columns={}, file_format=None)
    lines = list(source.lines())
    offsets = [line.offset for line in lines]
    assert [line.item.item_id for line in lines if line.item] == ["1", "2", "3", "4"]
    assert offsets == sorted(offsets)
    assert offsets[-1] == source.total_bytes == sum(Path(file).stat().st_size for file in files)


def test_headers_of_csv_files_are_known_once_they_are_read(files: list[str]) -> None:
    """As they stand in the file."""
    source = InputFiles(files[1:], columns={"_id": "key"}, file_format=None)
    next(source.lines())
    assert source.headers == {files[1]: "key,title"}


def test_a_missing_file_is_reported_before_the_first_is_read(files: list[str]) -> None:
    """Also when it comes last."""
    with pytest.raises(InvalidRequestError, match="no such file"):
        InputFiles([*files[:1], "missing.jsonl"], columns={}, file_format=None)


def test_a_column_that_is_missing_is_reported_at_once(files: list[str]) -> None:
    """With the columns there are."""
    with pytest.raises(ConfigurationError, match="'key', 'title'"):
        InputFiles(files[1:], columns={"_id": "ticket_id"}, file_format=None)


def test_standard_input_has_no_size_and_is_read_once() -> None:
    """Then there is no total."""
    source = InputFiles(["-"], columns={}, file_format=None)
    assert source.total_bytes is None
    assert source.reads_standard_input
    with pytest.raises(InvalidRequestError, match="twice"):
        InputFiles(["-", "-"], columns={}, file_format=None)
