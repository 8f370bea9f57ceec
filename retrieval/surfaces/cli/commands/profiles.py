"""``retrieval profiles``: the versions of a collection's profile, and previews of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval.surfaces.cli import search_options as options
from retrieval.surfaces.cli.options import (
    Actor,
    Backtracks,
    CollectionName,
    Complexity,
    Domain,
    Generated,
    Json,
    Session,
    complete_profile,
    examples,
    situation,
    state_of,
)
from retrieval.surfaces.cli.output import print_json, table
from retrieval.surfaces.cli.run import answer, of_collection, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from retrieval.collection import Collection
    from retrieval.domain.search.preview import Preview, ProfilePreview
    from retrieval.domain.search.profile import Profile, StoredProfile
    from retrieval.platform import Platform


LIST = ("retrieval profiles list tickets",)
SHOW = ("retrieval profiles show tickets", "retrieval profiles show tickets 2 > words.json")
SET = ("retrieval profiles set tickets words.json --note 'words count more'",)
USE = ("retrieval profiles use tickets 1",)
PREVIEW = ('retrieval profiles preview tickets "connection timeout" --profile active --profile words.json -n 5',)

_PROFILE_HELP = "A stored version such as 3, 'active', or a JSON file. The first is what the others are held against."

app = typer.Typer(rich_markup_mode="rich", no_args_is_help=True, epilog=examples(*LIST, *PREVIEW))


@app.callback()
def profiles() -> None:
    """List the versions of a collection's profile, change it, or see what another one would show."""


@app.command("list", epilog=examples(*LIST))
def list_profiles(
    context: typer.Context,
    *,
    collection: CollectionName,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Versions, 1 to 1000.")] = 20,
    as_json: Json = False,
) -> None:
    """List the versions, the newest first."""

    def shown(found: list[StoredProfile]) -> Table:
        rows = (
            (made.version, made.is_active, _legs(made.profile), f"{made.created_at:%Y-%m-%d %H:%M}", made.note)
            for made in found
        )
        return table(["version", "used", "weights", "made (UTC)", "note"], rows)

    answer(context, of_collection(collection, lambda found: found.profiles(limit=limit)), shown, as_json=as_json)


@app.command(epilog=examples(*SHOW))
def show(
    context: typer.Context,
    *,
    collection: CollectionName,
    version: Annotated[
        int | None,
        typer.Argument(
            metavar="VERSION", help="Else the one in use.", show_default=False, autocompletion=complete_profile
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a profile as the JSON that 'set' reads; with --json, its version and note too."""
    found = run(state_of(context), of_collection(collection, lambda found: found.stored_profile(version)))
    print_json(found.as_dict() if as_json else found.profile.as_dict())


@app.command("set", epilog=examples(*SET))
def set_profile(
    context: typer.Context,
    *,
    collection: CollectionName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A JSON file with a profile.", show_default=False)],
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="What is to be said of it.")] = "",
    store_only: Annotated[
        bool, typer.Option("--store-only", help="Do not search with it yet; 'profiles use' activates it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Store a profile as a new version, and search with it from now on.

    What the file leaves out has its default. To change one part, edit
    what 'profiles show' prints.
    """
    from retrieval.services.compare import profile_in_file

    profile = profile_in_file(file)
    changed: list[str] = []

    async def ask(found: Collection) -> StoredProfile:
        former = found.profile.as_dict()
        changed.extend(name for name, value in profile.as_dict().items() if former.get(name) != value)
        return await found.stored_profile(await found.set_profile(profile, note=note, use=not store_only))

    def said(stored: StoredProfile) -> str:
        line = (
            f"{collection}: stored profile {stored.version}, not used yet" if store_only else _used(collection, stored)
        )
        return f"{line}; other than before: {', '.join(changed) or 'nothing'}"

    answer(context, of_collection(collection, ask), said, as_json=as_json)


@app.command(epilog=examples(*USE))
def use(
    context: typer.Context,
    *,
    collection: CollectionName,
    version: Annotated[
        int,
        typer.Argument(metavar="VERSION", help="A stored one.", show_default=False, autocompletion=complete_profile),
    ],
    as_json: Json = False,
) -> None:
    """Search with a stored version from now on."""

    async def ask(found: Collection) -> StoredProfile:
        await found.use_profile(version)
        return await found.stored_profile(version)

    answer(context, of_collection(collection, ask), lambda stored: _used(collection, stored), as_json=as_json)


@app.command(epilog=examples(*PREVIEW))
def preview(
    context: typer.Context,
    *,
    collection: CollectionName,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The words to search for.", show_default=False)],
    profile: Annotated[
        list[str], typer.Option("--profile", "-p", metavar="PROFILE", help=_PROFILE_HELP, show_default=False)
    ],
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Hits of each, 1 to 1000.")] = 10,
    where: options.Where = None,
    plain: options.Plain = False,
    typos: options.Typos = False,
    min_score: options.MinScore = None,
    min_relevance: options.MinRelevance = None,
    domain: Domain = "",
    complexity: Complexity = None,
    actor: Actor = "",
    session: Session = "",
    backtracks: Backtracks = 0,
    generated: Generated = False,
    as_json: Json = False,
) -> None:
    """Show what each profile finds: which hits enter, leave and move, and why.

    Nothing is recorded and nothing is changed.
    """
    conditions = options.where_of(where or ())
    asked = situation(
        domain=domain, complexity=complexity, actor=actor, session=session, backtracks=backtracks, generated=generated
    )

    async def work(platform: Platform) -> Preview:
        found = await platform.collection(collection, create=False)
        chosen = await options.profiles_named(platform, found, profile)
        return await found.preview(
            query,
            profiles=chosen,
            where=conditions,
            limit=limit,
            syntax=not plain,
            typos=typos,
            min_score=min_score,
            min_relevance=min_relevance,
            context=asked,
        )

    answer(
        context,
        work,
        lambda found: [line for shown in found.previews for line in lines(shown)],
        as_json=as_json,
    )


def lines(preview: ProfilePreview) -> Iterator[str]:
    """The hits of a profile, a line each, then the hits that left."""
    yield f"{preview.name}:"
    for shown in preview.hits:
        yield f"  {shown.hit.rank:>2}. {shown.hit.item_id}  {shown.hit.title}  ({shown.why})"
    for gone in preview.left:
        yield f"   –  {gone.hit.item_id}  {gone.hit.title}  ({gone.why})"
    for note in preview.notes:
        yield f"  note: {note}"


def _legs(profile: Profile) -> str:
    """``dense 0.6, lexical 0.4``: the weights of the score."""
    return ", ".join(f"{name} {weight:g}" for name, weight in profile.weights.items())


def _used(collection: str, stored: StoredProfile) -> str:
    return f"{collection} is searched with profile {stored.version}: {_legs(stored.profile)}"
