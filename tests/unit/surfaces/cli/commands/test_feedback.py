"""Events from the command line: what could not be used."""

from __future__ import annotations

from retrieval.surfaces.cli.commands.feedback import SHOWN, Refused


def test_of_many_refused_lines_the_first_are_kept_and_the_others_counted() -> None:
    """So a large file of nothing but errors takes no memory."""
    refused = Refused()
    for begin in range(0, 3 * SHOWN, 4):
        refused.add([str(number) for number in range(begin, begin + 4)])
    assert refused.number == 3 * SHOWN + 2
    assert refused.first == [str(number) for number in range(SHOWN)]
