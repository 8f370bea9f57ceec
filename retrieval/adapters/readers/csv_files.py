"""CSV files with a header: the plan that maps columns to fields and attributes, and the records of the rows."""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from retrieval.adapters.readers.lines import (
    MAX_LINE_BYTES,
    InputLine,
    Line,
    decoded,
    line_read,
    read_lines,
    too_long_reason,
)
from retrieval.adapters.readers.records import FIELD_NAMES, check_no_vector, item_from_fields, target_of
from retrieval.domain.checks import choices_hint, parse_value
from retrieval.domain.errors import Advice, ConfigurationError, InvalidItemError
from retrieval.domain.items.item import Item
from retrieval.domain.wording import several


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The positions of an item's parts in a row, counted from 0, by field and by attribute."""

    width: int
    """The number of columns in the header."""
    fields: Mapping[str, tuple[int, ...]]
    attributes: Mapping[str, tuple[int, ...]]
    texts: frozenset[str] = frozenset()
    """Attributes that are always texts, without surrounding space, even if they look like numbers."""
    mapped: frozenset[str] = frozenset()
    """Attributes that the caller has named, so that a vector there is meant to be data."""

    def item(self, row: Sequence[str], *, clean: bool = False) -> Item:
        """The item of a row (``clean``: see ``item_from_record``); a row that is too short lacks its last columns.

        Raises ``InvalidItemError``, also for a row with more fields than the header, or with different values in the
        columns of one field.
        """
        if len(row) > self.width:
            raise InvalidItemError(
                f"{len(row)} fields, but the header has {self.width}; a text that holds the separator needs quotes"
            )
        fields: dict[str, Any] = {}
        for name, positions in self.fields.items():
            values = _nonblank(row, positions)
            if name == "tags":
                fields[name] = [tag for value in values for tag in parse_tags(value)]
            elif values:
                if len({value.strip() for value in values}) > 1:
                    raise InvalidItemError(
                        f"the header names the column of {name!r} {len(positions)} times, and this row has "
                        f"{values[0]!r:.40} and {values[1]!r:.40}; keep one, or rename a column"
                    )
                fields[name] = values[0].strip() if name == "occurred_at" else values[0]
        attributes = self._attributes(row)
        unmapped = {name: value for name, value in attributes.items() if name not in self.mapped}
        check_no_vector(unmapped, str(fields.get("item_id", "")))
        return item_from_fields(fields, attributes, clean=clean)

    def _attributes(self, row: Sequence[str]) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        for name, positions in self.attributes.items():
            is_text = name in self.texts
            values = [value.strip() if is_text else parse_value(value) for value in _nonblank(row, positions)]
            if values:
                attributes[name] = values if len(positions) > 1 else values[0]
        return attributes


def plan_columns(
    file: str,
    header: Sequence[str],
    columns: Mapping[str, str] | None = None,
    texts: Collection[str] = (),
) -> ColumnPlan:
    """The plan for a header; ``columns`` maps an item's field, or an attribute as ``attributes.name``, to a column.

    A column that is not mapped is the field of its own name (see ``FIELD_NAMES``) unless that field is mapped to
    another column; every other column is an attribute of its own name, and a column without a name is left out. If the
    header repeats a column, a field takes the one value that is not empty, tags take all values, and an attribute is
    the list of values. ``texts`` names attributes that are never numbers.

    Raises ``ConfigurationError`` for a mapped column that is missing, an unknown field, two columns for one field or
    attribute, and when no column holds the id.
    """
    draft = _Draft(file, [name.strip() for name in header])
    for target, column in (columns or {}).items():
        draft.take(target, column)
    mapped = frozenset(draft.attributes)
    for field_name, names in FIELD_NAMES.items():
        own = [name for name in names if name in draft.unmapped]
        if own and field_name not in draft.fields:
            draft.take(own[0], own[0])
    for name in list(draft.unmapped):
        draft.take_attribute(name, name)
    if "item_id" not in draft.fields:
        raise ConfigurationError(f"{file}: no column 'id'; {draft.columns('id')}").advising(Advice.MAP_ID)
    return ColumnPlan(len(header), draft.fields, draft.attributes, frozenset(texts), mapped)


class _Draft:
    """An unfinished plan, and the columns that it does not map yet."""

    def __init__(self, file: str, names: Sequence[str]) -> None:
        self._file = file
        self._names = names
        self.unmapped = dict.fromkeys(name for name in names if name)
        self.fields: dict[str, tuple[int, ...]] = {}
        self.attributes: dict[str, tuple[int, ...]] = {}

    def columns(self, column: str) -> str:
        """The columns that exist, and which one is near; see ``choices_hint``."""
        return choices_hint(column, self._names, are_quoted=True)

    def take(self, target: str, column: str) -> None:
        """Map the column to the field or the attribute that ``target`` names."""
        field, name = target_of(target, column)
        if field is None:
            self.take_attribute(name, column)
        elif field in self.fields:
            raise ConfigurationError(f"{self._file}: two columns are mapped to the field {field!r}; map one")
        else:
            self.fields[field] = self._positions(target, column)

    def take_attribute(self, name: str, column: str) -> None:
        if name in self.attributes:
            raise ConfigurationError(
                f"{self._file}: two columns would be the attribute {name!r}; map {column!r} to another name"
            )
        self.attributes[name] = self._positions(name, column)

    def _positions(self, target: str, column: str) -> tuple[int, ...]:
        positions = tuple(at for at, name in enumerate(self._names) if name == column)
        if not positions:
            raise ConfigurationError(f"{self._file}: no column {column!r} (for {target!r}); {self.columns(column)}")
        self.unmapped.pop(column, None)
        return positions


def _nonblank(row: Sequence[str], positions: tuple[int, ...]) -> list[str]:
    return [row[at] for at in positions if at < len(row) and row[at].strip()]


def parse_tags(value: str) -> list[Any]:
    """The tags of a JSON or Python list, or of a text separated by semicolons or, without a semicolon, by commas."""
    text = value.strip()
    if text.startswith("["):
        try:
            return list(json.loads(text))
        except (ValueError, RecursionError):
            if (values := _python_list(text)) is not None:
                return values
    separator = ";" if ";" in text else ","
    return [tag.strip() for tag in text.split(separator) if tag.strip()]


def _python_list(text: str) -> list[Any] | None:
    """Parse a list as pandas writes it, such as ``['a', 'b']``; None for other text, or a text with a backslash."""
    try:
        value = ast.literal_eval(text) if "\\" not in text else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list) else None


_HEADER_AGAIN = "the header is repeated here, as in concatenated files; remove the line"


def read_csv_rows(
    file: str,
    *,
    columns: Mapping[str, str] | None = None,
    texts: Collection[str] = (),
    max_line_bytes: int = MAX_LINE_BYTES,
    header: Callable[[str], None] | None = None,
    clean: bool = True,
) -> Iterator[InputLine]:
    """Every record that is not completely empty, as an item or an error.

    Fields are separated by commas or, if the header has none, by semicolons, tabs or vertical bars. A record that
    repeats the header, as in concatenated files, is an error. ``header`` is called with the raw header, without its
    line end, before the first record. ``clean``: see ``read_items``. Raises ``ConfigurationError`` if the header does
    not fit ``columns`` (see ``plan_columns``), and the errors of ``read_lines``.
    """
    records = _records(file, max_line_bytes)
    first = _header(file, records)
    plan = plan_columns(file, first.values, columns, texts)
    if header is not None:
        header(first.raw.rstrip("\r\n"))
    for record in records:
        if _names(record) == _names(first):
            record.fault = record.fault or _HEADER_AGAIN
        make = partial(plan.item, record.values)
        yield line_read(file, record.start, record.raw, record.fault, make, clean=clean)


class CsvRecords:
    """Makes items from records that arrive one by one, the header first; ``columns``: see ``plan_columns``."""

    def __init__(self, name: str, columns: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._columns = columns
        self._delimiter = ""
        self._is_open = False
        self._plan: ColumnPlan | None = None

    def goes_on(self, line: bytes) -> bool:
        """Whether the record continues after this line, because a quote is open; called with each line in order."""
        self._delimiter = self._delimiter or _delimiter(line)
        if self._is_open or b'"' in line:
            # The parser sees only this line: it needs the quote that an earlier line opened.
            before = '"' if self._is_open else ""
            self._is_open = False
            with suppress(InvalidItemError):  # reading the complete record raises it
                self._is_open = self._values(before + line.decode(errors="replace")) is None
        return self._is_open

    def begin(self, header: str) -> None:
        """Read the header. Raises ``InvalidItemError`` if it is not CSV, and the errors of ``plan_columns``."""
        self._delimiter = self._delimiter or _delimiter(header.encode())
        self._plan = plan_columns(self._name, self._complete_values(header), self._columns)

    def read(self, text: str) -> Item:
        """The item of a record after the header. Raises ``InvalidItemError`` for a record without a valid item."""
        assert self._plan is not None  # noqa: S101 - the header came first
        return self._plan.item(self._complete_values(text))

    def _complete_values(self, text: str) -> list[str]:
        values = self._values(text)
        if values is None:
            raise InvalidItemError(_open_quote_reason(_Record(texts=text.splitlines())))
        return values

    def _values(self, text: str) -> list[str] | None:
        """The fields; None: a quote is open at the end. Raises ``InvalidItemError`` if the text is not CSV."""
        csv.field_size_limit(max(csv.field_size_limit(), len(text)))
        try:
            return next(csv.reader([text.rstrip("\r")], strict=True, delimiter=self._delimiter))
        except csv.Error as error:
            if _ENDS_OPEN in str(error):
                return None
            raise InvalidItemError(_reason(error, _Record(texts=[text]))) from None


_ENDS_OPEN = "unexpected end of data"


def _names(record: _Record) -> list[str]:
    """The values as column names, without the byte order mark with which a concatenated file may begin."""
    return [value.removeprefix("\ufeff").strip() for value in record.values]


def check_header(file: str, columns: Mapping[str, str] | None = None) -> None:
    """Read only the header. Raises the errors of ``read_csv_rows``."""
    plan_columns(file, read_header(file), columns)


def read_header(file: str) -> list[str]:
    """The names of the columns. Raises ``ConfigurationError`` if there are none, and the errors of ``read_lines``."""
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
    """The lines of one record and their values."""

    start: Line = _NOWHERE
    """Its first line, with the offset at which its last line ends."""
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
    # The parser's own limit, initially 128 KiB, is one for the whole process; it is never lowered.
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
    """The separator of the header: a comma if there is one, else the first that occurs."""
    return next((delimiter for delimiter in _DELIMITERS if delimiter.encode() in header), ",")


def _fill(record: _Record, rows: Any, max_bytes: int) -> bool:
    """Parse the next row into the record; False at the end of the file."""
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
    return f"{_open_quote_reason(record)} and {max_bytes:,} bytes" if several else too_long_reason(max_bytes)


def _reason(error: csv.Error, record: _Record) -> str:
    if _ENDS_OPEN in str(error):
        return _open_quote_reason(record)
    if "new-line character" in str(error):
        return "a carriage return outside quotes; end lines with a newline, or put quotes around the text"
    return f"not CSV: {error}"


def _open_quote_reason(record: _Record) -> str:
    return f"a quote that opens here is still open after {several(len(record.texts), 'line')}"
