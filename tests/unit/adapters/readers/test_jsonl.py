"""JSON Lines in BEIR's format."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.adapters.readers.item_files import read_json_lines
from retrieval.adapters.readers.lines import InputLine
from retrieval.domain.items.item import MAX_KEY_BYTES, Item

TEXT = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cn", "Cs", "Mn", "Zl", "Zp"]))
KEY = TEXT.filter(lambda text: len(text.encode()) <= MAX_KEY_BYTES)
JSON_SCALAR = TEXT | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUE = st.recursive(
    JSON_SCALAR,
    lambda inner: st.lists(inner | st.none(), max_size=3) | st.dictionaries(KEY, inner, max_size=3),
)
ITEMS = st.builds(
    Item,
    item_id=KEY.filter(bool),
    title=TEXT,
    body=TEXT,
    kind=KEY,
    tags=st.lists(KEY, max_size=3).map(tuple),
    attributes=st.dictionaries(KEY, JSON_VALUE, max_size=4),
    status=KEY.filter(bool),
    source=KEY,
    occurred_at=st.none() | st.datetimes(timezones=st.just(UTC)),
)


def as_beir(item: Item) -> dict[str, Any]:
    """The item as BEIR's format says it."""
    return {
        "_id": item.item_id,
        "title": item.title,
        "text": item.body,
        "kind": item.kind,
        "tags": list(item.tags),
        "status": item.status,
        "source": item.source,
        "occurred_at": item.occurred_at and item.occurred_at.isoformat(),
        "metadata": dict(item.attributes),
    }


def read(tmp_path: Path, data: bytes, **options: Any) -> list[InputLine]:
    """The result of reading a file with these bytes."""
    file = tmp_path / "items.jsonl"
    file.write_bytes(data)
    return list(read_json_lines(str(file), **options))


def reason(tmp_path: Path, data: bytes) -> str:
    """The reason why the only line of a file is bad."""
    before, bad, after = read(tmp_path, b'{"_id": "a"}\n' + data + b'\n{"_id": "z"}\n', clean=False)
    assert before.item == Item(item_id="a")
    assert after.item == Item(item_id="z")
    assert bad.item is None
    assert bad.error is not None
    assert bad.error.line == bad.line == 2
    assert bad.error.file == bad.file == str(tmp_path / "items.jsonl")
    assert "\n" not in str(bad.error)
    return bad.error.reason


@given(items=st.lists(ITEMS, max_size=3), escaped=st.booleans())
def test_every_item_reads_back_as_it_was_written(items: list[Item], *, escaped: bool) -> None:
    """A file written in BEIR's format gives the same items, to the last field."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [json.dumps(as_beir(item), ensure_ascii=escaped) + "\n" for item in items]
        rows = read(Path(folder), "".join(lines).encode())

    assert items == [line.item for line in rows]
    assert [item.content_hash for item in items] == [line.item.content_hash for line in rows if line.item]
    assert [text.rstrip("\n") for text in lines] == [line.raw for line in rows]


@given(data=st.binary(max_size=200))
def test_no_bytes_stop_the_reader(data: bytes) -> None:
    """For any content, every line is an item or an error, and the next lines are read."""
    with tempfile.TemporaryDirectory() as folder:
        rows = read(Path(folder), b'{"_id": "a"}\n' + data + b'\n{"_id": "z"}')

    assert all((line.item is None) != (line.error is None) for line in rows)
    assert rows[-1].item == Item(item_id="z")


def test_blank_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    """Line numbers are those of an editor."""
    rows = read(tmp_path, b'\n  \t\r\n{"_id": "a"}\n\n{"_id": "b"}')
    assert [(line.line, line.raw) for line in rows] == [(3, '{"_id": "a"}'), (5, '{"_id": "b"}')]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{", "each line must be a whole object"),
        (b'{"_id": "b", "_id": "c"}', "the member '_id' occurs twice"),
        (b'{"_id": "b", "x": [{"y": 1, "z": 2, "y": 1}]}', "the member 'y' occurs twice"),
        (b'{"_id": "b"} x', "not JSON"),
        (b"oops", "not JSON"),
        (b"[", 'such as {"id": "1", "text": "Words"}, not a list'),
        (b"[1,2]", "each line must be an object"),
        (b'[{"_id": "b"}]', "writes a list of objects as lines"),
        (b'"text"', "not as a text"),
        (b"null", "not as null"),
        (b'{"text": "no id"}', "there are: 'text'; map the entry of the ids: --map id=NAME"),
        (b'{"_id": 1.5}', "'id' must be a text or a whole number, not 1.5"),
        (b'{"_id": "' + b"x" * 513 + b'"}', "longer than 512 bytes"),
        (b'{"_id": "b", "text": 5}', "'text' must be text"),
        (b'{"_id": "b", "text": "\x00"}', "NUL"),
        (b'{"_id": "b", "text": "\\u0000"}', "NUL"),
        (b'{"_id": "b", "text": "\xff"}', "not UTF-8"),
        (b'{"_id": "b", "text": "\\ud800"}', "surrogate"),
        (b'{"_id": "b", "x": NaN}', "NaN is not a JSON number"),
        (b'{"_id": "b", "x": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"_id": "b", "x": 1e999}', "NaN or infinite"),
        (b'{"_id": "b", "x": 1' + b"0" * 400 + b"}", "keep it as text"),
        (b'{"_id": "b", "x": ' + b"1" * 5000 + b"}", "too many digits"),
        (b'{"_id": "b", "x": ' + b"[" * 100 + b"]" * 100 + b"}", "nested"),
        (b'{"_id": "b", "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deeply"),
        (b'{"_id": "b", "event_time": "soon"}', "not a time"),
        ('{"_id": "b"}'.encode("utf-16-le"), "UTF-16"),
        (b"\x1f\x8b\x08", "packed by gzip"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_bad_line_says_why_and_stops_nothing(tmp_path: Path, data: bytes, expected: str) -> None:
    """The reason is readable, and the lines before and after are items."""
    assert expected in reason(tmp_path, data)


def test_the_raw_text_of_a_bad_line_can_be_written_anywhere(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are escaped in it."""
    (line,) = read(tmp_path, b'{"_id": "\xff"}\r\n')
    assert line.raw == r'{"_id": "\xff"}'


def test_a_reason_is_never_longer_than_a_few_lines(tmp_path: Path) -> None:
    """A huge bad value does not come back in full."""
    assert len(reason(tmp_path, b'{"_id": "' + b"x" * 100_000 + b'", "text": 5}')) < 500


def test_a_line_beyond_the_limit_is_bad_and_the_next_is_read(tmp_path: Path) -> None:
    """The limit is given in the reason."""
    long, after = read(tmp_path, b'{"_id": "b", "text": "' + b"x" * 5000 + b'"}\n{"_id": "z"}', max_line_bytes=4000)
    assert long.error is not None
    assert "longer than 4,000 bytes" in long.error.reason
    assert after.item == Item(item_id="z")
