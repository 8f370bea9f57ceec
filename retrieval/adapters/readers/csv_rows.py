"""CSV with a header: one record an item, its fields found by a column plan."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from retrieval.adapters.readers.csv_columns import plan_columns
from retrieval.adapters.readers.lines import (
    MAX_LINE_BYTES,
    InputLine,
    Line,
    bad_line,
    decoded,
    good_line,
    read_lines,
    too_long_reason,
)
from retrieval.adapters.readers.records import item_as_it_is_or_cleaned
from retrieval.domain.errors import ConfigurationError, InvalidItemError

_HEADER_AGAIN = "the header stands here again, as where files were put one behind the other; remove the line"


def read_csv_rows(
    file: str,
    *,
    columns: Mapping[str, str] | None = None,
    texts: Collection[str] = (),
    max_line_bytes: int = MAX_LINE_BYTES,
    header: Callable[[str], None] | None = None,
    clean: bool = True,
) -> Iterator[InputLine]:
    """Every record that is not empty throughout, as an item or an error.

    Fields are separated by commas, or where the header has none, by semicolons, tabs or vertical bars.
    A record that is the header again, as where files were put one behind the other, is an error.
    ``header`` is called with the header as it stands in the file, without its line end, before the first
    record. ``clean``: see ``read_items``. Raises ``ConfigurationError`` when the header does not fit ``columns``
    (see ``plan_columns``), and what ``read_lines`` raises.
    """
    records = _records(file, max_line_bytes)
    first = _header(file, records)
    plan = plan_columns(file, first.values, columns, texts)
    if header is not None:
        header(first.raw.rstrip("\r\n"))
    for record in records:
        if _names(record) == _names(first):
            record.fault = record.fault or _HEADER_AGAIN
        if record.fault:
            yield bad_line(file, record.start, record.raw, record.fault)
            continue
        try:
            item, is_cleaned = item_as_it_is_or_cleaned(partial(plan.item, record.values), clean=clean)
        except InvalidItemError as error:
            yield bad_line(file, record.start, record.raw, str(error))
        else:
            yield good_line(file, record.start, record.raw, item, is_cleaned=is_cleaned)


def _names(record: _Record) -> list[str]:
    """The values as names of columns, without a byte order mark, which a concatenated file may begin with."""
    return [value.removeprefix("\ufeff").strip() for value in record.values]


def check_header(file: str, columns: Mapping[str, str] | None = None) -> None:
    """Reads the header alone. Raises what ``read_csv_rows`` raises."""
    plan_columns(file, read_header(file), columns)


def read_header(file: str) -> list[str]:
    """The names of the columns. Raises ``ConfigurationError`` where there are none, and what ``read_lines`` raises."""
    return _header(file, _records(file, MAX_LINE_BYTES)).values


def _header(file: str, records: Iterator[_Record]) -> _Record:
    header = next(records, None)
    if header is None:
        raise ConfigurationError(f"{file}: is empty; a CSV file starts with a line of column names")
    if header.fault:
        raise ConfigurationError(f"{file}: the header cannot be read: {header.fault}")
    return header


_DELIMITERS = (",", ";", "\t", "|")

_NOWHERE = Line(0, b"", too_long=False, offset=0)


@dataclass(slots=True)
class _Record:
    """The lines of one record and what they say."""

    start: Line = _NOWHERE
    """Its first line, with the offset of where its last one ends."""
    texts: list[str] = field(default_factory=list)
    size: int = 0
    values: list[str] = field(default_factory=list)
    fault: str | None = None

    @property
    def raw(self) -> str:
        return "".join(self.texts)

    @property
    def blank(self) -> bool:
        return not self.fault and not any(value.strip() for value in self.values)

    def add(self, line: Line) -> str:
        text, fault = decoded(line.data)
        self.start = (line if self.start is _NOWHERE else self.start)._replace(data=b"", offset=line.offset)
        self.texts.append(text)
        self.size += len(line.data)
        self.fault = self.fault or fault
        return text


class _TooLongError(Exception):
    """The record in progress has reached the limit."""


class _Feed:
    """Gives the lines to the CSV parser and keeps those of the record in progress."""

    def __init__(self, lines: Iterator[Line], max_bytes: int) -> None:
        self._lines = lines
        self._max_bytes = max_bytes
        self.record = _Record()

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        text = self.record.add(line)
        if line.too_long or self.record.size > self._max_bytes:
            raise _TooLongError
        return text


def _records(file: str, max_bytes: int) -> Iterator[_Record]:
    # The parser's own limit is one for the whole process and 128 KiB at first; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), max_bytes))
    lines = read_lines(file, max_line_bytes=max_bytes)
    first = next(lines, None)
    feed = _Feed(chain([] if first is None else [first], lines), max_bytes)
    rows = csv.reader(feed, strict=True, delimiter=_delimiter(b"" if first is None else first.data))
    while True:
        record = feed.record = _Record()
        more = _fill(record, rows, max_bytes)
        if not record.blank:
            yield record
        if not more:
            return


def _delimiter(header: bytes) -> str:
    """The separator of the columns' names: a comma, unless there is none."""
    return next((one for one in _DELIMITERS if one.encode() in header), ",")


def _fill(record: _Record, rows: Any, max_bytes: int) -> bool:
    """Parses the next record into this one; False at the end of the file."""
    try:
        record.values = next(rows)
    except StopIteration:
        return False
    except _TooLongError:
        record.fault = _too_long(record, max_bytes)
    except csv.Error as error:
        record.fault = record.fault or _reason(error, record)
    return True


def _too_long(record: _Record, max_bytes: int) -> str:
    several = len(record.texts) > 1
    return f"{_unclosed(record)} and {max_bytes:,} bytes" if several else too_long_reason(max_bytes)


def _reason(error: csv.Error, record: _Record) -> str:
    if "unexpected end of data" in str(error):
        return _unclosed(record)
    if "new-line character" in str(error):
        return "a carriage return outside quotes; end lines with a newline, or put quotes around the text"
    return f"not CSV: {error}"


def _unclosed(record: _Record) -> str:
    return f"a quote that opens here is still open after {len(record.texts)} lines"
