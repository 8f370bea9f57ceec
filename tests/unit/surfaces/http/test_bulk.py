"""Lines are cut out of a stream, however it is parted."""

from __future__ import annotations

import re

import pytest

from retrieval.domain.errors import InvalidItemError, InvalidRequestError
from retrieval.domain.items.item import Item
from retrieval.surfaces.http.bulk import LineCutter, LineReader, StreamLine
from retrieval.surfaces.http.problems import detail_of

STREAM = b"\xef\xbb\xbfone\r\n\n  \ntwo\nlonger than that\nthree"
LINES = [
    StreamLine(1, b"one\r"),
    StreamLine(4, b"two"),
    StreamLine(5, b"", too_long=True),
    StreamLine(6, b"three"),
]


@pytest.mark.parametrize("size", range(1, len(STREAM) + 1))
def test_lines_do_not_depend_on_the_parts_in_which_they_come(size: int) -> None:
    """Blank lines are counted and left out; a line that is too long is not kept; the last one needs no end."""
    cutter = LineCutter(max_line_bytes=8)
    parts = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert [*(line for part in parts for line in cutter.feed(part)), *cutter.end()] == LINES


def test_a_line_of_just_the_limit_is_taken() -> None:
    """Its line end does not count."""
    cutter = LineCutter(max_line_bytes=4)
    assert cutter.feed(b"1234\n12345\n") == [StreamLine(1, b"1234"), StreamLine(2, b"", too_long=True)]
    assert cutter.end() == []


CSV = (
    b'\xef\xbb\xbfRef;Body\r\nB1;"two\r\nlines; ""quoted"""\nB2;a 5" disk\n'
    b'\n"B3"x;c\nB4;"e\nf"\n;no id\nB5;"open\nB6;d\n'
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(CSV)])
def test_records_of_a_csv_may_have_several_lines(size: int) -> None:
    """A quote within a text opens nothing; each record has the number of its first line, and the header is none."""
    reader = LineReader("text/csv; charset=utf-8", ["id=Ref", "text=Body"])
    parts = [CSV[start : start + size] for start in range(0, len(CSV), size)]
    cut = [*(line for part in parts for line in reader.cutter.feed(part)), *reader.cutter.end()]
    records = [(line.number, reader.read(line)) for line in reader.begin(cut)]
    items = [(number, item.item_id, item.body) for number, item in records if isinstance(item, Item)]
    assert items == [(2, "B1", 'two\r\nlines; "quoted"'), (4, "B2", 'a 5" disk'), (7, "B4", "e\nf")]
    refused = [(number, str(item)[:43]) for number, item in records if isinstance(item, InvalidItemError)]
    assert refused == [
        (6, "not CSV: ';' expected after '\"'"),
        (9, "no 'id' (or '_id', 'item_id'); every item n"),
        (10, "a quote that opens here is still open after"),
    ]


def test_a_csv_may_name_its_separator_before_its_header() -> None:
    """As spreadsheet programs do, after a byte order mark; the line may arrive alone."""
    reader = LineReader("text/csv", [])
    assert reader.cutter.feed(b"\xef\xbb\xbfsep=;\r\n") == []
    lines = reader.begin(reader.cutter.feed(b'id;text;"a, b"\r\n1;one;2\r\n'))
    (item,) = map(reader.read, lines)
    assert isinstance(item, Item)
    assert (item.item_id, item.body, item.attributes) == ("1", "one", {"a, b": 2})


def test_json_lines_are_mapped_too() -> None:
    """By the names of their entries."""
    reader = LineReader("application/x-ndjson", ["id=uuid", "text=summary"])
    item = reader.read(StreamLine(1, b'{"uuid": "a", "summary": "one", "team": "ops"}'))
    assert isinstance(item, Item)
    assert (item.item_id, item.body, item.attributes) == ("a", "one", {"team": "ops"})


def test_json_lines_without_ids_get_hashes() -> None:
    """The named member is hashed; a CSV has a column for ids."""
    reader = LineReader("application/x-ndjson", ["text=summary"], "text")
    first, other = (
        reader.read(StreamLine(1, line)) for line in (b'{"summary": "one"}', b'{"id": "a", "summary": "b"}')
    )
    assert isinstance(first, Item)
    assert isinstance(other, Item)
    assert (len(first.item_id), first.body, other.item_id) == (24, "one", "a")
    for content_type, name in (("text/csv", "text"), ("application/x-ndjson", "")):
        with pytest.raises(InvalidRequestError, match=r"map a column: \?map=id=NAME"):
            LineReader(content_type, [], name)


def test_a_line_without_an_id_gets_a_suggestion() -> None:
    """The message suggests the entry that may be meant."""
    refused = LineReader("application/x-ndjson", []).read(StreamLine(1, b'{"uuid": "a", "text": "one"}'))
    assert isinstance(refused, InvalidItemError)
    assert "did you mean 'uuid'? There are: 'uuid', 'text'; map the entry of the ids: ?map=" in detail_of(refused)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (["_id"], "write FIELD=NAME"),
        (["id=a", "id=b"], "mapped twice"),
        (["txt=Body"], "no field 'txt'; did you mean 'text'?"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused_before_a_line_is_read(mapping: list[str], message: str) -> None:
    """The message says what to write."""
    with pytest.raises(InvalidRequestError, match=re.escape(message)):
        LineReader("text/csv", mapping)
