"""Output that the commands share: consoles, tables, JSON, and progress."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from retrieval.domain.checks import clean_text, escaped_json, is_number
from retrieval.domain.serialization import plain as plain_values
from retrieval.domain.wording import several
from retrieval.surfaces.cli.errors import PENDING
from retrieval.surfaces.cli.options import wants_json

NO_COLLECTIONS = "no collections yet; make one with: retrieval ingest NAME FILE"

_SPACE = re.compile(r"(?P<model>[^@]+)(@.*)? (?P<dimensions>\([0-9]+\))")


class _Console(Console):
    """Prints plain text, without markup and control sequences."""

    def print(self, *objects: Any, **options: Any) -> None:
        cleaned = (clean_text(part) if isinstance(part, str) else part for part in objects)
        super().print(*cleaned, **{"crop": False, **options})


def console(*, stderr: bool = False) -> Console:
    """Standard output or standard error. Colours appear only on a terminal, and not if ``NO_COLOR`` is set."""
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def report_pending(pending: int) -> None:
    """Print how many items wait for their vector, and exit with ``PENDING`` if any do."""
    if pending:
        tell(
            f"{several(pending, 'item')} without a vector, found by words only; "
            "once the embedder answers, the same command embeds what is missing"
        )
        raise typer.Exit(PENDING)


def print_json(value: Any) -> None:
    r"""Print the value as JSON on standard output: indented, in UTF-8 if the output supports it.

    Control and format characters are escaped, as in ``\u001b``.
    """
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(escaped_json(json.dumps(value, ensure_ascii=not is_utf8, indent=2, allow_nan=False)))  # noqa: T201


def print_json_line(value: Any) -> None:
    """Print the value as one line of JSON, and flush."""
    print(json.dumps(value, allow_nan=False), flush=True)  # noqa: T201


Parts = str | RenderableType | Iterable[str | RenderableType]
"""Lines of text, and tables."""


def show(parts: Parts, *, stderr: bool = False) -> None:
    """Print lines of text without wrapping, and tables, which fit the terminal."""
    out = console(stderr=stderr)
    for part in parts if isinstance(parts, list | Iterator) else [parts]:
        out.print(plain(part) if isinstance(part, str) else part, soft_wrap=isinstance(part, str | Text))


def tell(text: str) -> None:
    """Print a line on standard error, beside the answer."""
    show(text, stderr=True)


def print_answer(value: Any, parts: Parts, *, quiet: bool = False) -> None:
    """With ``--json`` print the value as JSON, else the parts, or with ``quiet`` nothing."""
    if wants_json():
        print_json(plain_values(value))
    elif not quiet:
        show(parts)


def plain(text: str) -> str:
    """The text on one line without control and format characters, which could control a terminal or hide text."""
    return clean_text(text, is_line=True)


_IDS = frozenset({"id", "item", "key", "name", "collection", "job", "superseded"})
"""The columns of ids."""

_LONGEST_ID = 120
"""The number of characters up to which an id is not wrapped."""

_LEAST_WIDTH = 8
"""The minimum width of any other column, in characters, if its cells need it."""


class _Table(Table):
    """A table that exceeds the line if its columns need it: cut-off text could not be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        least = sum((column.min_width or 0) + 3 for column in self.columns)
        return super().__rich_console__(console, options.update(max_width=max(options.max_width, least)))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Container[str] = ()) -> Table:
    """A table without frames; columns of numbers, and those named in ``right``, are aligned on the right.

    A column that is empty in every row is left out: most terminals show 80 characters. Ids are not wrapped, so that
    they can be copied, unless one is so long that the other columns would become unreadable; these share the remaining
    width.
    """
    row_lists = [list(row) for row in rows]
    used = [index for index in range(len(columns)) if not row_lists or any(row[index] != "" for row in row_lists)]
    columns, row_lists = [columns[index] for index in used], [[row[index] for index in used] for row in row_lists]
    cells = [[plain(cell_text(cell)) for cell in row] for row in row_lists]
    grid = _Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, name in enumerate(columns):
        numbers = name in right or (bool(row_lists) and all(is_number(row[index]) for row in row_lists))
        widest = max((cell_len(row[index]) for row in cells), default=0)
        is_whole = name in _IDS and widest <= _LONGEST_ID
        grid.add_column(
            name,
            justify="right" if numbers else "left",
            overflow="fold",
            no_wrap=is_whole,
            min_width=widest if is_whole else min(widest, _LEAST_WIDTH),
        )
    for row in cells:
        grid.add_row(*map(Text, row))
    return grid


def cell_text(value: object) -> str:
    """A value as shown in a table: whole numbers with separators, fractions with four digits, times in UTC."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.4f}"
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M}"
        case _:
            return str(value)


def plain_name(name: str) -> str:
    """A name of the program as shown to people: ``retrieved_at`` is ``retrieved at``, ``is_exact`` is ``exact``."""
    return name.removeprefix("is_").replace("_", " ")


def facts_line(facts: Mapping[str, Any]) -> str:
    """``embedded 300, exact yes``: the facts without lists."""
    shown = {name: value for name, value in facts.items() if not isinstance(value, list)}
    return ", ".join(f"{plain_name(name)} {cell_text(value)}" for name, value in shown.items())


def field_rows(record: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The rows of a table of one record: its fields that hold something, with lists and objects as JSON."""
    for name, value in record.items():
        if value or type(value) in (int, float):
            yield plain_name(name), json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def short_space(name: str | None) -> str | None:
    """An embedding space as shown in a table: its model and dimensions, ``all-MiniLM-L6-v2 (384)``."""
    match = None if name is None else _SPACE.fullmatch(name)
    return name if match is None else f"{match['model'].rpartition('/')[2]} {match['dimensions']}"


def spinner(text: str) -> AbstractContextManager[object]:
    """A spinner, on a terminal."""
    terminal = console(stderr=True)
    return terminal.status(text) if terminal.is_terminal else nullcontext()


LINE_SECONDS = 10.0
"""The seconds between two lines without a terminal."""


@dataclass(frozen=True, slots=True)
class Step:
    """The state of the work."""

    done: float
    """The work done, in the unit of ``total``."""
    total: float | None
    """None: unknown."""
    counted: int
    """The number of items or queries that are done."""
    stage: str = ""
    """The present stage, of a command that has several."""
    vectors: int | None = None
    """The number of vectors made; None: the command makes none."""


Update = Callable[[Step], None]


@contextmanager
def progress(
    title: str,
    noun: str,
    *,
    quiet: bool = False,
    to: Console | None = None,
    every: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Update]:
    """Yield the function to call with each step; ``noun`` names the counted things, in the singular.

    A terminal shows one line, which changes. Elsewhere a line is printed every ``every`` seconds, by default
    ``LINE_SECONDS``; after any such line, a last one is printed at the end.
    """
    terminal = to or console(stderr=True)
    if quiet:
        yield lambda _step: None
        return
    line = _ProgressLine(title, noun, clock)
    if terminal.is_terminal:
        with terminal.status(Text(line.text())) as status:

            def update(step: Step) -> None:
                line.update(step)
                status.update(Text(line.text()))

            yield update
        return
    is_over = threading.Event()

    def print_lines() -> None:
        while not is_over.wait(every or LINE_SECONDS):
            line.is_printed = True
            terminal.print(line.text(), soft_wrap=True)

    printing = threading.Thread(target=print_lines, daemon=True)
    printing.start()
    try:
        yield line.update
    finally:
        is_over.set()
        printing.join()
    if line.is_printed:
        line.finish()
        terminal.print(line.text(), soft_wrap=True)


def counts(step: Step, noun: str, seconds: float) -> str:
    """``612 items (14/s), 596 vectors (13/s)``; while nothing is counted, there is no rate."""
    texts = []
    for number, name in ((step.counted, noun), (step.vectors, "vector")):
        if number is not None:
            rate = number / seconds if seconds > 0 else 0
            digits = 0 if rate >= 10 else 1
            texts.append(several(number, name) + (f" ({rate:,.{digits}f}/s)" if rate else ""))
    return ", ".join(texts)


def time_left(step: Step, seconds: float) -> str:
    """``50 s left``, ``6 min left``; empty if unknown or zero."""
    if not step.total or not 0 < step.done < step.total:
        return ""
    left = seconds * (step.total - step.done) / step.done
    return f"{left:.0f} s left" if left < 100 else f"{left / 60:,.0f} min left"


class _ProgressLine:
    """The progress as a line of text."""

    def __init__(self, title: str, noun: str, clock: Callable[[], float]) -> None:
        self._title = title
        self._noun = noun
        self._clock = clock
        self._started = clock()
        self._step = Step(0, None, 0)
        self.is_printed = False

    def update(self, step: Step) -> None:
        if step.stage != self._step.stage:
            self._started = self._clock()
        self._step = step

    def finish(self) -> None:
        """Mark all of the work as done."""
        if self._step.total:
            self._step = replace(self._step, done=self._step.total)

    def text(self) -> str:
        """``ingest big: 612 items (14/s), 596 vectors (13/s), 11%, 6 min left``."""
        step, seconds = self._step, self._clock() - self._started
        stage = f" {step.stage}:" if step.stage else ""
        share = f"{step.done / step.total:.0%}" if step.total else ""
        parts = [counts(step, self._noun, seconds), share, time_left(step, seconds)]
        return f"{self._title}:{stage} {', '.join(filter(None, parts))}"
