"""``retrieval collections``: lists collections, changes their settings, exports, imports and removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.errors import InvalidRequestError
from retrieval.domain.items.collection import IndexKind, Neighbours
from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import CollectionName, Json, Quiet, Yes, confirm, examples, filterable_of, option
from retrieval.surfaces.cli.output import (
    NO_COLLECTIONS,
    Step,
    print_answer,
    print_json,
    progress,
    short_space,
    show,
    table,
    table_of,
)
from retrieval.surfaces.cli.run import CONTINUES, answer, of_collection, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from retrieval.collection import Collection
    from retrieval.domain.items.collection import CollectionInfo
    from retrieval.platform import Platform
    from retrieval.services.transfer import Moved


app = typer.Typer()
collections = typer.Typer()
app.add_typer(
    collections,
    name="collections",
    epilog=examples("retrieval collections filterable tickets priority:text hours:number"),
)


@collections.callback(invoke_without_command=True)
def list_or_run(context: typer.Context, *, as_json: Json = False) -> None:
    """List the collections with their size and settings.

    Pending items wait for their vectors; searches by words find them already. Ingest them again to embed them.
    """
    if context.invoked_subcommand is None:
        list_collections(as_json=as_json)


@collections.command("list", hidden=True)
def list_collections(*, as_json: Json = False) -> None:
    """List the collections, as ``retrieval collections`` does: other groups have the command ``list``."""

    async def work(platform: Platform) -> list[CollectionInfo]:
        return [await collection.info() for collection in await platform.collections()]

    def present(infos: list[CollectionInfo]) -> Table | str:
        columns: dict[str, Callable[[CollectionInfo], object]] = {
            "name": lambda info: info.name,
            "items": lambda info: info.items,
            "pending": lambda info: info.pending or "",
            "space": lambda info: short_space(info.space),
            "language": lambda info: info.text_search_config,
            "profile": lambda info: f"v{info.profile_version}" if info.profile_version > 1 else "",
            "model": lambda info: f"v{info.model_version}" if info.model_version else "",
            "HNSW": _index_text,
            "filterable": lambda info: len(info.filterable) or "",
        }
        return table_of(infos, columns, right={"pending", "filterable"}) if infos else NO_COLLECTIONS

    answer(work, present, as_json=as_json)


def _index_text(info: CollectionInfo) -> str | bool:
    """``quantised, 4 parts``; for a full index in one part, whether it exists."""
    facts = ["quantised"] if info.is_quantised else []
    if info.index_parts > 1:
        facts.append(f"{info.index_parts} parts")
    return ", ".join(facts) or info.has_hnsw


@collections.command(
    epilog=examples(
        "retrieval collections filterable tickets priority:text hours:number",
        "retrieval collections filterable tickets --drop hours --json",
    )
)
def filterable(
    *,
    collection: CollectionName,
    attributes: Annotated[
        list[str] | None,
        typer.Argument(metavar="ATTRIBUTE:TYPE", help="Attributes to index, as text, number, boolean or time."),
    ] = None,
    drop: Annotated[list[str] | None, option("ATTRIBUTE", "Drop an attribute's index first. May be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Show which attributes of a collection have an index, or change that.

    An attribute with an index is compared by its type, and filters on it do not read every item.
    """
    types = filterable_of(attributes or ())

    async def ask(target: Collection) -> dict[str, str]:
        if types or drop:
            await target.make_filterable(types, drop=drop or ())
        return dict((await target.info()).filterable)

    def present(declared: dict[str, str]) -> Table | str:
        if declared:
            return table(["attribute", "type"], declared.items())
        return f"no attribute is declared; declare one with: retrieval collections filterable {collection} NAME:TYPE"

    answer(of_collection(collection, ask), present, as_json=as_json)


@collections.command("half-life", epilog=examples("retrieval collections half-life tickets 90"))
def half_life(
    *,
    collection: CollectionName,
    days: Annotated[float, typer.Argument(metavar="DAYS", help="1/24 to 36500; 30 at first.")],
    as_json: Json = False,
) -> None:
    """Set in how many days feedback loses half its weight.

    The statistics are computed again; the tenant's new feedback waits meanwhile.
    """
    answer(
        of_collection(collection, lambda target: target.set_learning(half_life_days=days)),
        lambda _: f"feedback of {collection} halves in {days:g} days",
        as_json=as_json,
        to_json=lambda _: {"collection": collection, "half_life_days": days},
    )


@collections.command("daily-cap", epilog=examples("retrieval collections daily-cap tickets 20000"))
def daily_cap(
    *,
    collection: CollectionName,
    events: Annotated[int, typer.Argument(metavar="EVENTS", help="1 to 1,000,000; 1,000 at first.")],
    as_json: Json = False,
) -> None:
    """Set how many events of one actor count in a day.

    Stored events do not change.
    """
    answer(
        of_collection(collection, lambda target: target.set_learning(daily_cap=events)),
        lambda _: f"of each actor, {events:,} events a day count in {collection}",
        as_json=as_json,
        to_json=lambda _: {"collection": collection, "daily_cap": events},
    )


@collections.command(
    epilog=examples(
        "retrieval collections neighbours talks --sequence session --order turn",
        "retrieval collections neighbours talks --none",
    )
)
def neighbours(
    *,
    collection: CollectionName,
    sequence: Annotated[str | None, option("ATTRIBUTE", "The field with the same value in a whole sequence.")] = None,
    order: Annotated[
        str | None,
        option("ATTRIBUTE", "The number or time that orders a sequence; else occurred_at."),
    ] = None,
    before: Annotated[int | None, option("N", "Neighbours before an item, 0 to 20; else 2.")] = None,
    after: Annotated[int | None, option("N", "Neighbours after it, 0 to 20; else 2.")] = None,
    own_weight: Annotated[int | None, option("N", "The weight of the item itself, 1 to 100; else 2.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Index every item alone again.")] = False,
    as_json: Json = False,
) -> None:
    """Show the neighbours that a collection's items are indexed with, or change them.

    Stored items are indexed again; searches and writes continue meanwhile.
    """
    options = {"sequence": sequence, "order": order, "before": before, "after": after, "own_weight": own_weight}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if given and (none or sequence is None):
        raise InvalidRequestError("give --sequence, with which the other options go, or --none")
    wanted = Neighbours(**given) if given else None

    async def ask(target: Collection) -> Neighbours | None:
        if none or wanted:
            await target.set_neighbours(wanted)
        return (await target.info()).neighbours

    def present(setting: Neighbours | None) -> Table | str:
        if setting:
            return table(["setting", "value"], setting.as_dict().items())
        example = f"retrieval collections neighbours {collection} --sequence NAME"
        return f"every item is indexed alone; set it with: {example}"

    answer(of_collection(collection, ask), present, as_json=as_json)


@collections.command(epilog=examples("retrieval collections index tickets quantised"))
def index(
    *,
    collection: CollectionName,
    kind: Annotated[
        IndexKind | None, typer.Argument(help="auto: full, or an existing quantised one that works.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which kind of HNSW index a collection asks for and has, or change it.

    A full index stores each vector, a quantised one a bit per dimension. The
    job indexes replaces the index; the old one is used until then.
    """

    async def work(platform: Platform) -> dict[str, object]:
        target = await platform.collection(collection, create=False, index=kind)
        info = await target.info()
        has = ("quantised" if info.is_quantised else "full") if info.has_hnsw else None
        return {"collection": collection, "index": info.index, "has": has}

    def present(setting: dict[str, object]) -> str:
        return f"{collection} asks for {setting['index']}, has {setting['has'] or 'no index'}"

    answer(work, present, as_json=as_json)


@collections.command(epilog=examples("retrieval collections split tickets --parts 4"))
def split(
    *,
    collection: CollectionName,
    parts: Annotated[int, option("N", "The number of parts, 1 to 64.")],
    as_json: Json = False,
) -> None:
    """Divide the index of a large collection's vectors among parts.

    Each part is built separately, so that the build fits into memory. Searches
    and writes continue; after an interruption, the same command continues.
    """

    def present(info: CollectionInfo) -> str:
        if not info.has_hnsw:
            return f"{collection} is searched without an index; once it is large, it gets one in {info.parts} parts"
        if info.index_parts == info.parts:
            return f"{collection} has its index in {several(info.parts, 'part')}"
        state = f"{collection} is to have its index in {several(info.parts, 'part')}, and has it in {info.index_parts}"
        return f"{state}; as the owner of the tables: retrieval jobs run indexes --collection {collection}"

    answer(lambda platform: platform.split(collection, parts), present, as_json=as_json)


@collections.command("delete", hidden=True)
@collections.command(epilog=examples("retrieval collections remove tickets --yes"))
def remove(*, collection: CollectionName, yes: Yes = False, as_json: Json = False) -> None:
    """Remove a collection permanently.

    Its items, profiles, models, recorded searches and feedback are deleted.
    """
    confirm(f"Remove {collection:.80} with all its data?", yes=yes, as_json=as_json)

    async def work(platform: Platform) -> None:
        if not await platform.remove_collection(collection):
            await platform.collection(collection, create=False)

    answer(
        work,
        lambda _: f"{collection} is removed",
        as_json=as_json,
        to_json=lambda _: {"removed": collection},
        when_interrupted=CONTINUES,
    )


@collections.command(
    "export",
    epilog=examples(
        "retrieval collections export tickets tickets.jsonl.gz",
        "retrieval collections export tickets - --no-records > tickets.jsonl",
    ),
)
def export_(
    *,
    collection: CollectionName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A new file; - is standard output.")],
    records: Annotated[
        bool, typer.Option("--records/--no-records", help="With or without searches, feedback and learned models.")
    ] = True,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a collection into a file: items with vectors, memories, profiles, records.

    One JSON object per line; compressed if the file's name ends with .gz.
    The export is a snapshot: searches and writes continue.
    """
    if file == "-" and as_json:
        raise InvalidRequestError("standard output takes the collection or --json, not both; name a file")

    async def work(platform: Platform) -> Moved:
        with progress(f"export {collection}", "row", quiet=quiet) as update:
            return await platform.export_collection(
                collection, file, records=records, advance=lambda done, total: update(Step(done, total, done))
            )

    moved = run(work, when_interrupted="interrupted; nothing was written")
    if as_json:
        print_json(moved.as_dict())
    elif not quiet:
        show(f"exported {_moved_text(moved)} to {file}", stderr=file == "-")


@collections.command(
    "import",
    epilog=examples(
        "retrieval -t staging collections import tickets.jsonl.gz",
        "retrieval collections import tickets.jsonl.gz --name tickets-2 --json",
    ),
)
def import_(
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that export wrote; - is standard input.")],
    name: Annotated[str | None, option("NAME", "Else the exported name.")] = None,
    own_vectors: Annotated[
        bool, typer.Option("--own-vectors", help="Its vectors need no embedder here: they are searched by vectors.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Create a collection from an exported file, on any machine, for any tenant: all of it, or nothing.

    Nothing is embedded again: the file holds vectors, ids, profiles, searches, feedback and models.
    """

    async def work(platform: Platform) -> Moved:
        with progress(f"import {file}", "row", quiet=quiet) as update:
            return await platform.import_collection(
                file, name=name, own_vectors=own_vectors, advance=lambda done, total: update(Step(done, total, done))
            )

    nothing = "interrupted; nothing was imported"
    moved = run(work, when_interrupted=nothing, reads_standard_input=file == "-")
    learned = "" if moved.has_records else "; without searches and feedback, learning starts anew"
    print_answer(moved.as_dict(), f"imported {_moved_text(moved)}{learned}", as_json=as_json, quiet=quiet)


def _moved_text(moved: Moved) -> str:
    """``tickets: 1,200 items with 1,200 vectors, 5,310 rows in all``."""
    parts = f"{several(moved.items, 'item')} with {several(moved.vectors, 'vector')}"
    return f"{moved.collection}: {parts}, {several(sum(moved.rows.values()), 'row')} in all"
