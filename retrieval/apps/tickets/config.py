"""The service's settings and errors, and the hybrid score of tickets: weights, priorities and the profile.

A value outside its range, in a request or in the configuration, raises pydantic's ``ValidationError``, which is a
``ValueError``; so is ``ProcessingError``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticKnownError
from pydantic_settings import BaseSettings, SettingsConfigDict

from retrieval.apps.tickets.ticket_item import HOURS, PRIORITY, RESOLVED_AT
from retrieval.domain.checks import choices_hint, is_number
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.profile import MAX_DEPTH, Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.domain.search.signals import Priority, ResolutionTime, VectorSimilarity

TOP_K = 20

VECTOR_WEIGHT = 0.7
METADATA_WEIGHT = 0.3
NORMALIZATION_HOURS = 100.0

PRIORITY_SHARE = 0.6
TIME_SHARE = 0.4
"""metadata_score = 0.6 × priority + 0.4 × time."""

UNKNOWN_HOURS = 24.0
"""The hours of a ticket with an unknown time of resolution, in its score and in answers."""


def _not_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticKnownError("float_type")
    return value


_NOT_BOOLEAN = BeforeValidator(_not_boolean)
"""Refuses true and false, which pydantic reads as 1 and 0; a number may be a text, as in the environment."""

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), _NOT_BOOLEAN]
"""0 to 1."""

Hours = Annotated[float, Field(gt=0, allow_inf_nan=False), _NOT_BOOLEAN]
"""Above 0."""


class Weights(NamedTuple):
    """The weights of similarity and of the metadata."""

    vector: float
    metadata: float


_WEIGHTS = ("vector_weight", "metadata_weight")

_DIGITS = 12
"""The digits to which a complement is rounded, so that 1 - .8 is .2."""


def weights_of(vector: float | None, metadata: float | None, names: Sequence[str] = _WEIGHTS) -> Weights:
    """Both weights: the defaults without any, a single weight with its complement, and two as they are.

    Raises ``ProcessingError`` for a weight that is not a number from 0 to 1, and if both are 0.
    """
    for name, value in zip(names, (vector, metadata), strict=True):
        if value is not None and not is_number(value, 0, 1):
            raise ProcessingError(f"{name} is {value!r:.80}; it must be a number from 0 to 1")
    if vector is None and metadata is None:
        return Weights(VECTOR_WEIGHT, METADATA_WEIGHT)
    weights = Weights(
        round(1 - (metadata or 0), _DIGITS) if vector is None else vector,
        round(1 - (vector or 0), _DIGITS) if metadata is None else metadata,
    )
    if not any(weights):
        raise ProcessingError(f"{names[0]} and {names[1]} are both 0; give one above 0, such as 0.7 and 0.3")
    return weights


def given_weights(values: Any) -> Any:
    """The fields of a model without weights that are None, as JSON has those that are left out."""
    if not isinstance(values, dict):
        return values
    return {name: value for name, value in values.items() if value is not None or name not in _WEIGHTS}


def complete_weights(model: BaseModel, prefix: str = "") -> None:
    """Set the weight of a model that its caller left out, if the other one was given; see ``weights_of``.

    ``prefix`` is that of the names of the two fields. Raises ``ProcessingError`` if both are 0.
    """
    names = [prefix + name for name in _WEIGHTS]
    vector, metadata = (getattr(model, name) if name in model.model_fields_set else None for name in names)
    if vector is not None or metadata is not None:
        for name, weight in zip(names, weights_of(vector, metadata, names), strict=True):
            object.__setattr__(model, name, weight)  # the model may be frozen


PRESETS: Mapping[str, Weights] = MappingProxyType(
    {
        "semantic_match": Weights(0.9, 0.1),
        "balanced": Weights(VECTOR_WEIGHT, METADATA_WEIGHT),
        "priority_focused": Weights(0.5, 0.5),
        "fast_resolution": Weights(0.6, 0.4),
    }
)
"""Weights by purpose: the same meaning whatever the priority; the default; urgent and quickly resolved tickets; quickly
resolved ones.
"""


def preset_named(name: str) -> str:
    """The name of a preset, given in any case, also with spaces or hyphens: ``Priority-Focused``.

    Raises ``ProcessingError`` for an unknown name; the message lists the presets.
    """
    plain = re.sub(r"[\s_-]+", "_", name.strip().casefold()) if isinstance(name, str) else ""
    if plain not in PRESETS:
        raise ProcessingError(f"there is no preset {name!r:.80}; {choices_hint(name, PRESETS)}")
    return plain


UNKNOWN = 0.5
"""The value of a missing or unknown priority, as of Medium."""

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
"""Jira's older and newer names of priorities, each with the name whose weight it has. Major is Jira's default for
tickets that nobody has prioritised, so it counts as Medium.
"""


class PriorityWeights(BaseModel):
    """The weight of each priority, 0 to 1. Other names may have weights too: ``PriorityWeights(Blocker=1.0)``.

    Names are compared case-insensitively. A name in ``ALIASES`` has the weight of the name it stands for, unless it is
    given its own; any other name counts 0.5, and so does a missing priority.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Share] = Field(init=False)

    Critical: Share = 1.0
    High: Share = 0.8
    Medium: Share = 0.5
    Low: Share = 0.3

    def by_name(self) -> dict[str, float]:
        """The weight of each name, aliases included."""
        weights: dict[str, float] = self.model_dump()
        names = {name.strip().casefold() for name in weights}
        aliases = {alias: weights[name] for alias, name in ALIASES.items() if alias.casefold() not in names}
        return aliases | weights


def tickets_profile(
    vector_weight: float | None = None,
    metadata_weight: float | None = None,
    priority_weights: PriorityWeights | Mapping[str, float] | None = None,
    time_normalization_hours: float = NORMALIZATION_HOURS,
    *,
    candidates: int = TOP_K,
) -> Profile:
    """vector_weight × similarity + metadata_weight × (0.6 × priority + 0.4 × time), over the nearest tickets.

    time = max(0, 1 - resolution hours / ``time_normalization_hours``); unknown hours count as 24. The default weights
    are 0.7 and 0.3; if only one is given, the other is 1 minus it. The nearest ``candidates`` tickets are scored, 1 to
    1000. The learned reward does not count.

    Raises ``ProcessingError`` for weights that are not numbers from 0 to 1 or that are both 0, pydantic's
    ``ValidationError`` for invalid weights of priorities, and ``InvalidProfileError`` for hours that are not above 0.
    """
    weights = weights_of(vector_weight, metadata_weight)
    return Profile(
        legs={LegName.DENSE.value: 1.0},
        fusion=Fusion(kind=FusionKind.UNION),
        depth=candidates,
        signals=(
            VectorSimilarity(weight=weights.vector),
            Priority(
                weight=weights.metadata * PRIORITY_SHARE,
                attribute=PRIORITY,
                values=PriorityWeights.model_validate({} if priority_weights is None else priority_weights).by_name(),
                unknown=UNKNOWN,
            ),
            ResolutionTime(
                weight=weights.metadata * TIME_SHARE,
                attribute=HOURS,
                resolved_attribute=RESOLVED_AT,
                normalization_hours=time_normalization_hours,
                unknown_hours=UNKNOWN_HOURS,
            ),
        ),
        learned=Learned(combination=Combination.OFF),
    )


MAX_TOP_K = 100

TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K), _NOT_BOOLEAN]
"""The number of results, 1 to 100."""

Candidates = Annotated[int, Field(ge=1, le=MAX_DEPTH), _NOT_BOOLEAN]
"""The number of tickets that are scored, 1 to 1000."""


class RetrievalConfig(BaseSettings):
    """The settings of the service, each as ``RETRIEVAL_<NAME>`` in the environment; unknown names are ignored.

    The tickets are in a collection: paths of FAISS index files have no effect. Raises pydantic's ``ValidationError``
    for values outside their range and for weights that are both 0.
    """

    model_config = SettingsConfigDict(env_prefix="RETRIEVAL_", extra="ignore", frozen=True, populate_by_name=True)

    collection: str = Field(default="tickets", validation_alias="RETRIEVAL_TICKETS_COLLECTION")
    """The collection that holds the tickets; ``retrieval ingest`` creates it."""
    default_top_k: TopK = TOP_K
    """The number of results of a request without ``top_k``."""
    default_vector_weight: Share = VECTOR_WEIGHT
    """The weight in a request without weights. If only one of the two is set, the other is 1 minus it."""
    default_metadata_weight: Share = METADATA_WEIGHT
    default_time_normalization_hours: Hours = NORMALIZATION_HOURS
    """A resolution that took this long or longer adds nothing to the score."""
    embedding_dimensions: Annotated[int, Field(ge=1)] = 3072
    """The length of the vectors that the collection must have, if it is set; otherwise any length is accepted."""

    @property
    def weights(self) -> Weights:
        """The weights of a request without weights."""
        return Weights(self.default_vector_weight, self.default_metadata_weight)

    @model_validator(mode="after")
    def _both_weights(self) -> Self:
        complete_weights(self, "default_")
        return self


class ProcessingError(InvalidRequestError):
    """An invalid request: nothing to search for, or weights that cannot make a score."""
