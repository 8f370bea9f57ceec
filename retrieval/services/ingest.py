"""Ingest: stores a stream of lines in a collection, batch by batch; an input without any text is refused."""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import PurePath
from shlex import quote
from typing import Any

import numpy as np

from retrieval.adapters.readers import InputLine
from retrieval.adapters.store.items.items import archive_items
from retrieval.adapters.store.items.listing import rows_after
from retrieval.adapters.store.search.terms import refresh_weights
from retrieval.domain.checks import written
from retrieval.domain.errors import Advice, BadLineError, InvalidItemError, InvalidRequestError
from retrieval.domain.items.item import Item
from retrieval.domain.json_schema import AttributeSchema
from retrieval.services.add import BATCH_ITEMS, AddReport, Writer, repeated_report


@dataclass(frozen=True, slots=True)
class WithoutText:
    """Counts items without a text, and the attributes that may hold their text instead."""

    number: int = 0
    characters: Mapping[str, int] = field(default_factory=dict, repr=False)
    """The total length of the text attributes of the first items without text, by name."""

    @classmethod
    def among(cls, items: Iterable[Item]) -> WithoutText:
        """Find them among the items."""
        without_text = [item.attributes for item in items if not item.indexed_text]
        counted: Counter[str] = Counter()
        for attributes in without_text:
            counted.update({name: len(value) for name, value in attributes.items() if isinstance(value, str)})
        return cls(len(without_text), counted)

    def __add__(self, other: WithoutText) -> WithoutText:
        return WithoutText(self.number + other.number, self.characters or other.characters)

    @property
    def _likely_text(self) -> str:
        """The attribute with the most characters; empty where no attribute holds text."""
        return max(self.characters, key=lambda name: self.characters[name], default="")

    def _summary(self, items: int) -> str:
        return f"{self.number} of {items} item{'s' * (items != 1)} {'has' if self.number == 1 else 'have'} no text"

    def notes(self, items: int) -> tuple[str, ...]:
        """Notes for a program that adds ``items`` items; empty where each has a title or a text.

        Another name for the text is suggested only where no item has one.
        """
        if not self.number:
            return ()
        likely = self._likely_text if self.number == items else ""
        advice = (
            f"if {written(likely)} holds it, call that 'text'"
            if likely
            else "an item's 'title' and 'text' are searched"
        )
        return (f"{self._summary(items)}; {advice}",)

    def error(self) -> InvalidItemError:
        """The error of an input without any text; it names the attribute that may hold the text."""
        error = InvalidItemError(self._summary(self.number))
        if likely := self._likely_text:
            return error.advising(Advice.MAP_TEXT, name=quote(likely))
        return error.advising(Advice.NAME_TEXT)


def check_some_text(items: Sequence[Item]) -> None:
    """Raise ``InvalidItemError`` if none of the items has a text: to store them could replace stored texts."""
    without_text = WithoutText.among(items)
    if items and without_text.number == len(items):
        raise without_text.error()


BATCH_BYTES = 16 * 1024 * 1024
"""A batch also ends at this size, so that large items do not fill the memory."""

_PRUNE_PAGE = 2000


class SeenIds:
    """The ids of a run, eight bytes each, so that a run over millions of items fits into memory."""

    def __init__(self) -> None:
        self._seen = array("Q")

    def extend(self, ids: Iterable[str]) -> None:
        """Add further ids."""
        self._seen.extend(map(fingerprint, ids))

    @property
    def distinct(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """The fingerprints of the ids, each once, in order."""
        return np.unique(np.frombuffer(self._seen, dtype=np.uint64))

    def report(self) -> AddReport:
        """A note on the ids that were added more than once."""
        _, times = np.unique(np.frombuffer(self._seen, dtype=np.uint64), return_counts=True)
        return repeated_report(int((times > 1).sum()))


Rejected = Callable[[InputLine], None]
Progress = Callable[["IngestReport", int], None]
"""Called at first, after each batch, and while vectors are made.

The arguments are the report so far and the bytes of input consumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """The outcome of an ingest."""

    read: int = 0
    """Items read; bad lines do not count."""
    rejected: int = 0
    """Bad lines."""
    archived: int = 0
    """Items that the input no longer has."""
    cleaned: int = 0
    """Items read from whose text control or format characters were removed."""
    without_text: WithoutText = field(default_factory=WithoutText)
    """Items read that have neither a title nor a text."""
    items: AddReport = field(default_factory=AddReport)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        counts = self.items.as_dict()
        notes = [*counts.pop("notes"), *self.without_text.notes(self.read)]
        return {
            "read": self.read,
            **counts,
            "rejected": self.rejected,
            "archived": self.archived,
            "cleaned": self.cleaned,
            "without_text": self.without_text.number,
            "notes": notes,
        }


@dataclass(frozen=True, slots=True)
class _Batch:
    offset: int
    items: list[Item] = field(default_factory=list)
    rejected: list[InputLine] = field(default_factory=list)
    cleaned: int = 0


NO_VECTORS = AddReport()


def checked_lines(lines: object) -> Iterator[InputLine]:
    """The lines. Raises ``InvalidRequestError``, now or later, for anything else, such as a path or dictionaries."""
    if isinstance(lines, str | bytes | PurePath | Mapping | Sequence) or not isinstance(lines, Iterable):
        raise _no_line(lines)
    return map(_checked_line, lines)


def _checked_line(line: object) -> InputLine:
    if isinstance(line, InputLine):
        return line
    raise _no_line(line)


def _no_line(given: object) -> InvalidRequestError:
    return InvalidRequestError(
        f"ingest takes the lines that retrieval.read_items(path) reads, not {type(given).__name__}; items that you "
        "have as dictionaries go to add([...])"
    )


async def ingest(
    writer: Writer,
    lines: Iterator[InputLine],
    *,
    rejected: Rejected | None = None,
    prune: bool = False,
    progress: Progress | None = None,
) -> IngestReport:
    """Store every item of the input; unchanged ones cost nothing.

    A bad line raises its ``BadLineError`` before its batch is stored; where ``rejected`` is given, it is called with
    the error instead. If no item of the first batch has a title or a text, ``InvalidItemError`` is raised, and nothing
    is stored. ``prune`` archives the items that the input does not have; nothing is archived when a line was rejected,
    because it may have held one of them, or when there was no item at all. A run that was interrupted is completed by
    running it again.
    """
    report, seen, offset = IngestReport(), SeenIds(), 0
    batch: _Batch | None = None
    lines = _fitting(lines, writer.collection.schema)

    def show_progress(vectors: AddReport = NO_VECTORS) -> None:
        """Report the progress, with the vectors made for the batch so far."""
        if progress is not None:
            items, end = (len(batch.items), batch.offset) if batch else (0, offset)
            done = min(vectors.embedded + vectors.pending, items)
            so_far = replace(report, read=report.read + done, items=report.items + vectors)
            progress(so_far, offset + (end - offset) * done // max(items, 1))

    show_progress()
    while batch := await asyncio.to_thread(_next_batch, lines, skip=rejected is not None):
        if not report.read:
            check_some_text(batch.items)
        for line in batch.rejected:
            if rejected is not None:
                rejected(line)
        seen.extend(item.item_id for item in batch.items)
        follower = writer.followed(progress and show_progress)
        report = replace(
            report,
            read=report.read + len(batch.items),
            rejected=report.rejected + len(batch.rejected),
            cleaned=report.cleaned + batch.cleaned,
            without_text=report.without_text + WithoutText.among(batch.items),
            items=report.items + await follower.after(report.items).add(batch.items),
        )
        offset = batch.offset
        show_progress()
    items = await writer.followed(progress and show_progress).embed_pending(report.items) + seen.report()
    archived = 0
    if prune and report.rejected:
        items += AddReport(notes=("nothing was pruned, because lines were rejected; mend them and run again",))
    elif prune and not report.read:
        items += AddReport(notes=("nothing was pruned, because the input held no item",))
    elif prune:
        archived = await _prune(writer, seen)
    await refresh_weights(writer.place)
    return replace(report, items=items, archived=archived)


def checked_first_batch(
    lines: Iterator[InputLine], schema: Mapping[str, Any] | None, *, skip: bool
) -> tuple[Iterator[InputLine], bool]:
    """The same lines, after a check of the first batch, also by the schema; and whether an item may be among them.

    Raises what ``ingest`` would raise before it stores anything, so that no collection is made for such lines.
    """
    first: list[InputLine] = []

    def noted() -> Iterator[InputLine]:
        for line in lines:
            first.append(line)
            yield line

    batch = _next_batch(_fitting(noted(), AttributeSchema.checked(schema)), skip=skip)
    if batch is not None and batch.items:
        check_some_text(batch.items)
        return chain(first, lines), True
    following = list(islice(lines, 1))
    return chain(first, following, lines), bool(following)


def _fitting(lines: Iterator[InputLine], schema: AttributeSchema | None) -> Iterator[InputLine]:
    """The lines; a line whose item does not fit the collection's schema is a bad line."""
    if schema is None:
        return lines

    def checked(line: InputLine) -> InputLine:
        try:
            if line.item is not None:
                schema.check(line.item)
        except InvalidItemError as error:
            return replace(line, item=None, error=BadLineError(line.file, line.line, str(error)))
        return line

    return map(checked, lines)


def _next_batch(lines: Iterator[InputLine], *, skip: bool) -> _Batch | None:
    """The next lines, read in a thread; None at the end. Raises the first bad line's error unless ``skip``."""
    items: list[Item] = []
    rejected: list[InputLine] = []
    offset = size = cleaned = 0
    for line in islice(lines, BATCH_ITEMS):
        offset = line.offset
        size += len(line.raw)
        if line.item is not None:
            items.append(line.item)
            cleaned += line.is_cleaned
        elif skip:
            rejected.append(line)
        elif line.error is not None:
            raise line.error
        if size > BATCH_BYTES:
            break
    return _Batch(offset, items, rejected, cleaned) if items or rejected else None


async def _prune(writer: Writer, seen: SeenIds) -> int:
    """Archive the active items that were not seen; returns their number."""
    known, in_collection = seen.distinct, (writer.database, writer.tenant_id, writer.collection)
    after, archived = "", 0
    while rows := await rows_after(*in_collection, None, ("item_id",), after=after, limit=_PRUNE_PAGE):
        page = [item_id for (item_id,) in rows]
        wanted = np.array([fingerprint(item_id) for item_id in page], dtype=np.uint64)
        is_known = known[np.searchsorted(known, wanted).clip(max=len(known) - 1)] == wanted
        gone = [item_id for item_id, seen_too in zip(page, is_known, strict=True) if not seen_too]
        if gone:
            await archive_items(writer.place, gone)
        after = page[-1]
        archived += len(gone)
    return archived


def fingerprint(item_id: str) -> int:
    """Eight bytes that identify an id."""
    return int.from_bytes(hashlib.blake2b(item_id.encode(), digest_size=8).digest(), "big")
