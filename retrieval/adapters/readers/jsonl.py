"""JSON Lines in BEIR's format: one object a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from retrieval.adapters.readers.input_line import InputLine, bad_line, good_line
from retrieval.adapters.readers.lines import MAX_LINE_BYTES, decoded, read_lines, too_long_reason
from retrieval.adapters.readers.records import item_as_it_is_or_cleaned, item_from_record, mapped_record
from retrieval.domain.errors import ConfigurationError, InvalidItemError
from retrieval.domain.item import Item
from retrieval.domain.json_text import JSONSyntaxError, JSONTextError, json_of

_NAMES_TOLD = 20
"""Most names of entries that a message lists."""

_ARRAY = "a list over several items is not read; write one object a line (jq -c '.[]' does that)"


def read_json_lines(
    file: str,
    *,
    columns: Mapping[str, str] | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    clean: bool = True,
) -> Iterator[InputLine]:
    """Every line that is not blank, as an item (``columns``, ``clean``: see ``read_items``) or an error.

    Raises what ``read_lines`` raises, and at the end ``ConfigurationError`` for a mapped entry that no line has.
    """
    wanted = _Wanted(columns or {})
    for line in read_lines(file, max_line_bytes=max_line_bytes):
        raw, fault = decoded(line.data)
        if line.too_long:
            fault = too_long_reason(max_line_bytes)
        elif not raw.strip():
            continue
        if fault:
            yield bad_line(file, line, raw, fault)
            continue
        try:
            read = partial(item_from_record, wanted.mapped(_parsed(raw)))
            item, is_cleaned = item_as_it_is_or_cleaned(read, clean=clean)
        except (JSONTextError, InvalidItemError) as error:
            yield bad_line(file, line, raw, str(error))
        else:
            yield good_line(file, line, raw, item, is_cleaned=is_cleaned)
    wanted.check_seen(file)


class _Wanted:
    """The entries that are mapped, and which of them no line has had."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._missing = {entry: target for target, entry in columns.items()}
        self._seen: dict[str, None] = {}

    def mapped(self, value: Any) -> Any:
        """The record with its entries under their fields' names; what is no record is given back."""
        if not self._columns or not isinstance(value, Mapping):
            return value
        if self._missing:
            names = [*value, *(name for inner in value.values() if isinstance(inner, Mapping) for name in inner)]
            self._seen.update(dict.fromkeys(names[:_NAMES_TOLD]))
            for name in names:
                self._missing.pop(name, None)
        return mapped_record(value, self._columns)

    def check_seen(self, file: str) -> None:
        """Refuse a mapping that did nothing. A file without lines maps nothing."""
        for entry, target in self._missing.items():
            if self._seen:
                there = ", ".join(repr(name) for name in list(self._seen)[:_NAMES_TOLD])
                raise ConfigurationError(
                    f"{file}: no line has an entry {entry!r:.80} (for {target!r:.80}); there are: {there}"
                )


def item_from_line(data: bytes, read: Callable[[Mapping[str, Any]], Item] = item_from_record) -> Item:
    """The item that one line holds, as ``read`` makes it of a record.

    Raises ``InvalidItemError`` with the reason, also for what is no JSON.
    """
    raw, fault = decoded(data)
    if fault:
        raise InvalidItemError(fault)
    try:
        return read(_parsed(raw))
    except JSONTextError as error:
        raise InvalidItemError(str(error)) from None


def _parsed(raw: str) -> Any:
    try:
        value = json_of(raw)
    except JSONSyntaxError:
        if raw.strip() == "[":
            raise JSONTextError(_ARRAY) from None
        raise
    if isinstance(value, list):
        raise JSONTextError(_ARRAY)
    return value
