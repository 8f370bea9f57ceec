"""Notes on a search without hits: the part of its filter that no item passes, and similar values that exist.

The notes are composed only after an empty answer, so searches with hits take no longer.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Iterable, Mapping, Sequence

from retrieval.adapters.store.items.collections import StoredCollection
from retrieval.domain.checks import is_number, json_line, named, parse_value
from retrieval.domain.errors import RetrievalError
from retrieval.domain.items.collection import COUNTED_FIELDS
from retrieval.domain.search import filters
from retrieval.domain.search.filters import AllTags, And, Compare, Contains, Field, Filter, Not, OneOf, Or, Scalar
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.conditions import TYPE_NAMES, json_type
from retrieval.engine.reading import page, value_counts

SECONDS = 1.0
"""The time limit of one call; the notes that exist by then are returned."""

_MOST_PARTS = 8
_MOST_COUNTED = 50_000
"""The most items of a collection whose values are counted."""
_SHOWN = 5
_NOTHING_PASSES = "the filter lets nothing through: "
_LONGEST = 80
_NOT_ARCHIVED = Not(OneOf(Field("status", is_attribute=False), ("archived",)))


async def reasons(
    handle: CollectionHandle, conditions: Iterable[Filter | None]
) -> dict[Filter | None, tuple[str, ...]]:
    """The notes for searches without hits by each of these filters; none after an error of the database."""
    notes = {condition: list[str]() for condition in conditions}
    try:
        async with asyncio.timeout(SECONDS):
            stored = await handle.fresh()
            for condition, own in notes.items():
                await _explain(handle, stored, condition, own)
    except (RetrievalError, TimeoutError):
        pass
    return {condition: tuple(own) for condition, own in notes.items()}


async def _explain(
    handle: CollectionHandle, stored: StoredCollection, condition: Filter | None, notes: list[str]
) -> None:
    documents = stored.documents
    if not documents:
        notes.append("the collection has no items yet")
        return
    if condition is None or await page(handle, condition, limit=1):
        if condition is not None and not await page(handle, And((condition, _NOT_ARCHIVED)), limit=1):
            notes.append("only archived items pass the filter; searches do not find those, a list of items has them")
            return
        passing = "" if condition is None else "items pass the filter, but "
        notes.append(f"{passing}the legs that ran found no item, or none scored high enough")
        return
    parts = condition.filters if isinstance(condition, And) else (condition,)
    if len(parts) > _MOST_PARTS:
        notes.append("no item passes the filter")
        return
    blocking = [part for part in parts if not await page(handle, part, limit=1)]
    for part in blocking:
        if (contradiction := _contradiction(part)) is not None:
            notes.append(f"{_NOTHING_PASSES}{contradiction}")
            continue
        hint = await _hint(handle, part, stored.attributes) if documents <= _MOST_COUNTED else ""
        # The part may come from the query, as a phrase or an excluded word, and not from the filter.
        may_be_query = isinstance(part, Contains) or (isinstance(part, Not) and isinstance(part.filter, Contains))
        notes.append(f"{'' if may_be_query else _NOTHING_PASSES}no item has {_describe(part)}{hint}")
    if not blocking:
        rests = [(part, And(tuple(other for other in parts if other is not part))) for part in parts]
        culprits = [_describe(part) for part, rest in rests if await page(handle, rest, limit=1)]
        without = f"; without {' or without '.join(culprits)} there are items" if culprits else ""
        notes.append(f"{_NOTHING_PASSES}no item has {' and '.join(map(_describe, parts))}{without}")


def _contradiction(part: Filter) -> str | None:
    """The reason why no item of any collection can pass the part; None if an item could."""
    match part:
        case OneOf(field, ()):
            return f"{_name(field)} is to be one of an empty list; give at least one value, or leave it out"
        case Or(()):
            return '"or" has an empty list, which no item passes; give at least one filter, or leave it out'
        case Not(And(())):
            return '"not" has an empty filter, which every item passes; leave it out'
        case _:
            return None


async def _hint(handle: CollectionHandle, part: Filter, types: Mapping[str, Sequence[str]]) -> str:
    """A hint at the values that the field does have."""
    match part:
        case OneOf(field, values):
            requested: tuple[Scalar, ...] = values
        case AllTags(tags):
            field, requested = Field("tags", is_attribute=False), tags
        case Compare(field, _, value):
            requested = (value,)
        case _:
            return ""
    if not field.is_attribute and field.name not in COUNTED_FIELDS:
        return ""
    existing = [count.value for count in await value_counts(handle, filters.field_name(field)) if count.value]
    kinds = [kind for kind in TYPE_NAMES if kind in types.get(field.name, ())] if field.is_attribute else ["string"]
    if not field.path and kinds and set(map(json_type, requested)).isdisjoint(kinds):
        example = "" if kinds == ["boolean"] else f", such as {_shown(existing[:1], kinds)}"
        return f"; its values are {' and '.join(TYPE_NAMES[kind] for kind in kinds)}{example}"
    folded = {value.casefold(): value for value in reversed(existing)}
    near = [name for value in requested for name in difflib.get_close_matches(str(value).casefold(), folded, n=1)]
    if near and not isinstance(part, Compare) and "string" in kinds:
        return f"; did you mean {_shown([folded[name] for name in dict.fromkeys(near)], kinds)}?"
    if kinds == ["number"] and (numbers := [value for value in existing if is_number(parse_value(value))]):
        return f"; its values are from {min(numbers, key=float)} to {max(numbers, key=float)}"  # others may be objects
    more = " …" if len(existing) > _SHOWN else ""
    return f"; there are {_shown(existing[:_SHOWN], kinds)}{more}" if existing else ""


def _shown(values: Sequence[str], kinds: Sequence[str]) -> str:
    """The values, cut; those that are not numbers and truth values in quotation marks, which nothing in them ends."""
    bare = "string" not in kinds
    return ", ".join(
        value if bare and not isinstance(parse_value(value), str) else json_line(_short(value)) for value in values
    )


def _name(field: Field) -> str:
    return named(_short(filters.field_name(field)))


def _describe(part: Filter) -> str:
    """The part in words, or as a mapping."""
    match part:
        case OneOf(field, values):
            shown = " or ".join(json.dumps(value, ensure_ascii=False, default=str) for value in values[:_SHOWN])
            return _short(f"{_name(field)} = {shown}")
        case Compare(field, operator, value):
            sign = {"gt": ">", "gte": "≥", "lt": "<", "lte": "≤"}[operator]
            return _short(f"{_name(field)} {sign} {json.dumps(value, ensure_ascii=False, default=str)}")
        case Contains(text):
            return _short(f"the words {json.dumps(text, ensure_ascii=False)}")
        case Not(Contains(text)):
            return _short(f"no {json.dumps(text, ensure_ascii=False)}")
        case _:
            try:
                return _short(json.dumps(filters.as_mapping(part), ensure_ascii=False))
            except ValueError:
                return "the required words"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
