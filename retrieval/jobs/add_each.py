"""Adding items each of which is told what became of it: one that is refused holds up no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from retrieval.adapters.readers import item_from_record
from retrieval.adapters.store.items.items import became
from retrieval.domain.errors import InvalidItemError, InvalidRequestError
from retrieval.domain.item import Item
from retrieval.domain.stored_item import Became
from retrieval.jobs.add import AddReport, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOutcome:
    """What became of one item of many: ``became`` or ``error`` is set."""

    item_id: str | None
    """None where what was given has no usable id."""
    became: Became | None = None
    error: InvalidRequestError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedEach:
    """What became of each of many items."""

    outcomes: tuple[ItemOutcome, ...] = ()
    """In the order of the items."""
    report: AddReport = field(default_factory=AddReport)
    """Of those that were not refused, all together."""


async def add_each(writer: Writer, given: Sequence[Item | Mapping[str, Any]]) -> AddedEach:
    """Store the items that can be, in one transaction, then embed them; tell of each what became of it.

    Of items with the same id the last one stays, and each is told what it would have been told alone.
    """
    checked = [_checked(one) for one in given]
    items = [one for one in checked if isinstance(one, Item)]
    if not items:
        return AddedEach(outcomes=tuple(outcomes_of(checked, {})))
    report, written = await writer.add_beside(items)
    return AddedEach(outcomes=tuple(outcomes_of(checked, written.formers)), report=report)


def outcomes_of(given: Sequence[Item | InvalidItemError], known: Mapping[str, bytes]) -> list[ItemOutcome]:
    """What becomes of each, one after the other, where ``known`` holds the content hashes of what is stored. Pure."""
    stored, outcomes = dict(known), []
    for one in given:
        if isinstance(one, InvalidItemError):
            outcomes.append(ItemOutcome(item_id=one.item_id, error=one))
            continue
        former = stored.get(one.item_id)
        stored[one.item_id] = one.content_hash
        outcomes.append(ItemOutcome(item_id=one.item_id, became=became(former, one.content_hash)))
    return outcomes


def as_item(one: object) -> Item:
    """The item, given as it is or as a dictionary in the ingest format. Raises ``InvalidItemError``."""
    if isinstance(one, Item):
        return one
    if isinstance(one, Mapping):
        return item_from_record(one)
    raise InvalidItemError(f"an item must be an Item or a dictionary, not {type(one).__name__}")


def _checked(one: object) -> Item | InvalidItemError:
    try:
        return as_item(one)
    except InvalidItemError as error:
        return error
