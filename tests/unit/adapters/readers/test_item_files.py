"""Files of items, whatever their format."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path

import pytest

from retrieval.adapters.readers import read_items, size_of
from retrieval.domain.errors import ConfigurationError, InvalidRequestError
from retrieval.domain.items.item import Item

TICKETS = Path(__file__).parents[4] / "examples" / "data" / "tickets"
JSONL = b'{"_id": "1", "title": "a"}\n'
CSV = b"_id,title\n1,a\n"
ITEM = Item(item_id="1", title="a")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("items.jsonl", JSONL),
        ("items.ndjson", JSONL),
        ("items.json", JSONL),
        ("items.csv", CSV),
        ("ITEMS.CSV", CSV),
        ("v1.2.items.csv", CSV),
        ("items.jsonl.gz", gzip.compress(JSONL, mtime=0)),
        ("items.csv.gz", gzip.compress(CSV, mtime=0)),
    ],
)
def test_the_name_determines_the_format(tmp_path: Path, name: str, data: bytes) -> None:
    """The ending decides, before ``.gz`` and in any case."""
    file = tmp_path / name
    file.write_bytes(data)

    (line,) = read_items(file)

    assert line.item == ITEM
    assert line.file == str(file)
    assert line.offset == size_of(file) == len(data)


@pytest.mark.parametrize(("format_", "data"), [("jsonl", JSONL), ("csv", CSV)])
def test_a_format_that_is_given_goes_before_the_name(tmp_path: Path, format_: str, data: bytes) -> None:
    """``format`` serves files whose names say nothing, or the wrong thing."""
    file = tmp_path / "items.csv.txt"
    file.write_bytes(data)
    assert [line.item for line in read_items(str(file), format=format_)] == [ITEM]


@pytest.mark.parametrize("name", ["items", "items.txt", "items.gz", ".csv"])
def test_a_name_that_does_not_tell_the_format_is_refused(tmp_path: Path, name: str) -> None:
    """The error says what to give."""
    (tmp_path / name).write_bytes(CSV)
    with pytest.raises(ConfigurationError, match="--format jsonl or --format csv"):
        read_items(tmp_path / name)


def test_a_folder_is_refused_with_the_call_that_reads_it(tmp_path: Path) -> None:
    """A folder has no format of items."""
    with pytest.raises(ConfigurationError, match="is a folder; ingest_documents stores the documents in it"):
        read_items(tmp_path)


@pytest.mark.parametrize(
    ("columns", "record", "message"),
    [
        (None, {"id": None, "text": "a"}, "'id' is null; there are: 'text'"),
        ({"id": "key"}, {"key": None, "text": "a"}, "'key', which is mapped to 'id', is null; there are: 'text'"),
        ({"id": "key"}, {"metadata": {"key": None}}, "'key', which is mapped to 'id', is null; there are: 'metadata'"),
    ],
)
def test_an_id_that_is_null_is_not_suggested(
    tmp_path: Path, columns: dict[str, str] | None, record: dict[str, object], message: str
) -> None:
    """The message says that the entry is null, and suggests no other entry of the same name."""
    file = tmp_path / "items.jsonl"
    file.write_text(json.dumps(record))
    [line] = read_items(file, columns=columns)
    assert f"{file}:1: {message}" in str(line.error)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    """The error lists the formats."""
    with pytest.raises(ConfigurationError, match="'xml' is not known; use jsonl or csv"):
        read_items(tmp_path / "items.csv", format="xml")


def test_entries_of_json_lines_are_mapped(tmp_path: Path) -> None:
    """At the top or in the metadata; an entry with a mapped field's name becomes an attribute, and no entry is lost."""
    file = tmp_path / "items.jsonl"
    file.write_text(
        '{"key": 7, "text": "old", "metadata": {"summary": "A disk", "level": 1}}\n{"key": 8, "descr": "Full"}\n'
    )
    columns = {"_id": "key", "text": "descr", "title": "summary", "attributes.stage": "level"}

    assert [line.item for line in read_items(file, columns=columns)] == [
        Item(item_id="7", title="A disk", attributes={"text": "old", "stage": 1}),
        Item(item_id="8", body="Full"),
    ]


def test_an_entry_that_no_line_has_is_refused(tmp_path: Path) -> None:
    """A mapping that did nothing is an error, although titles make the items whole; so is an id that is not there."""
    file = tmp_path / "items.jsonl"
    file.write_text('{"id": "1", "title": "Disks", "content": "A disk"}\n{"id": "2", "metadata": {"lang": "en"}}\n')
    with pytest.raises(ConfigurationError, match=r"'descr' \(for 'text'\); there are: 'id', 'title', 'content'"):
        list(read_items(file, columns={"text": "descr"}))
    assert [line.item and line.item.kind for line in read_items(file, columns={"kind": "lang"})] == ["", "en"]
    file.write_text('{"id": "1", "content": "A disk"}\n')
    lines = read_items(file, columns={"_id": "key"})
    assert "no 'key', which is mapped to '_id'; there are: 'id', 'content'" in str(next(lines).error)


@pytest.mark.parametrize("name", ["items.jsonl", "items.csv"])
@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"txt": "title"}, "no field 'txt'; did you mean 'text'.* attributes.txt=title"),
        ({"attributes.": "title"}, "no field 'attributes.'"),
        ({"text": "title", "body": "_id"}, "'text' and 'body' are one field"),
    ],
)
def test_an_unknown_field_is_refused_before_reading(
    tmp_path: Path, name: str, columns: dict[str, str], reason: str
) -> None:
    """This applies to every format; the message lists the fields, and explains how to name an attribute."""
    file = tmp_path / name
    file.write_bytes(CSV)
    with pytest.raises(ConfigurationError, match=reason):
        read_items(file, columns=columns)


@pytest.mark.parametrize("name", ["missing.jsonl", "missing.csv"])
def test_a_file_that_cannot_be_opened_is_refused_before_reading(tmp_path: Path, name: str) -> None:
    """The call itself raises, not the first line."""
    with pytest.raises(InvalidRequestError, match="no such file"):
        read_items(tmp_path / name)
    with pytest.raises(InvalidRequestError, match="no such file"):
        size_of(tmp_path / name)


def test_missing_columns_are_refused_before_reading(tmp_path: Path) -> None:
    """The call itself raises, and names the columns that exist."""
    file = tmp_path / "items.csv"
    file.write_bytes(CSV)
    with pytest.raises(ConfigurationError, match=r"no column 'labels' .*'_id', 'title'"):
        read_items(file, columns={"tags": "labels"})


@pytest.mark.parametrize(("format_", "data"), [(None, JSONL), ("csv", CSV)])
def test_standard_input_is_json_lines_by_default(
    monkeypatch: pytest.MonkeyPatch, format_: str | None, data: bytes
) -> None:
    """``-`` needs no format for JSON Lines, and has no size."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert size_of("-") is None
    assert [line.item for line in read_items("-", format=format_)] == [ITEM]


def test_a_pipe_has_no_size_and_is_read_once(tmp_path: Path) -> None:
    """A named pipe is not opened just to be looked at."""
    pipe = tmp_path / "items.csv"
    os.mkfifo(pipe)
    assert size_of(pipe) is None
    writer = threading.Thread(target=pipe.write_bytes, args=(CSV,))
    writer.start()
    try:
        assert [line.item for line in read_items(pipe)] == [ITEM]
    finally:
        writer.join()


def test_the_sample_corpus_reads_without_a_bad_line() -> None:
    """Every ticket that ships with the examples is an item with a time."""
    lines = list(read_items(TICKETS / "corpus.jsonl.gz"))

    assert [line.error for line in lines if line.error] == []
    assert len({line.item.item_id for line in lines if line.item}) == 598
    assert all(line.item.occurred_at for line in lines if line.item)


def test_the_sample_table_reads_through_a_mapping() -> None:
    """The CSV file that ships with the examples shows the mapping."""
    columns = {"_id": "ticket_id", "title": "summary", "text": "description", "tags": "labels"}
    items = [line.item for line in read_items(TICKETS / "tickets.csv", columns=columns)]

    assert len(items) == 20
    for item in items:
        assert item is not None
        assert item.title
        assert item.body
        assert item.tags
        assert item.attributes.keys() == {"priority", "resolution_hours"}
        assert isinstance(item.attributes["resolution_hours"], float)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("items.jsonl", b'{"id": "1", "title": "a", "embedding": [0.1, 2]}\n'),
        ("items.csv", b'id,title,embedding\n1,a,"[0.1, 2]"\n'),
    ],
)
def test_a_vector_is_refused_unless_it_is_mapped(tmp_path: Path, name: str, data: bytes) -> None:
    """The message names the mapping that keeps it as data."""
    file = tmp_path / name
    file.write_bytes(data)

    [refused] = read_items(file)
    assert "'embedding' holds a vector" in str(refused.error)
    assert "--map attributes.embedding=embedding" in str(refused.error)
    [line] = read_items(file, columns={"attributes.embedding": "embedding"})
    assert line.item is not None
    assert list(line.item.attributes) == ["embedding"]


def test_cleaning_merges_neither_items_nor_attributes(tmp_path: Path) -> None:
    """Such a line is a bad line: cleaned, it would replace another item, or lose a value."""
    rows = [
        {"id": "a", "text": "one"},
        {"id": "a\u00ad", "text": "two"},
        {"id": "b", "text": "three", "k": 1, "k\u00ad": 2},
    ]
    (tmp_path / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    good, with_bad_id, with_bad_name = read_items(tmp_path / "notes.jsonl")
    assert good.item is not None
    assert "id holds U+00AD SOFT HYPHEN at character 2" in str(with_bad_id.error)
    assert r"cleaned, attribute 'k\xad' has the name of another" in str(with_bad_name.error)
