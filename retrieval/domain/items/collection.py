"""A collection: its name, its settings, and the neighbours of its items. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from retrieval.domain.checks import checked_whole, checks_argument_names, is_storable, written
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.attribute import checked_name
from retrieval.domain.notebook import facts_html
from retrieval.domain.search.filters import Field, parse_field
from retrieval.domain.serialization import Serializable

MAX_NAME_BYTES = 512


def check_collection_name(name: str) -> None:
    """Raise ``InvalidRequestError`` for anything but a text of 1 to 512 bytes in UTF-8 without NUL."""
    if not is_storable(name) or not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        raise InvalidRequestError(
            f"a collection's name has 1 to {MAX_NAME_BYTES} bytes and no NUL, not {written(name)}"
        )


class IndexKind(StrEnum):
    """The part of each vector that a collection's HNSW index keeps."""

    AUTO = "auto"
    """As the platform chooses: full."""
    FULL = "full"
    """The vector, in half precision."""
    QUANTISED = "quantised"
    """One bit a dimension; the items that the bits find are compared by the stored vectors."""


MAX_PARTS = 64


def checked_parts(parts: int) -> int:
    """The number of parts of an index. Raises ``InvalidRequestError``."""
    return checked_whole("parts", parts, 1, MAX_PARTS)


OCCURRED_AT = "occurred_at"
"""The item's own time field: the usual order of a sequence."""

MAX_NEIGHBOURS = 20

MAX_OWN_WEIGHT = 100


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours(Serializable):
    """The setting by which the items of a collection are indexed together with their neighbours.

    An item is found by its own words, each counted ``own_weight`` times, and by those of its neighbours' bodies, and by
    the weighed mean of the vectors. Raises ``InvalidRequestError`` for a wrong name, or a number outside its range.
    """

    sequence: str
    """The attribute whose value is the same for all items of a sequence. An item without it has no neighbours."""
    order: str = OCCURRED_AT
    """``occurred_at``, or an attribute that is a number or an ISO 8601 time; items without it come last."""
    before: int = 2
    """The number of preceding items that an item is indexed with, 0 to 20."""
    after: int = 2
    """The number of following items that an item is indexed with, 0 to 20."""
    own_weight: int = 2
    """The weight of the item itself against one neighbour, 1 to 100."""

    def __post_init__(self) -> None:
        checked_name(self.sequence)
        if self.order != OCCURRED_AT:
            checked_name(self.order)
        checked_whole("before", self.before, 0, MAX_NEIGHBOURS)
        checked_whole("after", self.after, 0, MAX_NEIGHBOURS)
        checked_whole("own_weight", self.own_weight, 1, MAX_OWN_WEIGHT)
        if not self.before and not self.after:
            raise InvalidRequestError("neighbours need before or after above 0; use None for a collection without them")


def checked_neighbours(neighbours: object) -> Neighbours | None:
    """The setting, or None for a collection without neighbours. Raises ``InvalidRequestError``."""
    if neighbours is None or isinstance(neighbours, Neighbours):
        return neighbours
    raise InvalidRequestError(f'neighbours are Neighbours(sequence="an attribute") or None, not {written(neighbours)}')


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionInfo(Serializable):
    """A collection at a glance."""

    name: str
    items: int
    """Items that a search can find."""
    pending: int
    """Items that wait for their vector."""
    space: str | None
    """The embedding space's name; None: lexical search only."""
    text_search_config: str
    profile_version: int
    model_version: int
    """The model of the learned reward that searches use; 0: none."""
    has_hnsw: bool
    index: str
    """The kind of HNSW index that it asks for: ``auto``, ``full`` or ``quantised``."""
    is_quantised: bool
    """Whether its HNSW index keeps one bit a dimension."""
    parts: int = 1
    """The number of parts that its HNSW index is to be in."""
    index_parts: int = 0
    """The number of parts that the index is in; 0: there is no index."""
    filterable: Mapping[str, str]
    """The types of the declared attributes, by name."""
    neighbours: Neighbours | None = None
    """The neighbours that its items are indexed together with; None: each is indexed alone."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema that the attributes of its items fit; None: any do."""

    def _repr_html_(self) -> str:
        return facts_html(f"collection {self.name}", self.as_dict().items())


COUNTED_FIELDS = ("tags", "kind", "status", "source")
"""Fields of every item whose values can be counted, beside attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCount:
    """The items of a collection that have one value of an attribute, or one tag."""

    value: str
    """The value as text; empty: the items have none, or an empty text."""
    items: int
    """Items that a search can find."""
    vectors: int


def counted_field(name: object) -> Field:
    """The field whose values are to be counted, named as in a filter. Raises ``InvalidRequestError``."""
    field = parse_field(name)
    if not field.is_attribute and field.name not in COUNTED_FIELDS:
        raise InvalidRequestError(
            f"the values of {written(name)} are not counted; name an attribute, or one of {', '.join(COUNTED_FIELDS)}"
        )
    return field
