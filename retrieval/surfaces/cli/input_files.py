"""Several files as one input."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from retrieval.adapters.readers import InputLine, column_names, read_items, size_of
from retrieval.apps.tickets.columns import ticket_columns
from retrieval.apps.tickets.ticket_item import TICKET_TEXTS, as_ticket, with_ticket_parts
from retrieval.domain.errors import BadLineError, InvalidItemError, InvalidRequestError

STANDARD_INPUT = "-"


class InputFiles:
    """Files of items, read one after the other; all are opened and their headers checked at once.

    A CSV file whose columns are those of tickets is read as tickets, unless ``columns`` says how to read it; what is
    a ticket among JSON Lines has its hours and its time of resolution by the names that tickets are read by. With
    ``clean``, items are made without the characters that are refused. Raises what ``read_items`` raises, and
    ``InvalidRequestError`` when standard input is named twice.
    """

    def __init__(
        self, files: Sequence[str], *, columns: Mapping[str, str], file_format: str | None, clean: bool = True
    ) -> None:
        if files.count(STANDARD_INPUT) > 1:
            raise InvalidRequestError("standard input ('-') is named twice; it can be read once")
        self.names = tuple(files)
        self._clean = clean
        self.headers: dict[str, str] = {}
        """The header line of each CSV file that has been read from, as it stands there."""
        self._sizes = [size_of(file) for file in files]
        self.holds_tickets = False
        """Whether a file is read as tickets."""
        self._readers = [self._reader(file, columns, file_format) for file in files]

    @property
    def total_bytes(self) -> int | None:
        """Bytes of all files on disk; None when one is a pipe."""
        known = [size for size in self._sizes if size is not None]
        return sum(known) if len(known) == len(self._sizes) else None

    @property
    def reads_standard_input(self) -> bool:
        """Whether one of them is standard input."""
        return STANDARD_INPUT in self.names

    @property
    def repeated_columns(self) -> dict[str, list[str]]:
        """The names that stand more than once in a header, by file, of the CSV files that have been read from."""
        names = {file: Counter(map(str.strip, next(csv.reader([line])))) for file, line in self.headers.items()}
        twice = {file: [name for name, times in found.items() if name and times > 1] for file, found in names.items()}
        return {file: found for file, found in twice.items() if found}

    def _reader(self, file: str, columns: Mapping[str, str], file_format: str | None) -> Iterator[InputLine]:
        names = None if columns else column_names(file, file_format)
        tickets = ticket_columns(names) if names else None
        lines = read_items(
            file,
            columns=tickets or columns or None,
            texts=TICKET_TEXTS if tickets else (),
            format=file_format,
            header=partial(self.headers.__setitem__, file),
            clean=self._clean,
        )
        if tickets is None:
            return lines if columns or names else map(_with_ticket_parts, lines)
        self.holds_tickets = True
        return map(_as_ticket, lines)

    def lines(self) -> Iterator[InputLine]:
        """The lines of all files; offsets go on rising from one file to the next."""
        before = 0
        for reader, size in zip(self._readers, self._sizes, strict=True):
            for line in reader:
                yield replace(line, offset=before + line.offset) if before else line
            before += size or 0


def _as_ticket(line: InputLine) -> InputLine:
    if line.item is None:
        return line
    try:
        return replace(line, item=as_ticket(line.item))
    except InvalidItemError as error:
        return replace(line, item=None, error=BadLineError(line.file, line.line, str(error)))


def _with_ticket_parts(line: InputLine) -> InputLine:
    try:
        return line if line.item is None else replace(line, item=with_ticket_parts(line.item))
    except InvalidItemError:
        # It may be no ticket at all: only what calls itself one is refused.
        return line
