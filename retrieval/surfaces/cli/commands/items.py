"""``retrieval items``: shows, stores, changes and deletes single items of a collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.checks import JSONTextError, json_of, written
from retrieval.domain.errors import InvalidItemError, InvalidRequestError, UnknownItemError
from retrieval.domain.wording import several
from retrieval.surfaces.cli import options
from retrieval.surfaces.cli.output import field_rows, print_answer, table, tell
from retrieval.surfaces.cli.run import opened_collection

if TYPE_CHECKING:
    from rich.table import Table

    from retrieval.domain.items.item import StoredItem


app = typer.Typer()
items = options.group(
    app,
    "items",
    "Show single items of a collection, and change them.",
    "retrieval items get tickets T-1",
    "retrieval items list tickets --where priority=High -n 20",
    """retrieval items put tickets '{"id": "T-4", "title": "Mail is late", "priority": "Low"}'""",
)

ItemName = Annotated[str, options.argument("ID", "The item's id.")]
Version = Annotated[
    str | None, options.option("VERSION", "Only if the item still has this version; * is any.", "--if-version")
]


@options.command(items, "retrieval items get tickets T-1", "retrieval items get tickets T-1 --json")
def get(*, collection: options.CollectionName, item_id: ItemName) -> None:
    """Show an item with its version."""
    with opened_collection(collection) as (target, wait):
        stored = wait(target.stored([item_id]))
    if item_id not in stored:
        raise UnknownItemError(
            f"there is no item {written(item_id)} in {written(collection)}; see: retrieval items list {collection}"
        )
    _print(stored[item_id])


@options.command(
    items,
    "retrieval items list tickets --where priority=High -n 20",
    "retrieval items list tickets --after T-20 --json",
    name="list",
)
def list_items(
    *,
    collection: options.CollectionName,
    where: options.Where = None,
    after: Annotated[str, options.option("ID", "Only items whose id comes after this one.")] = "",
    limit: Annotated[int, options.option("N", "Items, 1 to 1000.", "--limit", "-n")] = 100,
) -> None:
    """List items in the order of their ids.

    Archived items are listed if a condition names their status.
    """
    conditions = options.where_of(where)
    with opened_collection(collection) as (target, wait):
        page = wait(target.page(conditions, after=after, limit=limit))
    rows = (
        (each.item.item_id, each.item.title, each.item.status, each.updated_at.date(), each.version) for each in page
    )
    parts: list[Table | str] = [table(["item", "title", "status", "changed", "version"], rows)]
    if len(page) == limit:
        parts.append(f"there may be more: --after {page[-1].item.item_id}")
    print_answer(page, parts)


@options.command(
    items,
    """retrieval items put tickets '{"id": "T-4", "title": "Mail is late", "priority": "Low"}'""",
    """retrieval items put tickets '{"id": "T-5", "title": "No mail"}' --new""",
)
def put(
    *,
    collection: options.CollectionName,
    record: Annotated[str, options.argument("JSON", "The item as an object; - reads standard input.")],
    version: Version = None,
    is_new: Annotated[bool, options.flag("Only if there is no such item.", "--new")] = False,
) -> None:
    """Store one item; it replaces an item with the same id."""
    from retrieval.services.ingest import WithoutText

    if is_new and version is not None:
        raise InvalidRequestError("give --new or --if-version, not both")
    item = _object(record, '{"id": "T-1", "title": "..."}')
    with opened_collection(collection) as (target, wait):
        stored = wait(target.put(item, version="" if is_new else version))
    _print(stored)
    for note in WithoutText.among([stored.item]).notes(1):
        tell(f"note: {note}")


@options.command(
    items, """retrieval items patch tickets T-4 '{"title": "Mail is late again", "metadata": {"priority": null}}'"""
)
def patch(
    *,
    collection: options.CollectionName,
    item_id: ItemName,
    changes: Annotated[str, options.argument("JSON", "The changes as an object; null removes; - is standard input.")],
    version: Version = None,
) -> None:
    """Change parts of an item; the others stay."""
    merge_patch = _object(changes, '{"title": "..."}')
    with opened_collection(collection) as (target, wait):
        _print(wait(target.patch(item_id, merge_patch, version=version)))


@options.command(items, "retrieval items delete tickets T-4")
def delete(
    *,
    collection: options.CollectionName,
    item_ids: Annotated[list[str], options.argument("ID", "The items' ids.")],
    version: Version = None,
) -> None:
    """Remove items with their terms and vectors."""
    if version is not None and len(item_ids) != 1:
        raise InvalidRequestError("--if-version is for one item; give one id with it")
    with opened_collection(collection) as (target, wait):
        deleted = wait(target.delete(item_ids, version=version))
    print_answer({"deleted": deleted}, f"{several(deleted, 'item')} removed")


def _print(stored: StoredItem) -> None:
    facts = stored.as_dict() | ({"result": stored.became.value} if stored.became else {})
    print_answer(facts, table(["field", "value"], field_rows(facts)))


def _object(text: str, example: str) -> Mapping[str, Any]:
    """The JSON object in the argument or on standard input. Raises ``InvalidItemError`` for anything else.

    Raises ``InvalidRequestError`` if standard input is closed.
    """
    from retrieval.adapters.readers.lines import STANDARD_INPUT, standard_input

    is_input = text == STANDARD_INPUT
    source = "standard input" if is_input else f"{written(text, 60)}"
    try:
        value = json_of(standard_input().read() if is_input else text)
    except JSONTextError as error:
        raise InvalidItemError(f"cannot read {source}: {error}; give a JSON object such as {example}") from None
    if not isinstance(value, dict):
        raise InvalidItemError(f"{source} is not a JSON object, such as {example}")
    return value
