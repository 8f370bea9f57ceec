"""Several files as one input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from retrieval.adapters.readers import InputLine, read_items, size_of
from retrieval.domain.errors import InvalidRequestError

STANDARD_INPUT = "-"


class InputFiles:
    """Files of items, read one after the other; all are opened and their headers checked at once.

    Raises what ``read_items`` raises, and ``InvalidRequestError`` when standard input is named twice.
    """

    def __init__(self, files: Sequence[str], *, columns: Mapping[str, str], file_format: str | None) -> None:
        if files.count(STANDARD_INPUT) > 1:
            raise InvalidRequestError("standard input ('-') is named twice; it can be read once")
        self.names = tuple(files)
        self.headers: dict[str, str] = {}
        """The header line of each CSV file that has been read from, as it stands there."""
        self._sizes = [size_of(file) for file in files]
        self._readers = [
            read_items(
                file,
                columns=columns or None,
                format=file_format,
                header=partial(self.headers.__setitem__, file),
            )
            for file in files
        ]

    @property
    def total_bytes(self) -> int | None:
        """Bytes of all files on disk; None when one is a pipe."""
        known = [size for size in self._sizes if size is not None]
        return sum(known) if len(known) == len(self._sizes) else None

    @property
    def reads_standard_input(self) -> bool:
        """Whether one of them is standard input."""
        return STANDARD_INPUT in self.names

    def lines(self) -> Iterator[InputLine]:
        """The lines of all files; offsets go on rising from one file to the next."""
        before = 0
        for reader, size in zip(self._readers, self._sizes, strict=True):
            for line in reader:
                yield replace(line, offset=before + line.offset) if before else line
            before += size or 0
