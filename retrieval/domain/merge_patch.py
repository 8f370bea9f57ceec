"""JSON merge patches (RFC 7396), and items that are changed by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieval.domain.errors import InvalidItemError
from retrieval.domain.item import MAX_NESTING, Item


def merged(target: object, patch: object, depth: int = 0) -> Any:
    """The target with the patch's members in place of its own, and without those that are null there.

    A patch that is no object takes the target's place. Raises ``InvalidItemError`` for one beyond 64 levels.
    """
    if depth > MAX_NESTING:
        raise InvalidItemError(f"a change is nested deeper than {MAX_NESTING} levels; flatten it")
    if not isinstance(patch, Mapping):
        return patch
    changed: dict[str, Any] = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            changed.pop(name, None)
        else:
            changed[name] = merged(changed.get(name), value, depth + 1)
    return changed


def checked_changes(item_id: str, changes: object) -> Mapping[str, Any]:
    """Changes to an item of that id, by the names of its fields. Raises ``InvalidItemError`` for anything else."""
    if not isinstance(changes, Mapping):
        raise InvalidItemError(
            f"item {item_id!r:.80}: changes are an object such as {{'title': 'new'}}", item_id=item_id
        )
    unknown = [name for name in changes if name not in Item.__slots__]
    if unknown:
        raise InvalidItemError(
            f"item {item_id!r:.80}: an item has no {unknown[0]!r:.40}; it has {', '.join(Item.__slots__)}; "
            "what else is known of it stands in attributes",
            item_id=item_id,
        )
    if changes.get("item_id", item_id) != item_id:
        raise InvalidItemError(
            f"item {item_id!r:.80}: an item keeps its id; add it anew under another", item_id=item_id
        )
    if not isinstance(changes.get("attributes") or {}, Mapping):
        raise InvalidItemError(f"item {item_id!r:.80}: attributes must be an object", item_id=item_id)
    return changes
