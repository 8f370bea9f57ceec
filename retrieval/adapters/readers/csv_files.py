"""CSV files with a header: the plan that maps columns to fields and attributes, and the records of the rows."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from retrieval.adapters.readers import lines
from retrieval.adapters.readers.records import (
    ATTRIBUTE_PREFIX,
    FIELD_NAMES,
    check_no_vector,
    item_from_fields,
    target_of,
)
from retrieval.domain.checks import choices_hint, parse_value, written
from retrieval.domain.errors import Advice, ConfigurationError, InvalidItemError
from retrieval.domain.items.item import Item
from retrieval.domain.wording import several

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The positions of an item's parts in a row, counted from 0, by field and by attribute."""

    width: int
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
                        f"{written(values[0], 40)} and {written(values[1], 40)}; keep one, or rename a column"
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
    file: str, header: Sequence[str], columns: Mapping[str, str] | None = None, texts: Collection[str] = ()
) -> ColumnPlan:
    """The plan for a header; ``columns`` maps an item's field, or an attribute as ``attributes.name``, to a column.

    A column that is not mapped is the field of its own name (see ``FIELD_NAMES``) unless that field is mapped, else an
    attribute of its own name; a column without a name is left out. If the header repeats a column, a field takes the
    one value that is not empty, tags take all values, and an attribute is the list of values. ``texts`` names
    attributes that are never numbers. Raises ``ConfigurationError`` for columns that do not fit, and when no column
    holds the id.
    """
    names = [name.strip() for name in header]
    unmapped = dict.fromkeys(name for name in names if name)
    fields: dict[str, tuple[int, ...]] = {}
    attributes: dict[str, tuple[int, ...]] = {}

    def take(target: str, column: str) -> None:
        """Map the column to the field or the attribute that ``target`` names."""
        field, attribute = target_of(target, column)
        into, name = (attributes, attribute) if field is None else (fields, field)
        if name in into:
            what = "attribute" if field is None else "field"
            raise ConfigurationError(f"{file}: two columns would be the {what} {name!r}; map {column!r} to another")
        into[name] = tuple(at for at, other in enumerate(names) if other == column)
        if not into[name]:
            there = choices_hint(column, names, are_quoted=True)
            raise ConfigurationError(f"{file}: no column {column!r} (for {target!r}); {there}")
        unmapped.pop(column, None)

    for target, column in (columns or {}).items():
        take(target, column)
    mapped = frozenset(attributes)
    for field_name, other_names in FIELD_NAMES.items():
        own = [name for name in other_names if name in unmapped]
        if own and field_name not in fields:
            take(own[0], own[0])
    for name in list(unmapped):
        take(f"{ATTRIBUTE_PREFIX}{name}", name)
    if "item_id" not in fields:
        there = choices_hint("id", names, are_quoted=True)
        raise ConfigurationError(f"{file}: no column 'id'; {there}").advising(Advice.MAP_ID)
    return ColumnPlan(len(header), fields, attributes, frozenset(texts), mapped)


def _nonblank(row: Sequence[str], positions: tuple[int, ...]) -> list[str]:
    return [row[at] for at in positions if at < len(row) and row[at].strip()]


def parse_tags(value: str) -> list[Any]:
    """The tags of a JSON or Python list, or of a text separated by semicolons or, without a semicolon, by commas."""
    text = value.strip()
    if text.startswith("["):
        with suppress(ValueError, RecursionError):
            return list(json.loads(text))
    if text.startswith("[") and text.endswith("]") and "\\" not in text:  # as pandas writes it: ['a', 'b']
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return list(ast.literal_eval(text))
    separator = ";" if ";" in text else ","
    return [tag.strip() for tag in text.split(separator) if tag.strip()]


def read_csv_rows(
    file: str,
    *,
    columns: Mapping[str, str] | None = None,
    texts: Collection[str] = (),
    max_line_bytes: int = lines.MAX_LINE_BYTES,
    header: Callable[[str], None] | None = None,
    clean: bool = True,
) -> Iterator[lines.InputLine]:
    """Every record that is not completely empty, as an item or an error.

    Fields are separated by commas, semicolons, tabs or vertical bars: by what the header has most. ``header`` is
    called with the raw header before the first record. ``clean``: see ``read_items``. Raises ``ConfigurationError`` if
    the header does not fit ``columns`` (see ``plan_columns``), and the errors of ``read_lines``.
    """
    records = CsvRecords(file, columns, texts)
    rows = _rows(file, records, max_line_bytes)
    first = _header(file, rows)
    _in_header(file, lambda: records.begin(first))
    if header is not None:
        header(first.rstrip("\r\n"))
    for row in rows:
        yield lines.line_read(file, row.line, row.text, row.fault, partial(records.read, row.text), clean=clean)


class CsvRecords:
    """Makes items from records that arrive one by one, the header first; see ``plan_columns``."""

    def __init__(self, name: str, columns: Mapping[str, str] | None = None, texts: Collection[str] = ()) -> None:
        self._name, self._columns, self._texts = name, columns, texts
        self._delimiter = ""
        self._is_open = False
        self._header: list[str] = []
        self._plan: ColumnPlan | None = None
        # The parser's own limit, initially 128 KiB, is one for the whole process; it is never lowered.
        csv.field_size_limit(max(csv.field_size_limit(), lines.MAX_LINE_BYTES))

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

    def end_record(self) -> None:
        """Let the next line begin a record, although a quote is open."""
        self._is_open = False

    def is_blank(self, text: str) -> bool:
        """Whether a record has no value, or names the separator; one with an open quote may have lost its values."""
        if not self._header and names_separator(text):
            return True
        return not text.strip(f'{self._delimiter}" \t\r\n') and text.count('"') % 2 == 0

    def values(self, text: str) -> list[str]:
        """The fields of a complete record. Raises ``InvalidItemError`` if the text is not CSV."""
        self._delimiter = self._delimiter or _delimiter(text.encode())
        values = self._values(text)
        if values is None:
            raise InvalidItemError(_open_quote(text))
        return values

    def begin(self, header: str) -> None:
        """Read the header. Raises ``InvalidItemError`` if it is not CSV, and the errors of ``plan_columns``."""
        self._header = _names(self.values(header))
        self._plan = plan_columns(self._name, self._header, self._columns, self._texts)

    def read(self, text: str, *, clean: bool = False) -> Item:
        """The item of a record after the header. Raises ``InvalidItemError`` for a record without a valid item."""
        assert self._plan is not None  # noqa: S101 - the header came first
        values = self.values(text)
        if _names(values) == self._header:
            raise InvalidItemError("the header is repeated here, as in concatenated files; remove the line")
        return self._plan.item(values, clean=clean)

    def _values(self, text: str) -> list[str] | None:
        """The fields; None: a quote is open at the end. Raises ``InvalidItemError`` if the text is not CSV."""
        try:
            return next(csv.reader([text.rstrip("\r")], strict=True, delimiter=self._delimiter))
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                return None
            if "new-line character" in str(error):
                raise InvalidItemError(
                    "a carriage return outside quotes; end lines with a newline, or put quotes around the text"
                ) from None
            raise InvalidItemError(f"not CSV: {error}") from None


def _names(values: Sequence[str]) -> list[str]:
    """The values as column names, without the byte order mark with which a concatenated file may begin."""
    return [value.removeprefix("\ufeff").strip() for value in values]


def names_separator(line: str) -> bool:
    """Whether the line is ``sep=;`` or alike, which spreadsheet programs write before the header."""
    return re.fullmatch(r"sep=[,;\t|]\s*", line) is not None


def _delimiter(line: bytes) -> str:
    """The separator of the first line: outside quotes the most frequent one, and of equally frequent ones the first."""
    outside = re.sub(rb'"[^"]*"', b"", line).decode(errors="replace")
    return max(",;\t|", key=outside.count)


def _open_quote(text: str) -> str:
    number = text.count("\n") + (not text.endswith("\n"))
    return f"a quote that opens here is still open after {several(number, 'line')}"


def read_header(file: str) -> list[str]:
    """The names of the columns. Raises ``ConfigurationError`` if there are none, and the errors of ``read_lines``."""
    records = CsvRecords(file)
    header = _header(file, _rows(file, records, lines.MAX_LINE_BYTES))
    return _in_header(file, lambda: records.values(header))


class _Row(NamedTuple):
    line: lines.Line
    """Its first line, with the offset at which its last line ends."""
    text: str
    fault: str | None


def _header(file: str, rows: Iterator[_Row]) -> str:
    header = next(rows, None)
    if header is None:
        raise ConfigurationError(f"{file}: is empty; a CSV file starts with a line of column names")
    if header.fault:
        raise ConfigurationError(f"{file}: the header cannot be read: {header.fault}")
    return header.text


def _in_header(file: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except InvalidItemError as error:
        raise ConfigurationError(f"{file}: the header cannot be read: {error}") from None


def _rows(file: str, records: CsvRecords, max_bytes: int) -> Iterator[_Row]:
    """The records that are not blank."""
    parts: list[str] = []
    row: _Row | None = None
    size = 0
    for line in lines.read_lines(file, max_line_bytes=max_bytes):
        text, fault = lines.decoded(line.data)
        first = line if row is None else row.line
        row = _Row(first._replace(data=b"", offset=line.offset), "", (row and row.fault) or fault)
        parts.append(text)
        size += len(line.data)
        if line.too_long or size > max_bytes:
            fault = f"{_open_quote(''.join(parts))} and {max_bytes:,} bytes" if len(parts) > 1 else None
            row = row._replace(fault=fault or lines.too_long_reason(max_bytes))
            records.end_record()
        elif records.goes_on(line.data):
            continue
        yield from _complete(row, parts, records)
        parts, row, size = [], None, 0
    if row is not None:
        yield from _complete(row, parts, records)


def _complete(row: _Row, parts: Sequence[str], records: CsvRecords) -> Iterator[_Row]:
    text = "".join(parts)
    if row.fault or not records.is_blank(text):
        yield row._replace(text=text)
