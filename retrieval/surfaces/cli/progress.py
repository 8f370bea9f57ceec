"""How far a long command has come: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from retrieval.surfaces.cli.output import console, count

LINE_SECONDS = 10.0
"""Between two lines where there is no terminal."""


@dataclass(frozen=True, slots=True)
class Step:
    """The state of the work."""

    done: float
    """The work done, in the unit of ``total``."""
    total: float | None
    """None: nobody knows."""
    counted: int
    """The number of items or queries that are done."""
    stage: str = ""
    """The present stage, of a command that has several."""


Update = Callable[[Step], None]


@contextmanager
def progress(
    title: str,
    noun: str,
    *,
    quiet: bool = False,
    to: Console | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Update]:
    """Gives the function to call with each step; ``noun`` is what is counted, in the singular."""
    terminal = to or console(stderr=True)
    if quiet:
        yield lambda _step: None
    elif terminal.is_terminal:
        with _bar(terminal, noun) as bar:
            task = bar.add_task(title, total=None, counted=0)
            yield partial(_advance, bar, task, title)
    else:
        yield _Lines(terminal, title, noun, clock).update


def rate(counted: int, seconds: float) -> str:
    """``480/s``; empty while nothing can be said."""
    if not counted or seconds <= 0:
        return ""
    a_second = counted / seconds
    return f"{a_second:,.0f}/s" if a_second >= 10 else f"{a_second:.1f}/s"


def _bar(terminal: Console, noun: str) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        _CountColumn(noun),
        TimeRemainingColumn(compact=True),
        console=terminal,
        transient=True,
        # Steps may be many seconds apart, where a batch has to be embedded.
        speed_estimate_period=120,
    )


def _advance(bar: Progress, task: TaskID, title: str, step: Step) -> None:
    title = f"{title}: {step.stage}" if step.stage else title
    if bar.tasks[0].description != title:
        bar.reset(task, description=title)
    bar.update(task, description=title, completed=step.done, total=step.total, counted=step.counted)


class _CountColumn(ProgressColumn):
    """``5,000 items  480/s``."""

    def __init__(self, noun: str) -> None:
        super().__init__()
        self._noun = noun

    def render(self, task: Task) -> Text:
        counted = task.fields["counted"]
        return Text(f"{count(counted, self._noun)}  {rate(counted, task.elapsed or 0)}")


class _Lines:
    """Says how far it is at most every ``LINE_SECONDS``."""

    def __init__(self, terminal: Console, title: str, noun: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._title = title
        self._noun = noun
        self._clock = clock
        self._started = self._last = clock()

    def update(self, step: Step) -> None:
        now = self._clock()
        if now - self._last < LINE_SECONDS:
            return
        self._last = now
        stage = f" {step.stage}:" if step.stage else ""
        parts = [count(step.counted, self._noun), rate(step.counted, now - self._started)]
        if step.total:
            parts.append(f"{step.done / step.total:.0%}")
        self._terminal.print(f"{self._title}:{stage} {', '.join(filter(None, parts))}", soft_wrap=True)
