"""Metaphors as items of a collection, and back."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from retrieval.apps.metaphors.metaphor import STATIC, Metaphor
from retrieval.apps.metaphors.name_key import name_key
from retrieval.apps.metaphors.records import operations_as_records, operations_from_records
from retrieval.domain.hit import Hit
from retrieval.domain.item import Item

KIND = "metaphor"

ACTIVE, CANDIDATE, REJECTED = "active", "candidate", "archived"
"""Statuses: in the corpus; suggested and not settled yet; kept so that it is not suggested again."""

IN_CORPUS: Mapping[str, str] = MappingProxyType({"kind": KIND, "status": ACTIVE})
"""The filter of those that a problem may be given."""

NAME_KEY, RICHNESS, CONCRETENESS = "name_key", "richness", "concreteness"
SUGGESTED_FOR = "suggested_for"
"""What a suggestion was made for, as its provenance names it (``problem_hash``): an attribute, to be looked up by."""

FILTERABLE: Mapping[str, str] = MappingProxyType({NAME_KEY: "text", "domain": "text", SUGGESTED_FOR: "text"})

RICH_FROM = 6
"""Operations with which a metaphor is as rich as can be."""

_PROVENANCE = "provenance"


FoundMetaphor = Item | Hit
"""What a metaphor comes out of the database as."""


def metaphor_item(
    metaphor: Metaphor, *, source: str = STATIC, status: str = ACTIVE, provenance: Mapping[str, Any] | None = None
) -> Item:
    """The item that a metaphor is stored as. Raises ``InvalidItemError`` for what no item can hold."""
    attributes: dict[str, Any] = {
        "domain": metaphor.domain,
        "description": metaphor.description,
        "operations": operations_as_records(metaphor.operations),
        "examples": list(metaphor.examples),
        NAME_KEY: name_key(metaphor.name),
        RICHNESS: richness(metaphor),
    }
    if metaphor.concreteness is not None:
        attributes[CONCRETENESS] = metaphor.concreteness
    if provenance:
        attributes[_PROVENANCE] = dict(provenance)
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


def metaphor_of(found: FoundMetaphor, embedding: tuple[float, ...] | None = None) -> Metaphor:
    """The metaphor of an item, or of a hit, that ``metaphor_item`` made."""
    return Metaphor(
        id=found.item_id,
        name=found.title,
        domain=found.attributes.get("domain", ""),
        description=found.attributes.get("description", ""),
        operations=operations_from_records(found.attributes.get("operations", ())),
        examples=tuple(found.attributes.get("examples", ())),
        concreteness=found.attributes.get(CONCRETENESS),
        embedding=embedding,
    )


def provenance_of(found: FoundMetaphor) -> Mapping[str, Any]:
    """What was kept of where it came from; empty where nothing was."""
    return MappingProxyType(dict(found.attributes.get(_PROVENANCE) or {}))


def embedded_text(metaphor: Metaphor) -> str:
    """What its vector stands for: name, description and examples.

    Operations are left out: with them fitting ones are found less often (docs/decisions/0024-metaphors.md).
    """
    return f"{metaphor.name}\n{_body(metaphor)}".strip()


def richness(metaphor: Metaphor) -> float:
    """How much can be done with it, 0 to 1: its operations, six or more being 1."""
    return min(1.0, len(metaphor.operations) / RICH_FROM)


def _body(metaphor: Metaphor) -> str:
    helped = f"Helped with: {'; '.join(metaphor.examples)}." if metaphor.examples else ""
    return f"{metaphor.description}\n{helped}".strip()
