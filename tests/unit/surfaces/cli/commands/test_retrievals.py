"""A replay as it is printed."""

from __future__ import annotations

import io
import uuid
from dataclasses import replace

from rich.console import Console

from retrieval.engine.replay import Difference, Replay
from retrieval.surfaces.cli.commands.retrievals import replay_lines as lines
from tests.support.recording import MOMENT

SAME = Replay(
    retrieval_id=uuid.UUID(int=7),
    retrieved_at=MOMENT,
    collection="docs",
    query="some words",
    is_reproduced=True,
    why_not=(),
    changes=(),
    differences=(),
)
GONE = Difference(
    item_id="a", rank_then=1, rank_now=None, score_then=0.5, score_now=None, why=("the item was removed",)
)


def test_a_replay_without_differences_says_so() -> None:
    """The query, that its ranking holds, and that today's answer is the same."""
    assert list(lines(SAME)) == [
        "docs: 'some words', 2026-02-03 04:05:06 UTC",
        "the ranking follows from its record",
        "today's answer is the same",
    ]


def test_deviations_and_changes_are_listed() -> None:
    """A line each."""
    changed = replace(SAME, is_reproduced=False, why_not=("a score is wrong",), changes=("the profile changed",))
    assert list(lines(changed))[1:] == ["the ranking is not reproduced:", "  a score is wrong", "the profile changed"]


def test_each_difference_is_a_row() -> None:
    """With both ranks and scores, and why."""
    out = Console(file=io.StringIO(), width=100)
    *_, differences = lines(replace(SAME, differences=(GONE,)))
    out.print(differences)
    printed = out.file.getvalue()  # type: ignore[attr-defined]
    assert printed.splitlines()[-1].split() == ["a", "1", "–", "0.5000", "–", "the", "item", "was", "removed"]


def test_as_json_it_has_the_same() -> None:
    """Plain values under the same names."""
    written = replace(SAME, differences=(GONE,)).as_dict()
    assert written["is_same_today"] is False
    assert written["differences"] == [
        {
            "item_id": "a",
            "rank_then": 1,
            "rank_now": None,
            "score_then": 0.5,
            "score_now": None,
            "why": ["the item was removed"],
        }
    ]
