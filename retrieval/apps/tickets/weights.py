"""The two weights of a hybrid score, and what they must be."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from pydantic import Field

from retrieval.apps.tickets.errors import ProcessingError

VECTOR_WEIGHT = 0.7
METADATA_WEIGHT = 0.3
NORMALIZATION_HOURS = 100.0

PRIORITY_SHARE = 0.6
TIME_SHARE = 0.4
"""metadata_score = 0.6 × priority + 0.4 × time."""

_TOLERANCE = 1e-6

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""0 to 1."""

Hours = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""Above 0."""


class Weights(NamedTuple):
    """How much similarity and how much the metadata count."""

    vector: float
    metadata: float


DEFAULT_WEIGHTS = Weights(VECTOR_WEIGHT, METADATA_WEIGHT)


def check_weights(weights: Weights, *, prefix: str = "") -> Weights:
    """The weights. Raises ``ProcessingError`` for one that is no number from 0 to 1, or when they do not add up to 1.

    ``prefix`` is what their names begin with, in the message.
    """
    names = (f"{prefix}vector_weight", f"{prefix}metadata_weight")
    for name, value in zip(names, weights, strict=True):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ProcessingError(f"{name} is {value!r:.80}; it must be a number from 0 to 1")
        if not 0 <= value <= 1:
            raise ProcessingError(f"{name} is {value:g}; it must be a number from 0 to 1")
    if abs(sum(weights) - 1) > _TOLERANCE:
        raise ProcessingError(
            f"{names[0]} {weights.vector:g} and {names[1]} {weights.metadata:g} add up to {sum(weights):g} and not to "
            "1; give both, such as 0.7 and 0.3"
        )
    return weights
