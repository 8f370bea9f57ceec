"""JSON Lines in BEIR's format: one object a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from retrieval.adapters.readers.input_line import InputLine, bad_line, good_line
from retrieval.adapters.readers.lines import MAX_LINE_BYTES, decoded, read_lines, too_long_reason
from retrieval.adapters.readers.records import item_as_it_is_or_cleaned, item_from_record
from retrieval.domain.errors import InvalidItemError
from retrieval.domain.item import Item
from retrieval.domain.json_text import JSONSyntaxError, JSONTextError, json_of

_ARRAY = "a list over several items is not read; write one object a line (jq -c '.[]' does that)"


def read_json_lines(file: str, *, max_line_bytes: int = MAX_LINE_BYTES, clean: bool = True) -> Iterator[InputLine]:
    """Every line that is not blank, as an item (``clean``: see ``read_items``) or an error.

    Raises what ``read_lines`` raises.
    """
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
            item, is_cleaned = item_as_it_is_or_cleaned(partial(item_from_record, _parsed(raw)), clean=clean)
        except (JSONTextError, InvalidItemError) as error:
            yield bad_line(file, line, raw, str(error))
        else:
            yield good_line(file, line, raw, item, is_cleaned=is_cleaned)


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
