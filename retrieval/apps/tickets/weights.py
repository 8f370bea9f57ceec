"""The two weights of a hybrid score, the four weightings that have a name, and what a priority is worth. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from retrieval.apps.tickets.errors import ProcessingError

VECTOR_WEIGHT = 0.7
METADATA_WEIGHT = 0.3
NORMALIZATION_HOURS = 100.0

PRIORITY_SHARE = 0.6
TIME_SHARE = 0.4
"""metadata_score = 0.6 × priority + 0.4 × time."""

UNKNOWN_HOURS = 24.0
"""The hours that a ticket counts as and is told with, where nobody knows how long its resolution took."""

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""0 to 1."""

Hours = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""Above 0."""


class Weights(NamedTuple):
    """The weights of similarity and of the metadata."""

    vector: float
    metadata: float


DEFAULT_WEIGHTS = Weights(VECTOR_WEIGHT, METADATA_WEIGHT)

_DIGITS = 12
"""The digits of a complement: 1 - .8 is .2, and not what binary numbers make of it."""


def weights_of(vector: float | None, metadata: float | None) -> Weights:
    """Both weights: the defaults without any, beside one alone its complement, and two as they are.

    Raises ``ProcessingError`` as ``check_weights`` does.
    """
    given = {"vector_weight": vector, "metadata_weight": metadata}
    both = with_complement(given) if vector is not None or metadata is not None else DEFAULT_WEIGHTS._asdict()
    return check_weights(Weights(*both.values()))


def with_complement(given: Mapping[str, Any], *, prefix: str = "") -> dict[str, Any]:
    """Gives the weights, and where one of the two is given alone, the other: 1 minus it.

    A weight that is no number from 0 to 1 has no complement: ``check_weights`` refuses it. ``prefix`` is what the names
    of the weights begin with.
    """
    names = (f"{prefix}vector_weight", f"{prefix}metadata_weight")
    for name, other in (names, names[::-1]):
        weight = _share(given.get(name)) if given.get(other) is None else None
        if weight is not None:
            return {**given, other: round(1 - weight, _DIGITS)}
    return dict(given)


def check_weights(weights: Weights, *, prefix: str = "") -> Weights:
    """The weights. Raises ``ProcessingError`` for one that is no number from 0 to 1, and where both are 0.

    ``prefix`` is what their names begin with, in the message.
    """
    names = (f"{prefix}vector_weight", f"{prefix}metadata_weight")
    for name, value in zip(names, weights, strict=True):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ProcessingError(f"{name} is {value!r:.80}; it must be a number from 0 to 1")
        if not 0 <= value <= 1:
            raise ProcessingError(f"{name} is {value:g}; it must be a number from 0 to 1")
    if not any(weights):
        raise ProcessingError(f"{names[0]} and {names[1]} are both 0; give one above 0, such as 0.7 and 0.3")
    return weights


def _share(value: Any) -> float | None:
    """The number from 0 to 1, written as a text too, as the environment has it; None for anything else."""
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number <= 1 else None


@dataclass(frozen=True, slots=True)
class Preset:
    """Weights for a purpose."""

    name: str
    weights: Weights
    about: str


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        name: Preset(name, Weights(*weights), about)
        for name, weights, about in (
            ("semantic_match", (0.9, 0.1), "what says the same, whatever its priority"),
            ("balanced", (0.7, 0.3), "the default"),
            ("priority_focused", (0.5, 0.5), "what was urgent and soon resolved, among what is alike"),
            ("fast_resolution", (0.6, 0.4), "what is alike and was soon resolved"),
        )
    }
)
"""The weightings by name."""


def preset(name: str) -> Preset:
    """The preset of that name, whatever its case, with spaces or hyphens too: ``Priority-Focused``.

    Raises ``ProcessingError`` naming those there are.
    """
    found = PRESETS.get(re.sub(r"[\s_-]+", "_", name.strip().casefold())) if isinstance(name, str) else None
    if found is None:
        raise ProcessingError(f"there is no preset {name!r:.80}; there are {', '.join(PRESETS)}")
    return found


UNKNOWN = 0.5
"""The value of a priority that is missing or not named: the middle, as Medium."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "Blocker": "Critical",
        "Highest": "Critical",
        "Major": "Medium",
        "Minor": "Low",
        "Lowest": "Low",
        "Trivial": "Low",
    }
)
"""Jira's other names, older and newer, each with the name whose weight it has. Major is what Jira gives to a ticket
that nobody judged, so it stands in the middle; Critical, High, Medium and Low are themselves."""


class PriorityWeights(BaseModel):
    """The weight of each priority, 0 to 1. Any further name may be given one: ``PriorityWeights(Blocker=1.0)``.

    Names are compared whatever their case. One of ``ALIASES`` that is not given has the weight of its model; any
    other is worth 0.5, and so is a ticket without a priority.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Share] = Field(init=False)

    Critical: Share = 1.0
    High: Share = 0.8
    Medium: Share = 0.5
    Low: Share = 0.3

    def by_name(self) -> dict[str, float]:
        """Every name that has a weight, with its weight."""
        own: dict[str, float] = self.model_dump()
        given = {name.strip().casefold() for name in own}
        aliases = {alias: own[name] for alias, name in ALIASES.items() if alias.casefold() not in given}
        return aliases | own
