"""Progress on standard error."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from retrieval.surfaces.cli.output import Step, progress, rate


def test_a_terminal_gets_a_bar_with_count_and_rate() -> None:
    """And the stage, where there are several."""
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=120, color_system=None)
    with progress("tune tickets", "query", to=terminal) as update:
        update(Step(50, 100, 50, "asking the legs"))
    assert "tune tickets: asking the legs" in out.getvalue()
    assert "50%" in out.getvalue()
    assert "50 queries" in out.getvalue()


def test_elsewhere_a_line_comes_now_and_then() -> None:
    """Never two within the time between lines."""
    now = [0.0]
    out = io.StringIO()
    with progress("ingest tickets", "item", to=Console(file=out, width=200), clock=lambda: now[0]) as update:
        for now[0] in (1.0, 9.0, 10.0, 12.0, 20.5):
            update(Step(now[0], 41.0, int(now[0] * 100)))
    assert out.getvalue().splitlines() == [
        "ingest tickets: 1,000 items, 100/s, 24%",
        "ingest tickets: 2,050 items, 100/s, 50%",
    ]


def test_quiet_means_not_a_word() -> None:
    """Not even on a terminal."""
    out = io.StringIO()
    with progress("x", "item", quiet=True, to=Console(file=out, force_terminal=True)) as update:
        update(Step(1, None, 1))
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("counted", "seconds", "shown"), [(1000, 2.0, "500/s"), (3, 2.0, "1.5/s"), (0, 5.0, ""), (5, 0.0, "")]
)
def test_a_rate_has_the_digits_it_deserves(counted: int, seconds: float, shown: str) -> None:
    """Nothing is said before there is something to say."""
    assert rate(counted, seconds) == shown
