"""What is listed of a collection, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieval.domain.errors import InvalidLimitError
from retrieval.domain.filters import Filter, Where, parse_field
from retrieval.engine.collection_handle import CollectionHandle
from retrieval.engine.request import check_fields

if TYPE_CHECKING:
    from retrieval.domain.stored_item import StoredItem

MAX_LISTED = 10_000
"""What one page of a listing holds at most."""


class ListingCalls(CollectionHandle):
    """The calls that list, for a collection to inherit."""

    async def latest(
        self, where: Where | Filter | None = None, *, limit: int = 100, offset: int = 0
    ) -> list[StoredItem]:
        """The items that the filter lets through, the last changed first, without the first ``offset`` of them.

        Archived ones are left out. ``limit`` is 0 to 10,000; fewer items mean that these are the last. Raises
        ``InvalidLimitError``, and the errors of filters.
        """
        from retrieval.adapters.store.items.listing import latest_items

        _check_page(limit, offset)
        stored, wanted = await self._filtered(where)
        return await latest_items(self._database, self._tenant_id, stored, wanted, limit=limit, offset=offset)

    async def paths(
        self,
        name: str,
        *,
        where: Where | Filter | None = None,
        depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """The different lists that items have under the attribute ``name``, such as ``["docs", "2024"]``, in order.

        They compare element by element, as texts; ``depth`` cuts each to its first elements; ``where`` says of which
        items, archived ones apart. ``limit`` is 0 to 10,000. Raises ``InvalidLimitError``, ``UnknownFieldError`` for an
        attribute that no item has, and the errors of filters.
        """
        from retrieval.adapters.store.items.listing import lists_under

        _check_page(limit, offset)
        if depth is not None:
            _check_number("depth", depth)
        field = parse_field(f"attributes.{name}")
        stored, wanted = await self._filtered(where)
        if field.name not in stored.attributes:
            stored = await self.refresh()
            if stored.documents:
                check_fields(None, stored.attributes, also=field)
        return await lists_under(
            self._database, self._tenant_id, stored, field.name, wanted, depth=depth, limit=limit, offset=offset
        )


def _check_page(limit: int, offset: int) -> None:
    _check_number("limit", limit)
    _check_number("offset", offset)
    if limit > MAX_LISTED:
        raise InvalidLimitError(f"limit is {limit}; it must be a whole number from 0 to {MAX_LISTED}")


def _check_number(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidLimitError(f"{name} is {value!r:.80}; it must be a whole number of at least 0")
