"""Progress on standard error."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from retrieval.surfaces.cli.output import Step, counts, progress, time_left


def test_a_terminal_gets_a_bar_with_count_and_rate() -> None:
    """With several stages, the bar shows the stage."""
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=120, color_system=None)
    with progress("tune tickets", "query", to=terminal) as update:
        update(Step(50, 100, 50, "asking the legs"))
    assert "tune tickets: asking the legs" in out.getvalue()
    assert "50%" in out.getvalue()
    assert "50 queries" in out.getvalue()


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Step(0, 100, 0, vectors=0), "0 items, 0 vectors"),
        (Step(1, 10**9, 16, vectors=16), "min left"),
    ],
)
def test_a_terminal_shows_items_vectors_and_the_time_left_from_the_first_second(step: Step, text: str) -> None:
    """The user does not wait before an empty screen."""
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=120, color_system=None)
    with progress("ingest tickets", "item", to=terminal) as update:
        update(step)
    assert text in out.getvalue()


def test_elsewhere_lines_come_whether_or_not_there_is_news() -> None:
    """A service that is slow to answer is not taken for one that hangs."""
    now = [0.0]
    out = io.StringIO()
    terminal = Console(file=out, width=200)
    with progress("ingest tickets", "item", to=terminal, every=0.01, clock=lambda: now[0]) as update:
        now[0] = 10.0
        update(Step(1000.0, 4000.0, 100, vectors=80))
        until = time.monotonic() + 10
        while out.getvalue().count("100 items") < 2 and time.monotonic() < until:
            time.sleep(0.01)
        update(Step(3720.0, 4000.0, 400, vectors=400))
    line = "ingest tickets: 100 items (10/s), 80 vectors (8.0/s), 25%, 30 s left"
    *repeated, last = out.getvalue().splitlines()
    assert [each for each in repeated if "100 items" in each][:2] == [line, line]
    assert last == "ingest tickets: 400 items (40/s), 400 vectors (40/s), 100%"


def test_nothing_is_printed_once_the_work_is_done() -> None:
    """Work that ends at once prints nothing."""
    out = io.StringIO()
    with progress("ingest tickets", "item", to=Console(file=out, width=200)) as update:
        update(Step(1, 1, 1))
    assert out.getvalue() == ""


def test_quiet_means_not_a_word() -> None:
    """Not even on a terminal."""
    out = io.StringIO()
    with progress("x", "item", quiet=True, to=Console(file=out, force_terminal=True)) as update:
        update(Step(1, None, 1))
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("count", "seconds", "text"),
    [(1000, 2.0, "1,000 items (500/s)"), (3, 2.0, "3 items (1.5/s)"), (0, 5.0, "0 items"), (5, 0.0, "5 items")],
)
def test_a_rate_has_the_digits_it_deserves(count: int, seconds: float, text: str) -> None:
    """Before the first item there is no rate."""
    assert counts(Step(0, None, count), "item", seconds) == text


@pytest.mark.parametrize(
    ("count", "total", "seconds", "text"),
    [(1, 4, 10.0, "30 s left"), (1, 61, 10.0, "10 min left"), (0, 4, 10.0, ""), (4, 4, 10.0, ""), (4, None, 10.0, "")],
)
def test_the_time_left_follows_from_what_is_done(count: float, total: float | None, seconds: float, text: str) -> None:
    """An unknown time is not shown."""
    assert time_left(Step(count, total, 0), seconds) == text
