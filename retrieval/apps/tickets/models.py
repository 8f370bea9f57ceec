"""The settings, requests and responses of the service, and the hybrid score: weights, priorities and the profile.

A value outside its range, in a request or in the configuration, raises pydantic's ``ValidationError``, which is a
``ValueError``; so is ``ProcessingError``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticKnownError
from pydantic_settings import BaseSettings, SettingsConfigDict

from retrieval.apps.tickets.ticket_item import HOURS, PRIORITY, RESOLVED_AT
from retrieval.domain.checks import checked_number, choices_hint, iso_time, written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.search.profile import MAX_DEPTH, Fusion, FusionKind, LegName, Profile
from retrieval.domain.search.profile_parts import Combination, Learned
from retrieval.domain.search.signals import KnownHours, Priority, ResolutionTime, VectorSimilarity

TOP_K = 20

VECTOR_WEIGHT = 0.7
METADATA_WEIGHT = 0.3
NORMALIZATION_HOURS = 100.0

PRIORITY_SHARE = 0.6
TIME_SHARE = 0.4
"""metadata_score = 0.6 × priority + 0.4 × time."""

UNKNOWN_HOURS = 24.0
"""The hours of a ticket with an unknown time of resolution, in its score and in answers."""


def _numeric(value: Any) -> Any:
    if isinstance(value, bool | str | bytes):
        raise PydanticKnownError("float_type")
    return value


_NUMERIC = BeforeValidator(_numeric)
"""Refuses true, false and texts, which pydantic reads as numbers."""

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), _NUMERIC]
"""0 to 1."""

Hours = Annotated[float, Field(gt=0, allow_inf_nan=False), _NUMERIC]
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
        if value is not None:
            checked_number(name, value, error=ProcessingError)
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
        raise ProcessingError(f"there is no preset {written(name)}; {choices_hint(name, PRESETS)}")
    return plain


UNKNOWN = 0.5

ALIASES: Mapping[str, str] = MappingProxyType(
    {"Blocker": "Critical", "Highest": "Critical", "Major": "Medium", "Minor": "Low", "Lowest": "Low", "Trivial": "Low"}
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
        plain = {name.strip().casefold(): weight for name, weight in weights.items()}
        aliases = {alias: plain[name.casefold()] for alias, name in ALIASES.items() if alias.casefold() not in plain}
        return aliases | weights


def tickets_profile(
    vector_weight: float | None = None,
    metadata_weight: float | None = None,
    priority_weights: PriorityWeights | Mapping[str, float] | None = None,
    time_normalization_hours: float = NORMALIZATION_HOURS,
    *,
    candidates: int = TOP_K,
    known: KnownHours = KnownHours.UNLESS_LATER,
) -> Profile:
    """vector_weight × similarity + metadata_weight × (0.6 × priority + 0.4 × time), over the nearest tickets.

    time = max(0, 1 - resolution hours / ``time_normalization_hours``); unknown hours count as 24. Weights: see
    ``weights_of``. The nearest ``candidates`` tickets are scored, 1 to 1000. ``known``: the rule by which hours are
    known. The learned reward does not count.

    Raises ``ProcessingError`` for weights, pydantic's ``ValidationError`` for weights of priorities, and
    ``InvalidProfileError`` for hours that are not above 0.
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
                known=known,
                normalization_hours=time_normalization_hours,
                unknown_hours=UNKNOWN_HOURS,
            ),
        ),
        learned=Learned(combination=Combination.OFF),
    )


MAX_TOP_K = 100

TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K), _NUMERIC]
"""The number of results, 1 to 100."""

Candidates = Annotated[int, Field(ge=1, le=MAX_DEPTH), _NUMERIC]
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

    @field_validator(
        "default_top_k", "default_vector_weight", "default_metadata_weight", "default_time_normalization_hours",
        mode="before",
    )  # fmt: skip
    @classmethod
    def _number_of_environment(cls, value: Any) -> Any:
        with suppress(ValueError):
            return float(value) if isinstance(value, str) else value
        return value

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


Moment = Annotated[AwareDatetime, BeforeValidator(iso_time)]
"""A time with a zone, or ISO 8601 text; never a number."""


class Weighted(BaseModel, frozen=True):
    """A model with two weights, of which the one that its caller left out is 1 minus the other."""

    @model_validator(mode="after")
    def _both_weights(self) -> Self:
        complete_weights(self)
        return self

    @property
    def weights(self) -> Weights:
        """Both weights."""
        return Weights(*(getattr(self, name) for name in _WEIGHTS))


class SimilarTicket(BaseModel, frozen=True):
    """A found ticket, with the parts of its score."""

    ticket_id: str
    title: str
    description: str
    similarity_score: float
    """vector_weight × vector_similarity + metadata_weight × metadata_score: 0 to the sum of the two weights."""
    vector_similarity: float
    """The cosine of the two vectors, 0 to 1: negative counts as 0."""
    metadata_score: float
    """0.6 × priority + 0.4 × time, 0 to 1."""
    priority: str
    """The stored priority; empty if it has none."""
    labels: list[str]
    resolution_time_hours: float
    """The hours until its resolution; 24, as in its score, if they are unknown or were unknown at ``as_of``."""
    domain: str
    """The stored domain; empty if it has none."""
    resolution: str | None = None
    """The resolution; None if there is none, or there was none at ``as_of``."""
    resolution_time_known: bool = True
    """False if the hours are the default."""


class SearchMetadata(BaseModel, frozen=True):
    """Metadata of the search."""

    query_domain: str | None = None
    total_found: int
    avg_similarity: float
    """The mean of their scores; 0 without any."""
    top_similarity: float
    """The highest of their scores; 0 without any."""
    index_total: int
    """The number of vectors in the index, regardless of the filter; for a large index it may be some seconds old."""


class RetrievalResponse(BaseModel, frozen=True):
    """Similar tickets, the best first."""

    similar_tickets: list[SimilarTicket]
    search_metadata: SearchMetadata
    config_used: dict[str, Any]
    """The parameters of the search: four are always given, the others if they are not the defaults."""


class RetrievalRequest(Weighted, frozen=True, hide_input_in_errors=True, extra="forbid"):
    """A search: by a text, by a ticket's title and description, or by the caller's embedding.

    Without any of these ``RetrievalService.process`` raises ``ProcessingError``. The embedding takes precedence over
    the text, and the text over the ticket. Raises pydantic's ``ValidationError`` for an unknown name, a value outside
    its range, weights that are both 0, and an unknown preset.
    """

    query_text: str | None = None
    query_embedding: list[Annotated[float, _NUMERIC]] | None = None
    """Shape (dimensions of the collection's space,); 3072 for text-embedding-3-large."""
    title: str | None = None
    description: str | None = None
    """Title and description are joined by a newline, as those of the stored tickets are."""

    top_k: TopK = TOP_K
    """1 to 100; by default the configuration's."""
    candidates: Candidates | None = None
    """The number of nearest tickets that are scored, ``top_k`` to 1000; None: ``top_k``, so that metadata change only
    the order of the tickets."""
    domain_filter: str | None = None
    """Only tickets of this domain are found; empty: of any."""

    vector_weight: Share = VECTOR_WEIGHT
    """By default the configuration's. If only one of the two weights is given, the other is 1 minus it; two are used
    as they are, whatever their sum."""
    metadata_weight: Share = METADATA_WEIGHT
    preset: str | None = None
    """Weights by name, instead of the two: semantic_match, balanced, priority_focused or fast_resolution."""
    priority_weights: PriorityWeights | None = None
    time_normalization_hours: Hours = NORMALIZATION_HOURS
    """Above 0; by default the configuration's."""

    as_of: Moment | None = None
    """Search as of that time: only tickets that existed before it, and only resolutions known by then."""
    exclude_ids: list[str] = Field(default_factory=list)
    exclude_self: str | None = None
    """The id of the ticket that is searched for, to leave it out if it is stored."""

    @field_validator("query_embedding", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else value

    @model_validator(mode="before")
    @classmethod
    def _by_preset(cls, values: Any) -> Any:
        values = given_weights(values)
        if not isinstance(values, dict) or values.get("preset") is None:
            return values
        weights = PRESETS[preset_named(values["preset"])]
        preset_values = {"vector_weight": weights.vector, "metadata_weight": weights.metadata}
        if any(values.get(name, weight) != weight for name, weight in preset_values.items()):
            raise ProcessingError(
                f"preset {written(values['preset'])} is {weights.vector:g} and {weights.metadata:g}; give either the "
                "preset or weights"
            )
        return values | preset_values

    @property
    def text(self) -> str:
        """The text to search for; may be empty."""
        if self.query_text and self.query_text.strip():
            return self.query_text.strip()
        return f"{(self.title or '').strip()}\n{(self.description or '').strip()}".strip()


CUSTOM = "custom"


class Weighting(Weighted, frozen=True, extra="forbid"):
    """A weighting of the candidates. Raises pydantic's ``ValidationError`` as ``RetrievalRequest`` does."""

    name: str
    vector_weight: Share
    metadata_weight: Share
    priority_weights: PriorityWeights | None = None
    time_normalization_hours: Hours | None = None
    """None: the configuration's."""

    @classmethod
    def of(cls, name: str, weights: Weights | None = None) -> Self:
        """The weighting of that name: the preset, or one with those weights. Raises as ``preset_named`` does."""
        if weights is None:
            name = preset_named(name)
            weights = PRESETS[name]
        return cls(name=name, vector_weight=weights.vector, metadata_weight=weights.metadata)


class PreviewConfig(Weighted, frozen=True, extra="forbid"):
    """The settings of a preview, which compares other weightings with the first one.

    ``{"top_k": 20, "vector_weight": 0.6, "metadata_weight": 0.4}`` compares those weights, as ``custom``, with the
    service's default. If only one weight is given, the other is 1 minus it. Without weights and weightings the four
    presets are compared with the service's default.
    """

    top_k: TopK | None = None
    """The number of tickets shown of each ranking; None: the configuration's."""
    candidates: Candidates | None = None
    """The number of nearest tickets that are ranked, as in a request; None: ``top_k``."""
    weightings: list[Weighting] = Field(default_factory=list, max_length=20)
    """Weightings, or names of presets; empty: the service's default and the four presets."""
    vector_weight: Share | None = None
    metadata_weight: Share | None = None
    priority_weights: PriorityWeights | None = None
    """The priorities' weights of the weighting ``custom``."""
    time_normalization_hours: Hours | None = None
    as_of: Moment | None = None
    exclude_ids: list[str] = Field(default_factory=list)

    @field_validator("weightings", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return [Weighting.of(each) if isinstance(each, str) else each for each in value]

    @model_validator(mode="before")
    @classmethod
    def _weightings_alone(cls, values: Any) -> Any:
        return {"weightings": values} if isinstance(values, list | tuple) else values

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [*(weighting.name for weighting in self.weightings), *([CUSTOM] if self._has_custom else [])]
        if len(set(names)) < len(names):
            raise ValueError(f"a weighting is named twice: {', '.join(names)}")
        return self

    @property
    def _has_custom(self) -> bool:
        """True if the preview has weights besides the weightings."""
        return any(
            change is not None for change in (self.vector_weight, self.priority_weights, self.time_normalization_hours)
        )

    def compared_weightings(self, own: Weights) -> list[Weighting]:
        """The weightings to compare; ``own`` are the service's default weights."""
        base = Weighting.of(next((name for name, weights in PRESETS.items() if weights == own), "default"), own)
        if not self._has_custom:
            others = [Weighting.of(name, weights) for name, weights in PRESETS.items() if name != base.name]
            return self.weightings or [base, *others]
        custom = Weighting(
            name=CUSTOM,
            vector_weight=own.vector if self.vector_weight is None else self.vector_weight,
            metadata_weight=own.metadata if self.metadata_weight is None else self.metadata_weight,
            priority_weights=self.priority_weights,
            time_normalization_hours=self.time_normalization_hours,
        )
        return [*(self.weightings or [base]), custom]


class MovedTicket(BaseModel, frozen=True):
    """A ticket under one weighting, compared with the first weighting."""

    ticket: SimilarTicket
    """Scored by this weighting."""
    rank: int
    """The rank, from 1."""
    rank_before: int
    """The rank under the first weighting, from 1, among all candidates."""
    moved: int
    """The number of places up; negative: down."""
    contributions: dict[str, float]
    """The part of each signal in the score: vector_similarity, priority, resolution_time."""
    changes: dict[str, float]
    """The change of each part from the first weighting."""
    against_others: dict[str, float]
    """The change minus the average change of the tickets on both pages: this moves the ticket."""
    why: str


class WeightingPreview(BaseModel, frozen=True):
    """The ranking of one weighting."""

    weighting: Weighting
    tickets: list[MovedTicket]
    """The best ``top_k``, best first."""
    entered: list[str]
    """Tickets on this page that are not on the first weighting's."""
    left: list[MovedTicket]
    """Tickets on the first weighting's page that are not on this one, in its order."""
    summary: str


class SearchPreview(BaseModel, frozen=True):
    """The same candidates under each weighting."""

    query: str
    domain: str | None
    candidates: int
    """The number of nearest tickets that were scored."""
    baseline: str
    """The first weighting's name."""
    previews: list[WeightingPreview]
