"""Bad lines put aside."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.adapters.readers import InputLine
from retrieval.domain.errors import BadLineError, InvalidRequestError
from retrieval.surfaces.cli.input_files import MAX_REASONS, RejectedLines, default_path


def bad(raw: str, *, file: str = "items.jsonl", line: int = 1) -> InputLine:
    """A line that holds no item."""
    return InputLine(file, line, raw, None, BadLineError(file, line, "not JSON"), 0)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put_aside(*lines: InputLine, to: Path | None = None, headers: dict[str, str] | None = None) -> list[Path]:
    """One run; gives the files written."""
    names = list(dict.fromkeys(line.file for line in lines))
    with RejectedLines(to, inputs=names, headers=headers or {}) as rejected:
        for line in lines:
            rejected.add(line)
    return rejected.paths


@pytest.mark.parametrize(
    ("file", "is_csv", "name"),
    [
        ("data/tickets.jsonl.gz", False, "tickets.rejects.jsonl"),
        ("tickets.csv", True, "tickets.rejects.csv"),
        ("a.b.ndjson", False, "a.b.rejects.jsonl"),
        ("-", False, "stdin.rejects.jsonl"),
        ("-", True, "stdin.rejects.csv"),
        (".jsonl", False, ".jsonl.rejects.jsonl"),
        ("tickets.tsv.gz", True, "tickets.rejects.csv"),
    ],
)
def test_the_file_is_named_after_the_input(file: str, is_csv: bool, name: str) -> None:  # noqa: FBT001
    """In the current folder, with the ending of its format."""
    assert default_path(file, is_csv=is_csv) == Path(name)


def test_lines_are_kept_as_they_stood(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They keep their order, and each reason has file and line."""
    paths = put_aside(bad("{x"), bad("é", line=7))
    assert [path.name for path in paths] == ["items.rejects.jsonl"]
    assert (place / "items.rejects.jsonl").read_text() == "{x\né\n"
    assert capsys.readouterr().err == "rejected: items.jsonl:1: not JSON\nrejected: items.jsonl:7: not JSON\n"


def test_only_the_first_reasons_are_shown(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All lines are kept."""
    put_aside(*(bad(f"{{{number}") for number in range(MAX_REASONS + 5)))
    assert capsys.readouterr().err.count("items.jsonl:1") == MAX_REASONS
    assert len((place / "items.rejects.jsonl").read_text().splitlines()) == MAX_REASONS + 5


def test_without_a_bad_line_there_is_no_file(place: Path) -> None:
    """Nothing is left behind."""
    assert put_aside(to=place / "aside.jsonl") == []
    assert list(place.iterdir()) == []


def test_csv_lines_follow_their_header(place: Path) -> None:
    """The file can then be corrected and ingested."""
    put_aside(bad("1,2,3", file="a.csv"), bad('2,"x', file="a.csv"), headers={"a.csv": 'id,"my text"'})
    assert (place / "a.rejects.csv").read_text() == 'id,"my text"\n1,2,3\n2,"x\n'


def test_the_same_run_again_adds_nothing(place: Path) -> None:
    """A run that was interrupted is run again; lines that are new are added."""
    for _ in range(2):
        put_aside(bad("1,2,3", file="a.csv"), headers={"a.csv": "id,text"})
    put_aside(bad("4,5,6", file="a.csv"), headers={"a.csv": "id,text"})
    assert (place / "a.rejects.csv").read_text() == "id,text\n1,2,3\n4,5,6\n"


def test_a_file_without_a_last_line_end_is_continued_on_a_new_line(place: Path) -> None:
    """As some editors leave it."""
    (place / "items.rejects.jsonl").write_text("{old")
    put_aside(bad("{new"))
    assert (place / "items.rejects.jsonl").read_text() == "{old\n{new\n"


def test_an_input_is_never_written_to(place: Path) -> None:
    """Not even under another name."""
    (place / "items.jsonl").write_text("{bad\n")
    (place / "link.jsonl").symlink_to("items.jsonl")
    with pytest.raises(InvalidRequestError, match="one of the files to ingest"):
        RejectedLines(place / "link.jsonl", inputs=["items.jsonl"], headers={})
    assert (place / "items.jsonl").read_text() == "{bad\n"


def test_a_folder_that_is_missing_is_reported_before_the_run(place: Path) -> None:
    """Hours of work must not end in it."""
    with pytest.raises(InvalidRequestError, match="no such folder"):
        RejectedLines(place / "no" / "file", inputs=[], headers={})
    with pytest.raises(InvalidRequestError, match="too long for a path"):
        RejectedLines(place / ("x" * 300), inputs=[], headers={})


def test_inputs_with_different_headers_have_files_of_their_own(place: Path) -> None:
    """Lines under a wrong header would be other items."""
    lines = bad("1,2,3", file="a.csv"), bad("1,2,3", file="b.csv"), bad("{x")
    headers = {"a.csv": "id,text", "b.csv": "id,title"}
    assert put_aside(*lines, headers=headers) == [
        Path("a.rejects.csv"),
        Path("b.rejects.csv"),
        Path("items.rejects.jsonl"),
    ]
    with pytest.raises(InvalidRequestError, match="different columns"):
        put_aside(*lines, to=place / "all.csv", headers=headers)


def test_a_file_of_other_columns_is_not_added_to(place: Path) -> None:
    """The message says what to do."""
    (place / "a.rejects.csv").write_text("other,columns\n1,2\n")
    with pytest.raises(InvalidRequestError, match="other columns"):
        put_aside(bad("1,2,3", file="a.csv"), headers={"a.csv": "id,text"})


def test_a_file_that_cannot_be_written_is_reported(place: Path) -> None:
    """A folder has that name."""
    (place / "items.rejects.jsonl").mkdir()
    with pytest.raises(InvalidRequestError, match="cannot put bad lines aside"):
        put_aside(bad("{x"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no such device")
def test_a_device_is_written_to_and_not_read() -> None:
    """It has no earlier lines, and reading it may never end."""
    with pytest.raises(OSError, match="No space left"):
        put_aside(bad("{x"), to=Path("/dev/full"))


def test_a_line_that_was_put_aside_for_another_input_is_kept(place: Path) -> None:
    """Only the file that it belongs to counts."""
    (place / "a.rejects.csv").write_text("id,text\n1,2,3\n")
    lines = bad("1,2,3", file="a.csv"), bad("1,2,3", file="b.csv")
    put_aside(*lines, headers={"a.csv": "id,text", "b.csv": "id,title"})
    assert (place / "a.rejects.csv").read_text() == "id,text\n1,2,3\n"
    assert (place / "b.rejects.csv").read_text() == "id,title\n1,2,3\n"
