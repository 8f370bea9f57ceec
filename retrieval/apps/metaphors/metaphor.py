"""A metaphor: a framework from another domain for thinking about a problem; its checks, as JSON, as an item. Pure."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from retrieval.apps.probation import ACTIVE
from retrieval.domain.checks import checked_list, checked_number, checks_argument_names
from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.item import Item
from retrieval.domain.search.hit import Hit


def checked_text(name: str, value: object, *, is_needed: bool = False) -> str:
    """The text. Raises ``InvalidRequestError`` for anything else, and for an empty text if ``is_needed``."""
    if not isinstance(value, str) or "\x00" in value:
        raise InvalidRequestError(f"{name} is {value!r:.80}; it must be a text without NUL")
    if is_needed and not value.strip():
        raise InvalidRequestError(f"{name} is empty; give one")
    return value


def checked_texts(name: str, values: object) -> tuple[str, ...]:
    """The texts. Raises ``InvalidRequestError`` for anything but a list of texts."""
    return tuple(checked_text(f"one of {name}", value) for value in checked_list(name, values, "['a', 'b']"))


def checked_numbers(name: str, values: object) -> tuple[float, ...] | None:
    """The numbers; None for None. Raises ``InvalidRequestError`` for anything but a list of finite numbers."""
    if values is None:
        return None
    try:
        numbers = () if isinstance(values, str | bytes) else tuple(map(float, cast("Iterable[float]", values)))
    except (TypeError, ValueError, OverflowError):
        numbers = ()
    if not numbers or not all(map(math.isfinite, numbers)):
        raise InvalidRequestError(f"{name} is {values!r:.80}; give a list of finite numbers, or None")
    return numbers


_ARTICLES = frozenset({"a", "an", "the"})


def name_key(name: str) -> str:
    """The name without case, punctuation and English articles: equal for ``The Ant-Colony`` and ``ant colony``."""
    folded = unicodedata.normalize("NFKC", name).casefold().replace("'", "").replace("’", "")
    words = re.sub(r"[\W_]+", " ", folded).split()
    return " ".join([word for word in words if word not in _ARTICLES] or words) or folded.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The source and status of a metaphor in a corpus."""

    source: str
    """``static``, ``generated``, or an application's own name."""
    status: str
    """``active``: in the corpus; ``candidate``: not settled yet; ``archived``: rejected."""
    provenance: Mapping[str, Any]
    """The origin that the caller gave, such as model and time; may be empty."""


@checks_argument_names
@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation with its effects. Raises ``InvalidRequestError`` for a missing name or a value of a wrong type."""

    name: str
    """The name, such as ``add_reservoir``."""
    effects: tuple[str, ...] = ()
    """The effects; an operation without effects makes a generated metaphor invalid."""
    description: str = ""

    def __post_init__(self) -> None:
        checked_text("an operation's name", self.name, is_needed=True)
        checked_text("an operation's description", self.description)
        object.__setattr__(self, "effects", checked_texts("the effects of an operation", self.effects))


STATIC, GENERATED = "static", "generated"
"""Sources: the curated corpus, and a language model. Any other text is an application's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metaphor:
    """A metaphor. Raises ``InvalidRequestError`` for a missing id or name, and for values of a wrong type."""

    id: str
    """Unique within a corpus, such as ``plumbing``."""
    name: str
    domain: str = ""
    """The field that it comes from, such as ``engineering``."""
    description: str = ""
    operations: tuple[Operation, ...] = ()
    examples: tuple[str, ...] = ()
    """Problems that it helped with."""
    concreteness: float | None = None
    """The ease of picturing it, 0 (abstract) to 1 (tangible); None: unknown."""
    embedding: tuple[float, ...] | None = None
    """Its vector in the corpus's space; None: it is made from the text. ``add`` stores it, scaled to length 1."""

    def __post_init__(self) -> None:
        checked_text("a metaphor's id", self.id, is_needed=True)
        checked_text("a metaphor's name", self.name, is_needed=True)
        for name in ("domain", "description"):
            checked_text(f"a metaphor's {name}", getattr(self, name))
        operations = tuple(self.operations) if isinstance(self.operations, tuple | list) else (None,)
        if not all(isinstance(operation, Operation) for operation in operations):
            raise InvalidRequestError(f"the operations of metaphor {self.id!r} are not a list of Operation(name=...)")
        object.__setattr__(self, "operations", operations)
        object.__setattr__(self, "examples", checked_texts("a metaphor's examples", self.examples))
        object.__setattr__(self, "embedding", checked_numbers("a metaphor's embedding", self.embedding))
        if self.concreteness is not None:
            checked_number("concreteness", self.concreteness)


_RECORDED = ("id", "name", "domain", "description", "examples", "concreteness")


def metaphor_from_record(record: Mapping[str, Any]) -> Metaphor:
    """The metaphor of that record; missing fields are empty. Raises ``InvalidRequestError`` for an invalid record."""
    fields = {name: record[name] for name in _RECORDED if name in record}
    return Metaphor(**fields, operations=tuple(Operation(**operation) for operation in record.get("operations", ())))


def checked_metaphor(name: str, metaphor: object) -> Metaphor:
    """The metaphor. Raises ``InvalidRequestError`` for anything else."""
    if not isinstance(metaphor, Metaphor):
        raise InvalidRequestError(f"{name} is {metaphor!r:.80}; give a Metaphor, such as one that was retrieved")
    return metaphor


def checked_metaphors(name: str, metaphors: object) -> list[Metaphor]:
    """The metaphors. Raises ``InvalidRequestError`` for anything but a list of metaphors."""
    each = checked_list(name, metaphors, "[Metaphor(id=..., name=...)]")
    return [checked_metaphor(f"one of {name}", metaphor) for metaphor in each]


LEAST_OPERATIONS = 2
LEAST_DESCRIPTION = 20
"""The fewest operations of a valid metaphor, and the shortest description, in characters, without a warning."""


def validate_metaphor(metaphor: Metaphor) -> tuple[bool, list[str]]:
    """Whether a metaphor can be used, and a list of all its issues.

    Fewer than two operations, or an operation without effects, make it invalid. A description of less than 20
    characters and missing examples are only warnings. Raises ``InvalidRequestError`` for anything but a metaphor.
    """
    checked_metaphor("metaphor", metaphor)
    issues = []
    if len(metaphor.operations) < LEAST_OPERATIONS:
        issues.append(f"Too few operations (need at least {LEAST_OPERATIONS})")
    without = [operation for operation in metaphor.operations if not operation.effects]
    issues += [f"Operation '{operation.name}' has no effects" for operation in without]
    is_valid = not issues
    if len(metaphor.description) < LEAST_DESCRIPTION:
        issues.append("Description too short")
    if not metaphor.examples:
        issues.append("No examples provided (recommended)")
    return is_valid, issues


KIND = "metaphor"

IN_CORPUS: Mapping[str, str] = MappingProxyType({"kind": KIND, "status": ACTIVE})
"""The filter of the metaphors of the corpus. Candidates are not in it yet, archived metaphors not any more: they stay
stored so that they are not suggested again.
"""

NAME_KEY, RICHNESS, CONCRETENESS, PROVENANCE = "name_key", "richness", "concreteness", "provenance"
SUGGESTED_FOR = "suggested_for"
"""The filterable attribute with the ``problem_hash`` of a suggestion's provenance."""

FILTERABLE: Mapping[str, str] = MappingProxyType({NAME_KEY: "text", "domain": "text", SUGGESTED_FOR: "text"})

RICH_FROM = 6
"""The number of operations from which the richness of a metaphor is 1."""


def metaphor_item(
    metaphor: Metaphor, *, source: str = STATIC, status: str = ACTIVE, provenance: Mapping[str, Any] | None = None
) -> Item:
    """The item that stores a metaphor. Raises ``InvalidItemError`` for values that an item cannot hold."""
    attributes: dict[str, Any] = {
        "domain": metaphor.domain,
        "description": metaphor.description,
        "operations": [
            {"name": operation.name, "description": operation.description, "effects": list(operation.effects)}
            for operation in metaphor.operations
        ],
        "examples": list(metaphor.examples),
        NAME_KEY: name_key(metaphor.name),
        RICHNESS: min(1.0, len(metaphor.operations) / RICH_FROM),
    }
    if metaphor.concreteness is not None:
        attributes[CONCRETENESS] = metaphor.concreteness
    if provenance:
        attributes[PROVENANCE] = dict(provenance)
        if "problem_hash" in provenance:
            attributes[SUGGESTED_FOR] = provenance["problem_hash"]
    return Item(
        item_id=metaphor.id,
        title=metaphor.name,
        body=_body(metaphor),
        kind=KIND,
        attributes=attributes,
        status=status,
        source=source,
    )


def metaphor_of(stored: Item | Hit) -> Metaphor:
    """The metaphor of an item, or of a hit, that ``metaphor_item`` made."""
    return metaphor_from_record({**stored.attributes, "id": stored.item_id, "name": stored.title})


def embedded_text(metaphor: Metaphor) -> str:
    """The text that is embedded: name, description and examples.

    Operations are left out, because they make searches worse (docs/decisions/0024-metaphors.md).
    """
    return f"{metaphor.name}\n{_body(metaphor)}".strip()


def _body(metaphor: Metaphor) -> str:
    helped = f"Helped with: {'; '.join(metaphor.examples)}." if metaphor.examples else ""
    return f"{metaphor.description}\n{helped}".strip()
