"""The stages of a search: their times add up, and each has its span."""

from __future__ import annotations

import pytest

from retrieval.adapters.tracing import span
from retrieval.engine.search import Stages
from tests.support.traces import record_spans


def test_stages_of_one_name_add_up() -> None:
    """A stage ends where the next begins; one without a name is not timed."""
    moments = iter([0.0, 0.0, 0.001, 0.003, 0.006])
    with Stages(lambda: next(moments), None) as stages:
        for lap in ("embed", "candidates", "embed", ""):
            assert stages.begin("retrieval.stage", lap) is None

    assert stages.timings() == {"embed": 4.0, "candidates": 2.0, "total": 6.0}


def test_each_stage_has_a_span_and_the_one_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are children of the search's span, in sequence."""
    spans = record_spans(monkeypatch)

    def fail() -> None:
        with span("search") as traced, Stages(lambda: 0.0, traced) as stages:
            stages.begin("embed", "embed")
            stages.begin("candidates", "candidates")
            raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        fail()

    assert [span.name for span in spans.children_of(spans.only("search"))] == ["embed", "candidates"]
    assert "error.type" not in (spans.only("embed").attributes or {})
    assert (spans.only("candidates").attributes or {})["error.type"] == "ValueError"
