"""What a stand-in for a search does with the filter that leaves an item out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def excluded_item(where: dict[str, Any] | None) -> str | None:
    """The item that the filter leaves out, as ``retrieval.services.judgements.without_item`` writes it."""
    parts = (where or {}).get("and", [where or {}])
    found = [part["item_id"]["ne"] for part in parts if "item_id" in part]
    return found[0] if found else None


def kept(item_ids: Iterable[str], where: dict[str, Any] | None) -> list[str]:
    """The ids without the one that the filter leaves out."""
    own = excluded_item(where)
    return [item_id for item_id in item_ids if item_id != own]
