"""Bad lines are put aside, as they stood in the input, to be mended and ingested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console

from retrieval.adapters.readers import InputLine
from retrieval.domain.errors import InvalidRequestError
from retrieval.surfaces.cli.output import plain

SHOWN = 10
"""How many reasons are shown while the run goes on."""

_KNOWN_ENDINGS = {".gz", ".jsonl", ".ndjson", ".json", ".csv"}


class RejectedLines:
    """Collects bad lines: appends them to a file, which is made when the first one comes, and shows a few.

    Lines of CSV files follow their header; ``headers`` has it of each file that was begun. Inputs that differ
    in format or header have files of their own, with names of their own: ``chosen`` can hold only one kind.
    Use it in a ``with`` statement.
    """

    def __init__(self, chosen: Path | None, *, inputs: Sequence[str], headers: Mapping[str, str], say: Console) -> None:
        self._chosen = chosen
        self._inputs = inputs
        self._headers = headers
        self._say = say
        self._count = 0
        self._earlier: set[str] = set()
        self._files: dict[str | None, TextIO] = {}
        self._stack = ExitStack()
        self.paths: list[Path] = []
        """The files written to."""
        if chosen is not None and not chosen.absolute().parent.is_dir():
            raise InvalidRequestError(f"{chosen}: there is no such folder; make it first")
        if chosen is not None:
            self._check_not_an_input(chosen)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, line: InputLine) -> None:
        """Put the line aside. Raises ``InvalidRequestError`` when that cannot be done."""
        header = self._headers.get(line.file)
        if header not in self._files:
            self._files[header] = self._open(line.file, header)
        if not self._is_repeated(line.raw):
            self._files[header].write(line.raw + "\n")
        self._count += 1
        if self._count <= SHOWN:
            self._say.print(plain(f"rejected: {line.error}"), soft_wrap=True)
        elif self._count == SHOWN + 1:
            self._say.print("rejected: and more, which are not shown", soft_wrap=True)

    def _open(self, file: str, header: str | None) -> TextIO:
        path = self._chosen or default_path(file, is_csv=header is not None)
        if path in self.paths:
            raise InvalidRequestError(
                f"{path} cannot hold bad lines of inputs with different columns; ingest {file} in a run of its own"
            )
        self._check_not_an_input(path)
        try:
            start = self._beginning(path, header)
            opened = self._stack.enter_context(path.open("a", encoding="utf-8", newline="", buffering=1))
            opened.write(start)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequestError(
                f"cannot put bad lines aside in {path}: {error}; choose another --rejects"
            ) from error
        self.paths.append(path)
        return opened

    def _beginning(self, path: Path, header: str | None) -> str:
        """What to write first: the header of a new CSV file; the line end that a former last line lacks."""
        start = "" if header is None else header + "\n"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if not text:
            return start
        if not f"{text}\n".startswith(start.replace("\r\n", "\n")):
            raise InvalidRequestError(
                f"{path} has other columns than the input; move it away or choose another --rejects"
            )
        self._earlier.update(text.split("\n"))
        return "" if text.endswith("\n") else "\n"

    def _is_repeated(self, raw: str) -> bool:
        """Whether an earlier run has put the line aside: the same command is run again to continue."""
        return bool(self._earlier) and self._earlier.issuperset(raw.replace("\r\n", "\n").split("\n"))

    def _check_not_an_input(self, path: Path) -> None:
        if path.exists() and any(Path(name).exists() and path.samefile(name) for name in self._inputs):
            raise InvalidRequestError(f"{path} is one of the files to ingest; choose another name with --rejects")


def default_path(file: str, *, is_csv: bool) -> Path:
    """``tickets.rejects.jsonl`` in the current folder for ``data/tickets.jsonl.gz``."""
    name = "stdin" if file == "-" else Path(file).name
    while Path(name).suffix.lower() in _KNOWN_ENDINGS and Path(name).stem:
        name = Path(name).stem
    return Path(f"{name}.rejects.{'csv' if is_csv else 'jsonl'}")
