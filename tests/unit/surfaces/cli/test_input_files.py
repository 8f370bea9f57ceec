"""Several files as one input."""

from __future__ import annotations

import gzip
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
    """Offsets rise to the total size, which is known beforehand."""
    (Path(files[1])).write_text("id,title\n3,x\n4,y\n")
    source = InputFiles(files, columns={}, file_format=None)
    lines = list(source.lines())
    offsets = [line.offset for line in lines]
    assert [line.item.item_id for line in lines if line.item] == ["1", "2", "3", "4"]
    assert offsets == sorted(offsets)
    assert offsets[-1] == source.total_bytes == sum(Path(file).stat().st_size for file in files)


def test_the_price_of_packed_files_follows_from_their_texts(files: list[str], tmp_path: Path) -> None:
    """A packed file tells how large its text is; the progress counts what is read from the disk."""
    packed, text = tmp_path / "c.jsonl.gz", b'{"_id": "5"}\n' * 1000
    packed.write_bytes(gzip.compress(text))
    source = InputFiles([files[0], str(packed)], columns={}, file_format=None)
    assert source.text_bytes == Path(files[0]).stat().st_size + len(text)
    assert source.total_bytes == Path(files[0]).stat().st_size + packed.stat().st_size


def test_headers_of_csv_files_are_known_once_they_are_read(files: list[str]) -> None:
    """They are as in the file."""
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


def test_a_file_of_tickets_is_read_as_tickets(tmp_path: Path) -> None:
    """Its columns decide; other files are read as usual, and so are files with mapped columns."""
    path, other = tmp_path / "tickets.csv", tmp_path / "notes.jsonl"
    path.write_text("ticket_id,summary,priority\nT-1,Login,1\n,Nothing,\n")
    other.write_text('{"_id": "2", "priority": 1}\n')
    source = InputFiles([str(other), str(path)], columns={}, file_format=None)
    note, ticket, bad = source.lines()
    assert source.holds_tickets
    assert note.item is not None
    assert ticket.item is not None
    assert (note.item.attributes["priority"], ticket.item.attributes["priority"]) == (1, "1")
    assert (ticket.item.item_id, ticket.item.title) == ("T-1", "Login")
    assert bad.error is not None
    assert not InputFiles([str(path)], columns={"_id": "ticket_id"}, file_format=None).holds_tickets
    assert not InputFiles([str(other)], columns={}, file_format=None).holds_tickets


def test_standard_input_has_no_size_and_is_read_once() -> None:
    """Without a size, the progress has no total."""
    source = InputFiles(["-"], columns={}, file_format=None)
    assert (source.total_bytes, source.text_bytes) == (None, None)
    with pytest.raises(InvalidRequestError, match="twice"):
        InputFiles(["-", "-"], columns={}, file_format=None)


def test_tickets_among_json_lines_have_the_names_that_are_read(tmp_path: Path) -> None:
    """Their hours and their time of resolution are set; other members stay, and other items are unchanged."""
    path = tmp_path / "tickets.jsonl"
    path.write_text(
        '{"_id": "1", "metadata": {"hours_to_resolve": 28.5, "resolved": "2021-09-16T16:19:00Z"}}\n'
        '{"_id": "2", "occurred_at": "2024-01-01T00:00Z", "priority": "High", "resolved": "2024-01-01T06:00Z"}\n'
        '{"_id": "3", "resolved": "2021-09-16T16:19:00Z"}\n'
    )
    first, two, other = (
        dict(line.item.attributes)
        for line in InputFiles([str(path)], columns={}, file_format=None).lines()
        if line.item
    )
    assert (first["resolution_time_hours"], first["resolved_at"]) == (28.5, "2021-09-16T16:19:00Z")
    assert (first["hours_to_resolve"], first["resolved"]) == (28.5, "2021-09-16T16:19:00Z")
    assert (two["resolution_time_hours"], two["resolved_at"]) == (6, "2024-01-01T06:00Z")
    assert other == {"resolved": "2021-09-16T16:19:00Z"}


def test_texts_of_tickets_are_unchanged_and_invalid_hours_are_a_bad_line(tmp_path: Path) -> None:
    """Only the surrounding white space is removed; JSON Lines that may not be tickets stay as they are."""
    path, other = tmp_path / "tickets.csv", tmp_path / "notes.jsonl"
    path.write_text("ticket_id,title,priority,domain,resolution_hours\n1,a, High, 2.10,+5\n2,b,High,MM,4.5h\n")
    other.write_text('{"_id": "3", "resolution_hours": "n/a"}\n')
    good, bad, note = InputFiles([str(path), str(other)], columns={}, file_format=None).lines()
    assert good.item is not None
    assert dict(good.item.attributes) == {"priority": "High", "domain": "2.10", "resolution_time_hours": 5}
    assert bad.item is None
    assert "write hours such as 4.5" in str(bad.error)
    assert note.item is not None
