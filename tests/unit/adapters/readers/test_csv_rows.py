"""CSV with a header."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.adapters.readers.csv_files import read_csv_rows
from retrieval.adapters.readers.lines import MAX_LINE_BYTES, InputLine
from retrieval.domain.errors import ConfigurationError
from retrieval.domain.items.item import Item

CELL = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cn", "Cs", "Mn", "Zl", "Zp"])).map(
    lambda text: text if text.strip() else ""
)


def read(tmp_path: Path, data: bytes, max_line_bytes: int = MAX_LINE_BYTES) -> list[InputLine]:
    """The result of reading a file with these bytes."""
    file = tmp_path / "items.csv"
    file.write_bytes(data)
    return list(read_csv_rows(str(file), max_line_bytes=max_line_bytes))


@given(rows=st.lists(st.tuples(CELL, CELL), max_size=4))
def test_every_text_reads_back_as_it_was_written(rows: list[tuple[str, str]]) -> None:
    """Commas, quotes and line ends in quoted texts survive."""
    table = io.StringIO(newline="")
    writer = csv.writer(table, quoting=csv.QUOTE_ALL)
    writer.writerow(["_id", "title", "text"])
    writer.writerows([str(at), *row] for at, row in enumerate(rows))
    with tempfile.TemporaryDirectory() as folder:
        lines_read = read(Path(folder), table.getvalue().encode())

    expected = [Item(item_id=str(at), title=title, body=body) for at, (title, body) in enumerate(rows)]
    assert expected == [line.item for line in lines_read]


@given(data=st.binary(max_size=200))
def test_no_bytes_stop_the_reader(data: bytes) -> None:
    """For any content below the header, every record is an item or an error."""
    with tempfile.TemporaryDirectory() as folder:
        rows = read(Path(folder), b"_id,title\n1,a\n" + data)

    assert all((line.item is None) != (line.error is None) for line in rows)
    assert rows[0].line == 2


def test_a_record_over_several_lines_has_the_number_of_its_first(tmp_path: Path) -> None:
    """Line ends inside quotes do not disturb the numbers, and the raw text is all of the record."""
    first, second = read(tmp_path, b'_id,text\r\n\r\n1,"a\nb\n\nc"\r\n2,d\r\n')

    assert (first.line, first.raw) == (3, '1,"a\nb\n\nc"')
    assert (second.line, second.raw) == (7, "2,d")
    assert Item(item_id="1", body="a\nb\n\nc") == first.item


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_header_determines_the_separator(tmp_path: Path, delimiter: str) -> None:
    """In rows, other signs are part of the texts."""
    lines = [["_id", "title", "text"], ["1", "a, b; c", "d|e\tf"]]
    table = io.StringIO(newline="")
    csv.writer(table, delimiter=delimiter).writerows(lines)
    (line,) = read(tmp_path, table.getvalue().encode())
    assert line.item == Item(item_id="1", title="a, b; c", body="d|e\tf")


@pytest.mark.parametrize("before", [b"", b"sep=;\r\n", b"\xef\xbb\xbfsep=;\n"])
@pytest.mark.parametrize("header", [b'_id;text;"length, height"', b"_id;text;length, height"])
def test_a_header_with_another_separator_in_a_name_is_read(tmp_path: Path, before: bytes, header: bytes) -> None:
    """As spreadsheet programs write it, which may name the separator in a line of its own."""
    (line,) = read(tmp_path, before + header + b"\n1;a;2\n")
    assert line.item == Item(item_id="1", body="a", attributes={"length, height": 2})


def test_a_byte_order_mark_is_not_a_part_of_the_first_name(tmp_path: Path) -> None:
    """The mark that spreadsheet programs write is removed."""
    assert read(tmp_path, b"\xef\xbb\xbf_id\n1\n")[0].item == Item(item_id="1")


def test_rows_that_are_empty_throughout_are_skipped(tmp_path: Path) -> None:
    """Blank lines and rows of commas hold no item."""
    assert [line.line for line in read(tmp_path, b"_id,title\n,\n \n1,a\n\n,\n")] == [4]


def test_a_long_field_is_not_an_error(tmp_path: Path) -> None:
    """The parser's own limit of 128 KiB a field does not apply."""
    (line,) = read(tmp_path, b"_id,text\n1," + b"x" * 200_000 + b"\n")
    assert line.item is not None
    assert len(line.item.body) == 200_000


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (b"2,a,b", "3 fields, but the header has 2"),
        (b",a", "_id"),
        (b"2,a\x00", "NUL"),
        (b"2,\xff", "not UTF-8"),
        (b'2,"a\nb\xff"', "not UTF-8"),
        (b'2,"a\xff\nb"', "not UTF-8"),
        (b'2,"a"b', "not CSV"),
        (b"2,a\rb", "carriage return"),
        (b"_id,title", "the header is repeated here"),
        (b"\xef\xbb\xbf_id, title ", "the header is repeated here"),
        (b"x" * 513 + b",a", "longer than 512 bytes"),
    ],
)
def test_a_bad_row_says_why_and_stops_nothing(tmp_path: Path, row: bytes, expected: str) -> None:
    """The reason is readable, and the rows before and after are items."""
    before, bad, after = read(tmp_path, b"_id,title\n1,a\n" + row + b"\n3,c\n")

    assert Item(item_id="1", title="a") == before.item
    assert Item(item_id="3", title="c") == after.item
    assert bad.error is not None
    assert expected in bad.error.reason
    assert bad.line == 3


def test_a_quote_that_is_never_closed_is_one_bad_record(tmp_path: Path) -> None:
    """It is reported where it opens, with all that it swallowed."""
    good, bad = read(tmp_path, b'_id,title\n1,a\n2,"b\n3,c\n4,d')

    assert good.item is not None
    assert bad.error is not None
    assert (bad.line, bad.raw) == (3, '2,"b\n3,c\n4,d')
    assert "still open after 3 lines" in bad.error.reason


def test_a_record_beyond_the_limit_is_bad_and_the_next_is_read(tmp_path: Path) -> None:
    """The limit holds for one line and for the lines of one record together."""
    rows = b"_id,title\n1," + b"x" * 200 + b'\n2,"' + b"y\n" * 60 + b"\nz\n3,c\n"

    lines_read = read(tmp_path, rows, max_line_bytes=100)

    assert [line.error.reason for line in lines_read if line.error][:2] == [
        "longer than 100 bytes; split the item into several",
        "a quote that opens here is still open after 49 lines and 100 bytes",
    ]
    assert Item(item_id="3", title="c") == lines_read[-1].item


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", "is empty"), (b"\n\n", "is empty"), (b"_id,\xff\n1,a\n", "header cannot be read: .*UTF-8")],
)
def test_a_file_without_a_header_is_refused(tmp_path: Path, data: bytes, expected: str) -> None:
    """There is nothing to read without column names."""
    with pytest.raises(ConfigurationError, match=r"items\.csv: .*" + expected):
        read(tmp_path, data)


def test_the_header_is_passed_on_unchanged(tmp_path: Path) -> None:
    """The callback runs once, when reading begins, so that rejected rows can follow the header."""
    file = tmp_path / "items.csv"
    file.write_bytes(b'\xef\xbb\xbf\n_id,"my\ntext"\r\n1,x\n')
    headers: list[str] = []
    rows = read_csv_rows(str(file), header=headers.append)
    assert headers == []
    assert len(list(rows)) == 1
    assert headers == ['_id,"my\ntext"']


def test_an_open_quote_at_the_end_is_told_by_its_lines(tmp_path: Path) -> None:
    """Also where nothing follows it; a line ends with a newline, and not with another separator of Unicode."""
    file = tmp_path / "items.csv"
    for end, lines in (('"\n', "1 line"), ('2,"a\u2028b\nc', "2 lines")):
        file.write_text(f"id,text\n1,a\n{end}")
        [_, bad] = read_csv_rows(str(file))
        assert f"still open after {lines}" in str(bad.error)
