"""Recorded searches, as they are read back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from retrieval import Context
from retrieval.domain.records.recorded import context_of


def test_a_record_may_be_older_than_the_checks() -> None:
    """Its situation is read without the characters that are refused now."""
    values = {"domain": "a\u202e", "complexity": None, "actor": "b\x1b[31m", "session": "c\x07"}
    recorded: Any = SimpleNamespace(**values, backtrack_count=0, generation_triggered=False)
    assert context_of(recorded) == Context(domain="a", actor="b", session="c")
