"""The files of items that a command reads, and the files in which it puts their bad lines aside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from retrieval.adapters.files import checked_path
from retrieval.adapters.readers import InputLine, column_names, read_items, size_of
from retrieval.adapters.readers.item_files import FORMAT_OF_ENDING, unpacked_size
from retrieval.adapters.readers.lines import STANDARD_INPUT
from retrieval.domain.errors import BadLineError, InvalidItemError, InvalidRequestError
from retrieval.surfaces.cli.output import tell

if TYPE_CHECKING:
    from retrieval.domain.items.item import Item

MAX_REASONS = 10
"""The number of reasons that are shown during the run."""


class InputFiles:
    """Files of items, read one after the other; all are opened and their headers checked at once.

    A CSV file with the columns of tickets is read as tickets, unless ``columns`` says how to read it; tickets in JSON
    Lines get their hours and time of resolution under the names of tickets. With ``clean``, refused characters are
    removed from items. Raises what ``read_items`` raises, and
    ``InvalidRequestError`` when standard input is named twice.
    """

    def __init__(
        self,
        files: Sequence[str],
        *,
        columns: Mapping[str, str],
        file_format: str | None,
        clean: bool = True,
        id_from: str | None = None,
    ) -> None:
        if files.count(STANDARD_INPUT) > 1:
            raise InvalidRequestError("standard input ('-') is named twice; it can be read once")
        self.names = tuple(files)
        self._clean = clean
        self.id_from = id_from
        self.headers: dict[str, str] = {}
        """The header line of each CSV file read so far, unchanged."""
        self._sizes = [size_of(file) for file in files]
        self.total_bytes = _sum_of(self._sizes)
        """Bytes of all files on disk; None if one is a pipe."""
        self.text_bytes = _sum_of(map(unpacked_size, files))
        """About the bytes of all files once they are unpacked; None if one is a pipe."""
        self.holds_tickets = False
        """Whether a file is read as tickets."""
        self._readers = [self._reader(file, columns, file_format) for file in files]

    def _reader(self, file: str, columns: Mapping[str, str], file_format: str | None) -> Iterator[InputLine]:
        from retrieval.apps.tickets.ticket_item import TICKET_TEXTS, as_ticket, ticket_columns, with_ticket_parts

        names = None if columns else column_names(file, file_format)
        tickets = ticket_columns(names) if names else None
        lines = read_items(
            file,
            columns=tickets or columns or None,
            id_from=self.id_from,
            texts=TICKET_TEXTS if tickets else (),
            format=file_format,
            header=partial(self.headers.__setitem__, file),
            clean=self._clean,
        )
        if tickets is None:
            # Items in JSON Lines may be tickets: only those of the kind ticket are refused.
            return lines if columns or names else (_converted(line, with_ticket_parts, refuses=False) for line in lines)
        self.holds_tickets = True
        return (_converted(line, as_ticket, refuses=True) for line in lines)

    def lines(self) -> Iterator[InputLine]:
        """The lines of all files; offsets keep rising from one file to the next."""
        before = 0
        for reader, size in zip(self._readers, self._sizes, strict=True):
            for line in reader:
                yield replace(line, offset=before + line.offset) if before else line
            before += size or 0


def _sum_of(sizes: Iterable[int | None]) -> int | None:
    """The sum; None if a size is unknown."""
    known = list(sizes)
    return None if None in known else sum(filter(None, known))


def _converted(line: InputLine, convert: Callable[[Item], Item], *, refuses: bool) -> InputLine:
    """The line with the converted item; with ``refuses`` an item that cannot be converted makes a bad line."""
    try:
        return line if line.item is None else replace(line, item=convert(line.item))
    except InvalidItemError as error:
        return replace(line, item=None, error=BadLineError(line.file, line.line, str(error))) if refuses else line


class RejectedLines(ExitStack):
    """Collects bad lines: appends them to a file, which is created with the first one, and shows a few.

    Lines of a CSV file follow its header; ``headers`` has the header of each file read so far. Use it in a ``with``
    statement.
    """

    def __init__(self, chosen: Path | None, *, inputs: Sequence[str], headers: Mapping[str, str]) -> None:
        super().__init__()
        self._chosen = chosen
        self._inputs = inputs
        self._headers = headers
        self._count = 0
        self._files: dict[Path, tuple[TextIO, str | None, set[str]]] = {}
        """The open files, each with its header, and the lines that earlier runs put there."""
        if chosen is not None:
            checked_path(chosen)
            if not chosen.absolute().parent.is_dir():
                raise InvalidRequestError(f"{chosen}: there is no such folder; make it first")
            self._check_not_an_input(chosen)

    @property
    def paths(self) -> list[Path]:
        """The files written to."""
        return list(self._files)

    def add(self, line: InputLine) -> None:
        """Put the line aside. Raises ``InvalidRequestError`` if that fails."""
        header = self._headers.get(line.file)
        path = self._chosen or default_path(line.file, is_csv=header is not None)
        if path not in self._files:
            self._files[path] = self._open(path, header)
        file, its_header, earlier = self._files[path]
        if header != its_header:
            raise InvalidRequestError(
                f"{path} cannot hold bad lines of inputs with different columns; ingest {line.file} in a run of its own"
            )
        # An interrupted command is run again to continue, and then meets the same lines.
        if not earlier.issuperset(line.raw.replace("\r\n", "\n").split("\n")):
            file.write(line.raw + "\n")
        self._count += 1
        if self._count <= MAX_REASONS:
            tell(f"rejected: {line.error}")
        elif self._count == MAX_REASONS + 1:
            tell("rejected: and more, which are not shown")

    def _open(self, path: Path, header: str | None) -> tuple[TextIO, str | None, set[str]]:
        self._check_not_an_input(path)
        start = "" if header is None else header + "\n"
        try:
            text = path.read_text(encoding="utf-8") if path.is_file() else ""  # a device may have no end
            if text and not f"{text}\n".startswith(start.replace("\r\n", "\n")):
                raise InvalidRequestError(
                    f"{path} has other columns than the input; move it away or choose another --rejects"
                )
            file = self.enter_context(path.open("a", encoding="utf-8", newline="", buffering=1))
            file.write("\n" if text and not text.endswith("\n") else "" if text else start)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequestError(
                f"cannot put bad lines aside in {path}: {error}; choose another --rejects"
            ) from error
        return file, header, set(text.split("\n"))

    def _check_not_an_input(self, path: Path) -> None:
        if path.exists() and any(Path(name).exists() and path.samefile(name) for name in self._inputs):
            raise InvalidRequestError(f"{path} is one of the files to ingest; choose another name with --rejects")


def default_path(file: str, *, is_csv: bool) -> Path:
    """``tickets.rejects.jsonl`` in the current folder for ``data/tickets.jsonl.gz``."""
    name = "stdin" if file == STANDARD_INPUT else Path(file).name
    while Path(name).suffix.lower() in {".gz", *FORMAT_OF_ENDING} and Path(name).stem:
        name = Path(name).stem
    return Path(f"{name}.rejects.{'csv' if is_csv else 'jsonl'}")
