"""Metaphors as plain JSON values: in the file of the curated ones, and in the attributes of an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retrieval.apps.metaphors.metaphor import Metaphor
from retrieval.apps.metaphors.operation import Operation


def metaphor_from_record(record: Mapping[str, Any]) -> Metaphor:
    """The metaphor of that record; what is left out is empty. Raises ``InvalidRequestError`` for what cannot be one."""
    return Metaphor(
        id=record.get("id", ""),
        name=record.get("name", ""),
        domain=record.get("domain", ""),
        description=record.get("description", ""),
        operations=operations_from_records(record.get("operations", ())),
        examples=tuple(record.get("examples", ())),
        concreteness=record.get("concreteness"),
    )


def operations_from_records(records: Sequence[Mapping[str, Any]]) -> tuple[Operation, ...]:
    """The operations of their records."""
    return tuple(
        Operation(
            name=record.get("name", ""),
            effects=tuple(record.get("effects", ())),
            description=record.get("description", ""),
        )
        for record in records
    )


def operations_as_records(operations: Sequence[Operation]) -> list[dict[str, Any]]:
    """Plain JSON values of operations."""
    return [
        {"name": operation.name, "description": operation.description, "effects": list(operation.effects)}
        for operation in operations
    ]
