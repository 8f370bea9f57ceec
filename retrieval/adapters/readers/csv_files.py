"""CSV files with a header: the plan that maps columns to fields and attributes, and the records of the rows."""

from __future__ import annotations

import ast
import csv
import json
import math
import re
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
    bad_line,
    decoded,
    good_line,
    read_lines,
    too_long_reason,
)
from retrieval.adapters.readers.records import (
    FIELD_NAMES,
    item_as_it_is_or_cleaned,
    item_from_fields,
    target_of,
)
from retrieval.domain.checks import choices_hint
from retrieval.domain.errors import Advice, ConfigurationError, InvalidItemError
from retrieval.domain.items.item import Item

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 300


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The positions of an item's parts in a row, counted from 0, by field and by attribute."""

    width: int
    """The number of columns in the header."""
    fields: Mapping[str, tuple[int, ...]]
    attributes: Mapping[str, tuple[int, ...]]
    texts: frozenset[str] = frozenset()
    """Attributes that are texts, whatever they look like; without space around them."""

    def item(self, row: Sequence[str], *, clean: bool = False) -> Item:
        """The item of a row (``clean``: see ``item_from_record``); a row that is too short lacks its last columns.

        Raises ``InvalidItemError``, also for a row with more fields than the header, and for one that says two things
        in the columns of one field.
        """
        if len(row) > self.width:
            raise InvalidItemError(
                f"{len(row)} fields, but the header has {self.width}; a text that holds a comma needs quotes"
            )
        fields: dict[str, Any] = {}
        for name, positions in self.fields.items():
            filled = _filled(row, positions)
            if name == "tags":
                fields[name] = [tag for value in filled for tag in written_tags(value)]
            elif filled:
                if len({value.strip() for value in filled}) > 1:
                    raise InvalidItemError(
                        f"the header names the column of {name!r} {len(positions)} times, and this row says "
                        f"{filled[0]!r:.40} and {filled[1]!r:.40}; keep one, or give the columns names of their own"
                    )
                fields[name] = filled[0].strip() if name == "occurred_at" else filled[0]
        return item_from_fields(fields, self._attributes(row), clean=clean)

    def _attributes(self, row: Sequence[str]) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        for name, positions in self.attributes.items():
            is_text = name in self.texts
            filled = [value.strip() if is_text else written_value(value) for value in _filled(row, positions)]
            if filled:
                attributes[name] = filled if len(positions) > 1 else filled[0]
        return attributes


def plan_columns(
    file: str,
    header: Sequence[str],
    columns: Mapping[str, str] | None = None,
    texts: Collection[str] = (),
) -> ColumnPlan:
    """The plan for a header; ``columns`` maps an item's field, or an attribute as ``attributes.name``, to a column.

    A column that is not mapped is the field of its own name (as ``FIELD_NAMES`` has them) unless that field
    is mapped elsewhere; every other column is an attribute of its own name, and one without a name is left
    out. Of a column that the header repeats, a field takes the one value that is not empty, tags take all,
    and an attribute is the list of them. ``texts`` names attributes that are never numbers.

    Raises ``ConfigurationError`` for a mapped column that is missing, for what is no field, for a field or an attribute
    that two columns would be, and when no column holds the id.
    """
    draft = _Draft(file, [name.strip() for name in header])
    for target, column in (columns or {}).items():
        draft.take(target, column)
    for field_name, names in FIELD_NAMES.items():
        own = [name for name in names if name in draft.left]
        if own and field_name not in draft.fields:
            draft.take(own[0], own[0])
    for name in list(draft.left):
        draft.take_attribute(name, name)
    if "item_id" not in draft.fields:
        raise ConfigurationError(f"{file}: no column 'id'; {draft.told('id')}").advising(Advice.MAP_ID)
    return ColumnPlan(len(header), draft.fields, draft.attributes, frozenset(texts))


class _Draft:
    """A plan in the making, and the columns that are left."""

    def __init__(self, file: str, names: Sequence[str]) -> None:
        self._file = file
        self._names = names
        self.left = dict.fromkeys(name for name in names if name)
        self.fields: dict[str, tuple[int, ...]] = {}
        self.attributes: dict[str, tuple[int, ...]] = {}

    def told(self, column: str) -> str:
        """The columns that exist, and which one is near; see ``choices_hint``."""
        return choices_hint(column, self._names, are_quoted=True)

    def take(self, target: str, column: str) -> None:
        """Makes the column the field of that name, or else an attribute."""
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
            raise ConfigurationError(f"{self._file}: no column {column!r} (for {target!r}); {self.told(column)}")
        self.left.pop(column, None)
        return positions


def _filled(row: Sequence[str], positions: tuple[int, ...]) -> list[str]:
    return [row[at] for at in positions if at < len(row) and row[at].strip()]


def written_tags(value: str) -> list[Any]:
    """A list as JSON or Python writes it, or texts between semicolons, or, without any semicolon, between commas."""
    text = value.strip()
    if text.startswith("["):
        try:
            return list(json.loads(text))
        except (ValueError, RecursionError):
            if (written := _python_list(text)) is not None:
                return written
    separator = ";" if ";" in text else ","
    return [tag.strip() for tag in text.split(separator) if tag.strip()]


def _python_list(text: str) -> list[Any] | None:
    """Parse a list as pandas writes it, such as ``['a', 'b']``; None for other text, and where there is a backslash."""
    try:
        found = ast.literal_eval(text) if "\\" not in text else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return found if isinstance(found, list) else None


def written_value(value: str) -> str | int | float | bool:
    """``true`` and ``false`` as booleans, what JSON calls a number as a number, anything else as it is."""
    text = value.strip()
    if text in ("true", "false"):
        return text == "true"
    match = _JSON_NUMBER.fullmatch(text) if len(text) <= _LONGEST_NUMBER else None
    if match is None:
        return value
    if match[1] is None and match[2] is None:
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else value


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


class CsvRecords:
    """Makes items of records that come one by one, the header first; ``columns``: see ``plan_columns``."""

    def __init__(self, name: str, columns: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._columns = columns
        self._delimiter = ""
        self._is_open = False
        self._plan: ColumnPlan | None = None

    def goes_on(self, line: bytes) -> bool:
        """Whether the record goes on behind the next line: a quote is open. The lines come one by one."""
        self._delimiter = self._delimiter or _delimiter(line)
        if self._is_open or b'"' in line:
            # Put the quote that an earlier line opened before the rest of the text.
            before = '"' if self._is_open else ""
            self._is_open = False
            with suppress(InvalidItemError):  # which the record's item tells
                self._is_open = self._values(before + line.decode(errors="replace")) is None
        return self._is_open

    def begin(self, header: str) -> None:
        """Take the header. Raises ``InvalidItemError`` for what is no CSV, and ``ConfigurationError`` as the plan."""
        self._delimiter = self._delimiter or _delimiter(header.encode())
        self._plan = plan_columns(self._name, self._whole(header), self._columns)

    def read(self, text: str) -> Item:
        """The item of a record after the header. Raises ``InvalidItemError`` for a record that holds no item."""
        assert self._plan is not None  # noqa: S101 - the header came first
        return self._plan.item(self._whole(text))

    def _whole(self, text: str) -> list[str]:
        values = self._values(text)
        if values is None:
            raise InvalidItemError(_unclosed(_Record(texts=text.splitlines())))
        return values

    def _values(self, text: str) -> list[str] | None:
        """The fields; None: a quote is open at the end. Raises ``InvalidItemError`` for what is no CSV."""
        csv.field_size_limit(max(csv.field_size_limit(), len(text)))
        try:
            return next(csv.reader([text.rstrip("\r")], strict=True, delimiter=self._delimiter))
        except csv.Error as error:
            if _ENDS_OPEN in str(error):
                return None
            raise InvalidItemError(_reason(error, _Record(texts=[text]))) from None


_ENDS_OPEN = "unexpected end of data"


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
    """The lines of one record and their values."""

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
    return next((delimiter for delimiter in _DELIMITERS if delimiter.encode() in header), ",")


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
    if _ENDS_OPEN in str(error):
        return _unclosed(record)
    if "new-line character" in str(error):
        return "a carriage return outside quotes; end lines with a newline, or put quotes around the text"
    return f"not CSV: {error}"


def _unclosed(record: _Record) -> str:
    return f"a quote that opens here is still open after {len(record.texts)} lines"
