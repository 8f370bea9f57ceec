"""``retrieval collections``: lists collections, changes their settings, exports, imports and removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.collection import IndexKind, Neighbours
from retrieval.domain.wording import several
from retrieval.surfaces.cli import options, output
from retrieval.surfaces.cli.run import CONTINUES, opened, opened_collection

if TYPE_CHECKING:
    from retrieval.domain.items.collection import CollectionInfo
    from retrieval.services.transfer import Moved


app = typer.Typer()
collections = typer.Typer()
app.add_typer(
    collections,
    name="collections",
    epilog=options.examples("retrieval collections filterable tickets priority:text hours:number"),
)


@collections.callback(invoke_without_command=True)
def list_or_run(context: typer.Context, *, as_json: options.Json = False) -> None:
    """List the collections with their size and settings.

    Pending items wait for their vectors; searches by words find them already. Ingest them again to embed them.
    """
    if context.invoked_subcommand is None:
        list_collections(as_json=as_json)


@options.command(collections, "retrieval collections list", name="list", hidden=True)
def list_collections() -> None:
    """List the collections, as ``retrieval collections`` does: other groups have the command ``list``."""
    with opened() as (platform, wait):
        infos = [wait(collection.info()) for collection in wait(platform.collections())]
    rows = output.table(
        ["name", "items", "pending", "space", "language", "profile", "model", "HNSW", "filterable"],
        (
            (
                info.name,
                info.items,
                info.pending or "",
                output.short_space(info.space),
                info.text_search_config,
                f"v{info.profile_version}" if info.profile_version > 1 else "",
                f"v{info.model_version}" if info.model_version else "",
                _index_text(info),
                len(info.filterable) or "",
            )
            for info in infos
        ),
        right={"pending", "filterable"},
    )
    output.print_answer(infos, rows if infos else output.NO_COLLECTIONS)


def _index_text(info: CollectionInfo) -> str | bool:
    """``quantised, 4 parts``; for a full index in one part, whether it exists."""
    facts = ["quantised"] if info.is_quantised else []
    if info.index_parts > 1:
        facts.append(f"{info.index_parts} parts")
    return ", ".join(facts) or info.has_hnsw


@options.command(
    collections,
    "retrieval collections filterable tickets priority:text hours:number",
    "retrieval collections filterable tickets --drop hours --json",
)
def filterable(
    *,
    collection: options.CollectionName,
    attributes: Annotated[
        list[str] | None, options.argument("ATTRIBUTE:TYPE", "Attributes to index, as text, number, boolean or time.")
    ] = None,
    drop: Annotated[
        list[str] | None, options.option("ATTRIBUTE", "Drop an attribute's index first. May be repeated.")
    ] = None,
) -> None:
    """Show which attributes of a collection have an index, or change that.

    An attribute with an index is compared by its type, and filters on it do not read every item.
    """
    types = options.filterable_of(attributes or ())

    with opened_collection(collection) as (target, wait):
        if types or drop:
            wait(target.make_filterable(types, drop=drop or ()))
        declared = dict(wait(target.info()).filterable)
    nothing = f"no attribute is declared; declare one with: retrieval collections filterable {collection} NAME:TYPE"
    rows = output.table(["attribute", "type"], declared.items())
    output.print_answer(declared, rows if declared else nothing)


@options.command(collections, "retrieval collections half-life tickets 90", name="half-life")
def half_life(
    *,
    collection: options.CollectionName,
    days: Annotated[float, options.argument("DAYS", "1/24 to 36500; 30 at first.")],
) -> None:
    """Set in how many days feedback loses half its weight.

    The statistics are computed again; the tenant's new feedback waits meanwhile.
    """
    with opened_collection(collection) as (target, wait):
        wait(target.set_learning(half_life_days=days))
    value = {"collection": collection, "half_life_days": days}
    output.print_answer(value, f"feedback of {collection} halves in {days:g} days")


@options.command(collections, "retrieval collections daily-cap tickets 20000", name="daily-cap")
def daily_cap(
    *,
    collection: options.CollectionName,
    events: Annotated[int, options.argument("EVENTS", "1 to 1,000,000; 1,000 at first.")],
) -> None:
    """Set how many events of one actor count in a day.

    Stored events do not change.
    """
    with opened_collection(collection) as (target, wait):
        wait(target.set_learning(daily_cap=events))
    value = {"collection": collection, "daily_cap": events}
    output.print_answer(value, f"of each actor, {events:,} events a day count in {collection}")


@options.command(
    collections,
    "retrieval collections neighbours talks --sequence session --order turn",
    "retrieval collections neighbours talks --none",
)
def neighbours(
    *,
    collection: options.CollectionName,
    sequence: Annotated[
        str | None, options.option("ATTRIBUTE", "The field with the same value in a whole sequence.")
    ] = None,
    order: Annotated[
        str | None, options.option("ATTRIBUTE", "The number or time that orders a sequence; else occurred_at.")
    ] = None,
    before: Annotated[int | None, options.option("N", "Neighbours before an item, 0 to 20; else 2.")] = None,
    after: Annotated[int | None, options.option("N", "Neighbours after it, 0 to 20; else 2.")] = None,
    own_weight: Annotated[int | None, options.option("N", "The weight of the item itself, 1 to 100; else 2.")] = None,
    none: Annotated[bool, options.flag("Index every item alone again.", "--none")] = False,
) -> None:
    """Show the neighbours that a collection's items are indexed with, or change them.

    Stored items are indexed again; searches and writes continue meanwhile.
    """
    named = {"sequence": sequence, "order": order, "before": before, "after": after, "own_weight": own_weight}
    given: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if given and (none or sequence is None):
        raise InvalidRequestError("give --sequence, with which the other options go, or --none")
    wanted = Neighbours(**given) if given else None

    with opened_collection(collection) as (target, wait):
        if none or wanted:
            wait(target.set_neighbours(wanted))
        setting = wait(target.info()).neighbours
    value = setting.as_dict() if setting else None
    alone = f"every item is indexed alone; set it with: retrieval collections neighbours {collection} --sequence NAME"
    output.print_answer(value, output.table(["setting", "value"], value.items()) if value else alone)


@options.command(collections, "retrieval collections index tickets quantised")
def index(
    *,
    collection: options.CollectionName,
    kind: Annotated[
        IndexKind | None, typer.Argument(help="auto: full, or an existing quantised one that works.")
    ] = None,
) -> None:
    """Show which kind of HNSW index a collection asks for and has, or change it.

    A full index stores each vector, a quantised one a bit per dimension. The
    job indexes replaces the index; the old one is used until then.
    """
    with opened() as (platform, wait):
        info = wait(wait(platform.collection(collection, create=False, index=kind)).info())
    has = ("quantised" if info.is_quantised else "full") if info.has_hnsw else None
    value = {"collection": collection, "index": info.index, "has": has}
    output.print_answer(value, f"{collection} asks for {info.index}, has {has or 'no index'}")


@options.command(collections, "retrieval collections split tickets --parts 4")
def split(
    *,
    collection: options.CollectionName,
    parts: Annotated[int, options.option("N", "The number of parts, 1 to 64.")],
) -> None:
    """Divide the index of a large collection's vectors among parts.

    Each part is built separately, so that the build fits into memory. Searches
    and writes continue; after an interruption, the same command continues.
    """
    with opened() as (platform, wait):
        info = wait(platform.split(collection, parts))
    divided = several(info.parts, "part")
    if not info.has_hnsw:
        said = f"{collection} is searched without an index; once it is large, it gets one in {divided}"
    elif info.index_parts == info.parts:
        said = f"{collection} has its index in {divided}"
    else:
        said = (
            f"{collection} is to have its index in {divided}, and has it in {info.index_parts}; "
            f"as the owner of the tables: retrieval jobs run indexes --collection {collection}"
        )
    output.print_answer(info, said)


@collections.command("delete", hidden=True)
@options.command(collections, "retrieval collections remove tickets --yes")
def remove(*, collection: options.CollectionName, yes: options.Yes = False) -> None:
    """Remove a collection permanently.

    Its items, profiles, models, recorded searches and feedback are deleted.
    """
    with opened(when_interrupted=CONTINUES) as (platform, wait):
        wait(platform.collection(collection, create=False))
        options.confirm(f"Remove {collection:.80} with all its data?", yes=yes)
        wait(platform.remove_collection(collection))
    output.print_answer({"removed": collection}, f"{collection} is removed")


@options.command(
    collections,
    "retrieval collections export tickets tickets.jsonl.gz",
    "retrieval collections export tickets - --no-records > tickets.jsonl",
    name="export",
)
def export_(
    *,
    collection: options.CollectionName,
    file: Annotated[str, options.argument("FILE", "A new file; - is standard output.")],
    records: Annotated[
        bool, options.flag("With or without searches, feedback and learned models.", "--records/--no-records")
    ] = True,
    quiet: options.Quiet = False,
) -> None:
    """Write a collection into a file: items with vectors, memories, profiles, records.

    One JSON object per line; compressed if the file's name ends with .gz.
    The export is a snapshot: searches and writes continue. To copy a
    collection within its tenant, export it with --no-records.
    """
    if file == "-" and options.wants_json():
        raise InvalidRequestError("standard output takes the collection or --json, not both; name a file")

    with (
        opened(when_interrupted="interrupted; nothing was written") as (platform, wait),
        output.progress(f"export {collection}", "row", quiet=quiet) as update,
    ):
        moved = wait(
            platform.export_collection(
                collection, file, records=records, advance=lambda done, total: update(output.Step(done, total, done))
            )
        )
    if options.wants_json():
        output.print_json(moved.as_dict())
    elif not quiet:
        output.show(f"exported {_moved_text(moved)} to {file}", stderr=file == "-")


@options.command(
    collections,
    "retrieval collections import tickets.jsonl.gz",
    "retrieval -t staging collections import tickets.jsonl.gz --name tickets-2 --json",
    name="import",
)
def import_(
    *,
    file: Annotated[str, options.argument("FILE", "A file that export wrote; - is standard input.")],
    name: Annotated[str | None, options.option("NAME", "Else the exported name.")] = None,
    own_vectors: Annotated[
        bool, options.flag("Its vectors need no embedder here: they are searched by vectors.", "--own-vectors")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Create a collection from an exported file, on any machine, for any tenant: all of it, or nothing.

    Nothing is embedded again: the file holds vectors, ids, profiles, searches, feedback and models.
    """
    nothing = "interrupted; nothing was imported"
    with (
        opened(when_interrupted=nothing, leaves_threads=file == "-") as (platform, wait),
        output.progress(f"import {file}", "row", quiet=quiet) as update,
    ):
        moved = wait(
            platform.import_collection(
                file,
                name=name,
                own_vectors=own_vectors,
                advance=lambda done, total: update(output.Step(done, total, done)),
            )
        )
    learned = "" if moved.has_records else "; without searches and feedback, learning starts from nothing"
    output.print_answer(moved.as_dict(), f"imported {_moved_text(moved)}{learned}", quiet=quiet)


def _moved_text(moved: Moved) -> str:
    """``tickets: 1,200 items with 1,200 vectors, 5,310 rows in all``."""
    parts = f"{several(moved.items, 'item')} with {several(moved.vectors, 'vector')}"
    return f"{moved.collection}: {parts}, {several(sum(moved.rows.values()), 'row')} in all"
