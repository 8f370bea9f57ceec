"""``retrieval profiles``: the versions of a collection's profile, and previews of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.domain.learning.context import Context
from retrieval.surfaces.cli import options
from retrieval.surfaces.cli.output import print_answer, print_json, table
from retrieval.surfaces.cli.run import opened_collection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieval.domain.search.preview import ProfilePreview
    from retrieval.domain.search.profile import Profile, StoredProfile


app = typer.Typer()
profiles = options.group(
    app,
    "profiles",
    "List the versions of a collection's profile, change it, or preview another one.",
    "retrieval profiles list tickets",
    'retrieval profiles preview tickets "connection timeout" --profile active --profile words.json -n 5',
)


@options.command(profiles, "retrieval profiles list tickets", name="list")
def list_profiles(
    *,
    collection: options.CollectionName,
    limit: Annotated[int, options.option("N", "Versions, 1 to 1000.", "--limit", "-n")] = 20,
) -> None:
    """List the versions, the newest first."""
    with opened_collection(collection) as (target, wait):
        versions = wait(target.profiles(limit=limit))
    rows = ((row.version, row.is_active, _weights(row.profile), row.created_at, row.note) for row in versions)
    print_answer(versions, table(["version", "used", "weights", "made (UTC)", "note"], rows))


@options.command(profiles, "retrieval profiles show tickets", "retrieval profiles show tickets 2 > words.json")
def show(
    *,
    collection: options.CollectionName,
    version: Annotated[int | None, options.argument("VERSION", "Else the one in use.")] = None,
) -> None:
    """Print a profile as the JSON that 'set' reads; with --json, its version and note too."""
    with opened_collection(collection) as (target, wait):
        stored = wait(target.stored_profile(version))
    print_json(stored.as_dict() if options.wants_json() else stored.profile.as_dict())


@options.command(profiles, "retrieval profiles set tickets words.json --note 'words count more'", name="set")
def set_profile(
    *,
    collection: options.CollectionName,
    file: Annotated[str, options.argument("FILE", "A JSON file with a profile.")],
    note: Annotated[str, options.option("TEXT", "A note on the version.")] = "",
    store_only: Annotated[
        bool, options.flag("Do not search with it yet; 'profiles use' activates it.", "--store-only")
    ] = False,
) -> None:
    """Store a profile as a new version, and search with it from now on.

    What the file leaves out has its default. To change one part, edit
    what 'profiles show' prints.
    """
    from retrieval.services.compare import profile_in_file

    profile = profile_in_file(file)
    with opened_collection(collection) as (target, wait):
        former = target.profile.as_dict()
        stored = wait(target.stored_profile(wait(target.set_profile(profile, note=note, use=not store_only))))
    changed = ", ".join(name for name, value in profile.as_dict().items() if former.get(name) != value)
    unused = f"{collection}: stored profile {stored.version}, not used yet"
    line = unused if store_only else _used_text(collection, stored)
    print_answer(stored, f"{line}; other than before: {changed or 'nothing'}")


@options.command(profiles, "retrieval profiles use tickets 1")
def use(
    *,
    collection: options.CollectionName,
    version: Annotated[int, options.argument("VERSION", "A stored one.")],
) -> None:
    """Search with a stored version from now on."""
    with opened_collection(collection) as (target, wait):
        wait(target.use_profile(version))
        stored = wait(target.stored_profile(version))
    print_answer(stored, _used_text(collection, stored))


@options.command(
    profiles, 'retrieval profiles preview tickets "connection timeout" --profile active --profile words.json -n 5'
)
def preview(
    *,
    collection: options.CollectionName,
    query: Annotated[str, options.argument("QUERY", "The words to search for.")],
    profile: Annotated[
        list[str],
        options.option(
            "PROFILE",
            "A stored version such as 3, 'active', or a JSON file. The others are compared with the first.",
            "--profile",
            "-p",
        ),
    ],
    limit: Annotated[int, options.option("N", "Hits of each, 1 to 1000.", "--limit", "-n")] = 10,
    where: options.Where = None,
    plain: options.Plain = False,
    typos: options.Typos = False,
    min_score: options.MinScore = None,
    min_relevance: options.MinRelevance = None,
    domain: options.Domain = "",
    complexity: options.Complexity = None,
    actor: options.Actor = "",
    session: options.Session = "",
    backtracks: options.Backtracks = 0,
    generated: options.Generated = False,
) -> None:
    """Show the hits of each profile: which enter, leave and move, and why.

    Nothing is recorded and nothing is changed.
    """
    conditions = options.where_of(where)
    search_context = Context(
        domain=domain, complexity=complexity, actor=actor, session=session, backtracks=backtracks, generated=generated
    )

    with opened_collection(collection) as (target, wait):
        named = {name: wait(options.profile_named(target, name)) for name in profile}
        result = wait(
            target.preview(
                query, profiles=named, where=conditions, limit=limit, syntax=not plain, typos=typos,
                min_score=min_score, min_relevance=min_relevance, context=search_context,
            )
        )  # fmt: skip
    print_answer(result, [line for part in result.previews for line in lines(part)])


def lines(preview: ProfilePreview) -> Iterator[str]:
    """The hits of a profile, a line each, then the hits that left."""
    yield f"{preview.name}:"
    for entry in preview.hits:
        yield f"  {entry.hit.rank:>2}. {entry.hit.item_id}  {entry.hit.title}  ({entry.why})"
    for entry in preview.left:
        yield f"   –  {entry.hit.item_id}  {entry.hit.title}  ({entry.why})"
    for note in preview.notes:
        yield f"  note: {note}"


def _weights(profile: Profile) -> str:
    """``dense 0.6, lexical 0.4``."""
    return ", ".join(f"{name} {weight:g}" for name, weight in profile.weights.items())


def _used_text(collection: str, stored: StoredProfile) -> str:
    return f"{collection} is searched with profile {stored.version}: {_weights(stored.profile)}"
