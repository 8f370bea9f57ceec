"""What the doctor says of embedders."""

from __future__ import annotations

import pytest

from retrieval.domain.diagnosis import Severity
from retrieval.services.doctor.collections import EmbedderState, check_embedders


@pytest.mark.parametrize(
    ("state", "severity", "found"),
    [
        (EmbedderState(space="a (3)", is_configured=False), Severity.WARNING, "no embedder is configured"),
        (EmbedderState(space="a (3)", is_configured=True, problem="it is down"), Severity.ERROR, "it is down"),
    ],
)
def test_an_embedder_that_gives_no_vectors_is_told(state: EmbedderState, severity: Severity, found: str) -> None:
    """There is none, or it does not answer."""
    (finding,) = check_embedders([EmbedderState(space="good", is_configured=True), state])
    assert (finding.severity, finding.about, found in finding.found) == (severity, "a (3)", True)
