"""Recorded searches, as they are read back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from retrieval import Context
from retrieval.domain.records.recorded import context_of


def test_the_situation_of_an_imported_record_is_read_without_characters_that_a_call_may_not_send() -> None:
    """Replay and feedback could not make a situation of it otherwise."""
    values = {"domain": "a\u202e", "complexity": None, "actor": "b\x1b[31m", "session": "c\x07"}
    recorded: Any = SimpleNamespace(**values, backtrack_count=0, generation_triggered=False)
    assert context_of(recorded) == Context(domain="a", actor="b", session="c")
