"""``retrieval search``: ask a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.surfaces.cli import search_options as options
from retrieval.surfaces.cli.options import CollectionName, Json, legs_of
from retrieval.surfaces.cli.situation import Actor, Backtracks, Complexity, Domain, Generated, Session, situation
from retrieval.surfaces.cli.state import state_of

if TYPE_CHECKING:
    from retrieval.domain.hit import SearchResult
    from retrieval.platform import Platform

EXAMPLES = (
    'retrieval search tickets "connection timeout" --where priority=High -n 5',
    "retrieval search tickets timeout --where 'hours>=24' --explain",
    "retrieval search tickets '\"read timeout\" -redis connect*'",
    "retrieval search tickets timeout --group-by project",
    "retrieval search tickets timeout --profile 2 --prefer priority=High --rewrite 'no answer in time'",
    "retrieval search tickets --vector vector.json --actor ann --session s-17",
)


def search(
    context: typer.Context,
    *,
    collection: CollectionName,
    query: options.Query = None,
    vector: options.VectorFile = None,
    limit: options.Limit = 10,
    where: options.Where = None,
    legs: options.Legs = None,
    profile: options.ProfileName = None,
    plain: options.Plain = False,
    group_by: options.GroupBy = None,
    rewrites: options.Rewrites = None,
    prefer: options.Prefer = None,
    entities: options.Entities = None,
    tags: options.Tags = None,
    as_of: options.AsOf = None,
    about: options.About = None,
    domain: Domain = "",
    complexity: Complexity = None,
    actor: Actor = "",
    session: Session = "",
    backtracks: Backtracks = 0,
    generated: Generated = False,
    explain: Annotated[bool, typer.Option("--explain", "-x", help="Show what each score is made of.")] = False,
    as_json: Json = False,
) -> None:
    """Search a collection by meaning and by words."""
    from retrieval.surfaces.cli.asked import entities_of, moment_of, profile_named, vector_of
    from retrieval.surfaces.cli.run import run
    from retrieval.surfaces.cli.where import where_of

    if query is None and vector is None:
        raise typer.BadParameter("give some words, or a vector with --vector", ctx=context, param_hint="QUERY")
    asked: dict[str, Any] = {
        "vector": vector_of("--vector", vector), "where": where_of(where or ()), "limit": limit,
        "legs": legs_of(legs), "group_by": group_by, "syntax": not plain, "rewrites": rewrites or (),
        "prefer": where_of(prefer or ()), "entities": entities_of(entities or ()), "tags": tags or (),
        "as_of": moment_of(as_of), "about": vector_of("--about", about),
    }  # fmt: skip
    asked["context"] = situation(
        domain=domain, complexity=complexity, actor=actor, session=session, backtracks=backtracks, generated=generated
    )

    async def ask(platform: Platform) -> SearchResult:
        found = await platform.collection(collection, create=False)
        return await found.search(query, profile=await profile_named(platform, found, profile), **asked)

    _print(run(state_of(context), ask), explain=explain, as_json=as_json)


def _print(result: SearchResult, *, explain: bool, as_json: bool) -> None:
    from retrieval.surfaces.cli.hits import print_result
    from retrieval.surfaces.cli.output import console, print_json

    if as_json:
        print_json(result.as_dict())
    else:
        print_result(console(), result, explain=explain)
