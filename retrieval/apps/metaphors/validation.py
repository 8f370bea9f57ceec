"""Whether a metaphor that a language model made can be used."""

from __future__ import annotations

from retrieval.apps.metaphors.checks import checked_metaphor
from retrieval.apps.metaphors.metaphor import Metaphor

LEAST_OPERATIONS = 2
LEAST_DESCRIPTION = 20
"""Characters."""

_TOO_FEW = f"Too few operations (need at least {LEAST_OPERATIONS})"
_NO_EFFECTS = "has no effects"


def validate_metaphor(metaphor: Metaphor) -> tuple[bool, list[str]]:
    """Whether it can be used, and every issue found.

    Fewer than two operations, or one without effects, make it invalid. A description of less than 20 characters and
    missing examples are named only. Raises ``InvalidRequestError`` for what is no metaphor.
    """
    checked_metaphor("metaphor", metaphor)
    issues = []
    if len(metaphor.operations) < LEAST_OPERATIONS:
        issues.append(_TOO_FEW)
    without = [operation for operation in metaphor.operations if not operation.effects]
    issues += [f"Operation '{operation.name}' {_NO_EFFECTS}" for operation in without]
    is_valid = not issues
    if len(metaphor.description) < LEAST_DESCRIPTION:
        issues.append("Description too short")
    if not metaphor.examples:
        issues.append("No examples provided (recommended)")
    return is_valid, issues
