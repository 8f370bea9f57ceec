"""Read files of items: JSON Lines and CSV."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from retrieval.adapters.files import checked_path
from retrieval.adapters.readers import lines
from retrieval.adapters.readers.csv_files import plan_columns, read_csv_rows, read_header
from retrieval.adapters.readers.records import check_id, item_from_record, mapped_record, target_of, with_hashed_id
from retrieval.domain import checks
from retrieval.domain.errors import Advice, ConfigurationError, InvalidItemError
from retrieval.domain.items.item import Item

_LEAST_PACKED = 18
"""The bytes of the header and the trailer of gzip."""

_NAMES_SHOWN = 20
"""The most names of entries that a message lists."""

_ARRAY = (
    'each line must be an object, such as {"id": "1", "text": "Words"}, not a list; '
    "jq -c '.[]' writes a list of objects as lines"
)
_ALONE = {"[": _ARRAY, "{": "each line must be a whole object; jq -c . writes each object on one line"}
"""The reasons for lines that only open a list or an object, as in indented JSON."""
_NO_OBJECT = (
    'not JSON; each line must be an object, such as {"id": "1", "text": "Words"}; for CSV choose the format csv'
)


def read_json_lines(
    file: str,
    *,
    columns: Mapping[str, str] | None = None,
    id_from: str | None = None,
    max_line_bytes: int = lines.MAX_LINE_BYTES,
    clean: bool = True,
) -> Iterator[lines.InputLine]:
    """Every line that is not blank, as an item (``columns``, ``id_from``, ``clean``: see ``read_items``) or an error.

    Raises the errors of ``read_lines``, and at the end ``ConfigurationError`` for a mapped entry that no line has.
    """
    columns = columns or {}
    unseen, seen = set(columns.values()), dict[str, None]()

    def item_of(raw: str, *, clean: bool = False) -> Item:
        record = _parse(raw)
        if unseen and isinstance(record, Mapping):
            names = [*record, *(name for inner in record.values() if isinstance(inner, Mapping) for name in inner)]
            unseen.difference_update(names)
            seen.update(dict.fromkeys(names[: _NAMES_SHOWN - len(seen)]))
        return item_from_record(with_id(mapped_record(record, columns), id_from), clean=clean)

    for line in lines.read_lines(file, max_line_bytes=max_line_bytes):
        raw, fault = lines.decoded(line.data)
        if line.too_long:
            fault = lines.too_long_reason(max_line_bytes)
        elif not raw.strip():
            continue
        yield lines.line_read(file, line, raw, fault, partial(item_of, raw), clean=clean)
    for target, entry in columns.items():
        if seen and entry in unseen:
            raise ConfigurationError(
                f"{file}: no line has an entry {checks.written(entry)} (for {checks.written(target)}); "
                f"{checks.choices_hint(entry, seen, are_quoted=True)}"
            )


def with_id(record: Any, id_from: str | None) -> Any:
    """The record with its id, or an id made from the entry. Raises ``InvalidItemError`` if it has neither."""
    if id_from is not None:
        return with_hashed_id(record, id_from)
    check_id(record)
    return record


def item_from_line(line: str, read: Callable[[Mapping[str, Any]], Item]) -> Item:
    """The item that ``read`` makes from the record of a line.

    Raises ``InvalidItemError`` with the reason, also if the line is not JSON.
    """
    try:
        return read(_parse(line))
    except checks.JSONTextError as error:
        raise InvalidItemError(str(error)) from None


def _parse(raw: str) -> Any:
    try:
        value = checks.json_of(raw.rstrip("\r\n"))  # a fault at the end is then in this line, not in the next
    except checks.JSONSyntaxError:
        text = raw.strip()
        if not text.startswith(("[", "{")):
            raise checks.JSONTextError(_NO_OBJECT) from None
        if text in _ALONE:
            raise checks.JSONTextError(_ALONE[text]) from None
        raise
    if isinstance(value, list):
        raise checks.JSONTextError(_ARRAY)
    return value


FORMAT_OF_ENDING = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv"}
"""The format of a file of items by the ending of its name, before any ``.gz``."""

FORMATS = tuple(dict.fromkeys(FORMAT_OF_ENDING.values()))


@checks.checks_argument_names
def read_items(
    path: str | os.PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    id_from: str | None = None,
    texts: Collection[str] = (),
    format: str | None = None,  # noqa: A002 - what users call it
    max_line_bytes: int = lines.MAX_LINE_BYTES,
    header: Callable[[str], None] | None = None,
    clean: bool = True,
) -> Iterator[lines.InputLine]:
    """Every line of a file, or record of a CSV file, as an item or an error; blank lines are left out.

    The file is read as it is consumed, in constant memory. ``-`` is standard input. A file that starts like gzip is
    unpacked. The text is UTF-8. Without ``format`` the name's ending decides, before any ``.gz``, and standard input
    is ``jsonl`` (BEIR's: see ``item_from_record``).

    ``columns`` maps an item's field (``_id``, ``title``, ``text``, ``tags`` …), or an attribute as ``attributes.name``,
    to a column of CSV, or to an entry of JSON's objects; see ``plan_columns`` and ``mapped_record``. ``id_from`` names
    an entry of JSON's objects, such as ``text`` (``*``: all), whose hash becomes the id where there is none.

    In CSV, an empty value is missing, and tags are as ``parse_tags`` reads them. An attribute that reads as a JSON
    number, ``true`` or ``false`` is a number or a boolean, unless ``texts`` names it; everything else is text.
    ``header`` is called with the raw header line when reading begins. ``clean`` removes refused characters from items
    (see ``retrieval.clean_text``), and marks their lines.

    Raises, before it returns, ``InvalidRequestError`` for a file that cannot be opened, and ``ConfigurationError`` for
    an unknown format or columns that the file does not have (for standard input, when reading begins). Raises
    ``InvalidRequestError`` while reading if the data ends too early or is damaged, after the lines before that place.
    """
    file = checked_path(path)
    format_ = _format_of(file, format)
    checks.check_flags(clean=clean)
    if id_from is not None and (not isinstance(id_from, str) or not id_from):
        raise ConfigurationError(f"id_from is {checks.written(id_from)}; give the name of an entry, such as text")
    checks.check_functions(header=header)
    texts = checks.checked_texts("texts", texts, "['number']")
    checks.checked_whole("max_line_bytes", max_line_bytes, 1)
    _check_targets({} if columns is None else columns)
    known_size = size_of(file)
    if format_ == "jsonl":
        return read_json_lines(file, columns=columns, id_from=id_from, max_line_bytes=max_line_bytes, clean=clean)
    if id_from is not None:
        raise ConfigurationError("id_from is for JSON Lines").advising(Advice.MAP_ID)
    # A file without a size is a pipe, which can be read only once.
    if known_size is not None:
        plan_columns(file, read_header(file), columns)
    return read_csv_rows(file, columns=columns, texts=texts, max_line_bytes=max_line_bytes, header=header, clean=clean)


def column_names(path: str | os.PathLike[str], format: str | None = None) -> list[str] | None:  # noqa: A002 - as above
    """The names of a CSV file's columns; None for another format, or a file that can be read only once.

    Raises the errors that ``read_items`` raises before it returns.
    """
    file = checked_path(path)
    if _format_of(file, format) != "csv" or size_of(file) is None:
        return None
    return read_header(file)


def size_of(path: str | os.PathLike[str]) -> int | None:
    """The file's bytes on disk; None for standard input and for pipes, whose size is unknown.

    Raises ``InvalidRequestError`` for a file that cannot be opened.
    """
    file = os.fspath(path)
    if file == lines.STANDARD_INPUT:
        return None
    status = lines.readable_status(file)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def unpacked_size(path: str | os.PathLike[str]) -> int | None:
    """About the bytes of the file once it is unpacked; None where ``size_of`` is None. Raises as ``size_of`` does.

    A file packed by gzip tells the size of its last part, modulo 4 GiB (RFC 1952, section 2.3.1).
    """
    size = size_of(path)
    if size is None or size < _LEAST_PACKED:
        return size
    with Path(path).open("rb") as file:
        if file.read(len(checks.GZIP_MAGIC)) != checks.GZIP_MAGIC:
            return size
        file.seek(-4, os.SEEK_END)
        return max(size, int.from_bytes(file.read(4), "little"))


def _check_targets(columns: Mapping[str, str]) -> None:
    """Refuse unknown fields, and a field that is mapped twice. Raises ``ConfigurationError``."""
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) for pair in columns.items() for name in pair):
        raise ConfigurationError(
            f"columns is {checks.written(columns)}; give names by field, such as {{'text': 'description'}}"
        )
    by_field: dict[tuple[str | None, str], str] = {}
    for target, column in columns.items():
        other = by_field.setdefault(target_of(target, column), target)
        if other != target:
            raise ConfigurationError(f"{other!r} and {target!r} are one field; map one of them")


def _format_of(file: str, format_: str | None) -> str:
    if format_ is not None:
        if format_ not in FORMATS:
            raise ConfigurationError(f"format {format_!r} is not known; use {' or '.join(FORMATS)}")
        return format_
    if file == lines.STANDARD_INPUT:
        return "jsonl"
    name = PurePath(file.lower())
    ending = PurePath(name.stem).suffix if name.suffix == ".gz" else name.suffix
    if ending not in FORMAT_OF_ENDING and Path(file).is_dir():
        raise ConfigurationError(f"{file}: is a folder; ingest_documents stores the documents in it")
    if ending not in FORMAT_OF_ENDING:
        raise ConfigurationError(
            f"{file}: the name does not tell the format; name it with --format {' or --format '.join(FORMATS)} "
            "(format=), or save the file as CSV"
        )
    return FORMAT_OF_ENDING[ending]
