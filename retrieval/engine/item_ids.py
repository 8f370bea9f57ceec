"""Item ids as a caller gives them, checked at the door."""

from __future__ import annotations

from collections.abc import Sequence

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.storable import is_storable


def checked_item_ids(item_ids: Sequence[str]) -> list[str]:
    """The identifiers. Raises ``InvalidRequestError`` for something that no item can be called."""
    if isinstance(item_ids, str) or not isinstance(item_ids, Sequence):
        raise InvalidRequestError(f"item ids come in a list such as ['a', 'b'], not {item_ids!r:.80}")
    for item_id in item_ids:
        if not is_storable(item_id):
            raise InvalidRequestError(f"{item_id!r:.80} is no item id; ids are texts without NUL")
    return list(item_ids)
