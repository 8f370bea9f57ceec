"""What ``retrieval reembed`` prints."""

from __future__ import annotations

import pytest
from rich.console import Console

from retrieval.services.reembed import ReembeddingCost
from retrieval.surfaces.cli.commands.jobs import _cost_table


@pytest.mark.parametrize(("number", "told"), [(0, ""), (1, "1 item without text"), (2, "2 items without text")])
def test_the_cost_says_which_vectors_are_not_moved(number: int, told: str) -> None:
    """Nothing is said where there is none."""
    cost = ReembeddingCost(
        target="acme/model (3)", items=9, without_text=number, texts=9, tokens=90, price=None, vector_bytes=0,
        minutes=None, days=None, note="",
    )  # fmt: skip
    console = Console(width=200)
    with console.capture() as printed:
        console.print(_cost_table(cost))
    assert ("not embedded" in printed.get(), told in printed.get()) == (number > 0, True)
