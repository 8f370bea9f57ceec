"""The plan that maps the columns of a CSV file to the fields and attributes of an item."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retrieval.adapters.readers.records import FIELD_NAMES, item_from_fields, target_of
from retrieval.domain.errors import ConfigurationError, InvalidItemError
from retrieval.domain.items.item import Item

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 300


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The positions of an item's parts in a row, counted from 0, by field and by attribute."""

    width: int
    """How many columns the header has."""
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
        for field, positions in self.fields.items():
            filled = _filled(row, positions)
            if field == "tags":
                fields[field] = [tag for value in filled for tag in written_tags(value)]
            elif filled:
                if len({value.strip() for value in filled}) > 1:
                    raise InvalidItemError(
                        f"the header names the column of {field!r} {len(positions)} times, and this row says "
                        f"{filled[0]!r:.40} and {filled[1]!r:.40}; keep one, or give the columns names of their own"
                    )
                fields[field] = filled[0].strip() if field == "occurred_at" else filled[0]
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
    for field, names in FIELD_NAMES.items():
        own = [name for name in names if name in draft.left]
        if own and field not in draft.fields:
            draft.take(own[0], own[0])
    for name in list(draft.left):
        draft.take_attribute(name, name)
    if "item_id" not in draft.fields:
        raise ConfigurationError(f"{file}: no column '_id'; map one to '_id'; {draft.existing}")
    return ColumnPlan(len(header), draft.fields, draft.attributes, frozenset(texts))


class _Draft:
    """A plan in the making, and the columns that are left."""

    def __init__(self, file: str, names: Sequence[str]) -> None:
        self._file = file
        self._names = names
        self.left = dict.fromkeys(name for name in names if name)
        self.fields: dict[str, tuple[int, ...]] = {}
        self.attributes: dict[str, tuple[int, ...]] = {}

    @property
    def existing(self) -> str:
        return "the header has: " + ", ".join(repr(name) for name in self._names)

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
            raise ConfigurationError(f"{self._file}: no column {column!r} (for {target!r}); {self.existing}")
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
