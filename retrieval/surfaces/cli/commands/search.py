"""``retrieval search``, ``complete`` and ``passages``: searches of a collection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from retrieval.domain.search.hit import Explanation, Hit, Path, SearchResult
from retrieval.domain.search.snippet import Snippet
from retrieval.domain.wording import several
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
    legs_of,
    situation,
    state_of,
)
from retrieval.surfaces.cli.output import console, plain, print_json, table, tell
from retrieval.surfaces.cli.run import answer, of_collection, run

if TYPE_CHECKING:
    from retrieval.collection import Collection
    from retrieval.domain.items.passages import Passages
    from retrieval.domain.search.spelling import Completions
    from retrieval.platform import Platform


BODY_LINES = 2
_BODY_CHARACTERS = 1000
_INDENT = 4
_DIGITS = 6


def print_result(out: Console, result: SearchResult, *, explain: bool = False) -> None:
    """Print the hits in order, then the footer."""
    for hit in result:
        print_hit(out, hit, explain=explain)
    for line in footer(result, explain=explain):
        out.print(Text(plain(line), style="dim"), soft_wrap=True)


def print_hit(out: Console, hit: Hit, *, explain: bool = False) -> None:
    """Print one hit: rank, score, relevance if known, id, title, the start of its body, and the parts of its score."""
    head = Text.assemble(
        (f"{hit.rank:>2}. ", "bold"),
        (f"{hit.score:.4f}", "cyan"),
        ("" if hit.relevance is None else f"  {hit.relevance:>4.0%}", "cyan"),
        "  ",
        (plain(hit.item_id), "green"),
        "  ",
        (plain(hit.title), "bold"),
    )
    out.print(head, soft_wrap=True)
    for line in body_lines(out, hit.body) if hit.snippet is None else [snippet_line(hit.snippet)]:
        out.print(Padding.indent(line, _INDENT))
    if explain:
        out.print(Padding.indent(explanation_table(hit.explanation), _INDENT))


def body_lines(out: Console, body: str) -> list[Text]:
    """The first lines of a text, as wide as the console; an ellipsis if it continues."""
    start = " ".join(plain(body[:_BODY_CHARACTERS]).split())
    width = max(out.width - _INDENT, 20)
    lines = list(Text(start).wrap(out, width))
    if len(lines) > BODY_LINES or len(body) > _BODY_CHARACTERS:
        last = lines[:BODY_LINES][-1]
        last.rstrip()
        last.truncate(width - 2)
        last.append(" …")
    return lines[:BODY_LINES]


def snippet_line(snippet: Snippet) -> Text:
    """The snippet, its marked words bold."""
    line, place = Text(), 0
    for start, end in snippet.highlights:
        line.append(plain(snippet.text[place:start])).append(plain(snippet.text[start:end]), style="bold")
        place = end
    return line.append(plain(snippet.text[place:]))


def explanation_table(explanation: Explanation) -> Table:
    """A row for each leg, and their sum, the score."""
    parts = explanation.contributions
    values = [round(part.value, _DIGITS) for part in parts]
    contribution = f"contribution ({explanation.fusion})"
    rows = table(
        ["leg", "rank", "raw score", "weight", contribution],
        (
            (part.leg, part.rank, part.raw_score, f"{part.weight:g}", f"{value:.{_DIGITS}f}")
            for part, value in zip(parts, values, strict=True)
        ),
        right=("weight", contribution),
    )
    rows.add_section()
    # The sum of the rounded values, so that the column adds up to the last digit.
    rows.add_row("score", "", "", "", f"{sum(values):.{_DIGITS}f}", style="bold")
    return rows


def footer(result: SearchResult, *, explain: bool = False) -> Iterator[str]:
    """The path, the profile, the times, the id for feedback and replay, and the notes.

    The reason for an exact search is included only with ``explain``.
    """
    weighed_rows = f", {several(result.weighed, 'row')} weighed" if result.weighed else ""
    method = f"{result.path.value}{weighed_rows}"
    if result.path is Path.NONE:
        method = result.why
    elif explain or result.path is Path.APPROXIMATE:
        method += f": {result.why}"
    profile = "a profile of the call" if result.profile_version is None else f"profile v{result.profile_version}"
    yield f"{several(len(result), 'hit')} · {method} · {profile}"
    for name, counts in result.facets.items():
        yield f"{name}: {', '.join(f'{value} ({items})' for value, items in counts.items())}"
    times = [f"{stage} {ms:.1f} ms" for stage, ms in result.timings_ms.items()]
    if times:
        yield " · ".join(times)
    if result.next is not None:
        yield f"next page: --after {result.next}"
    if result.retrieval_id is not None:
        yield f"retrieval {result.retrieval_id}"
    for note in (*result.notes, *result.why_no_hits):
        yield f"note: {note}"


EXAMPLES = (
    'retrieval search tickets "connection timeout" --where priority=High -n 5',
    "retrieval search tickets timeout --where 'hours>=24' --explain",
    "retrieval search tickets '\"read timeout\" -redis connect*'",
    "retrieval search tickets timeout --group-by project",
    "retrieval search tickets 'apple pie' --min-relevance 0.3",
    "retrieval search tickets 'conection timout' --typos",
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
    min_score: options.MinScore = None,
    min_relevance: options.MinRelevance = None,
    after: options.After = None,
    after_write: options.AfterWrite = None,
    facets: options.Facets = None,
    typos: options.Typos = False,
    snippet: options.SnippetSize = None,
    domain: Domain = "",
    complexity: Complexity = None,
    actor: Actor = "",
    session: Session = "",
    backtracks: Backtracks = 0,
    generated: Generated = False,
    explain: Annotated[bool, typer.Option("--explain", "-x", help="Show the parts of each score.")] = False,
    as_json: Json = False,
) -> None:
    """Search a collection by meaning and by words."""
    if query is None and vector is None:
        raise typer.BadParameter("give some words, or a vector with --vector", ctx=context, param_hint="QUERY")
    arguments: dict[str, Any] = {
        "vector": options.vector_of("--vector", vector), "where": options.where_of(where or ()), "limit": limit,
        "legs": legs_of(legs), "group_by": group_by, "syntax": not plain, "rewrites": rewrites or (),
        "prefer": options.where_of(prefer or ()), "entities": options.entities_of(entities or ()), "tags": tags or (),
        "as_of": options.moment_of(as_of), "about": options.vector_of("--about", about), "typos": typos,
        "snippet": snippet, "facets": facets or (), "after": after, "after_write": after_write,
        "min_score": min_score, "min_relevance": min_relevance,
    }  # fmt: skip
    arguments["context"] = situation(
        domain=domain, complexity=complexity, actor=actor, session=session, backtracks=backtracks, generated=generated
    )

    async def ask(platform: Platform) -> SearchResult:
        target = await platform.collection(collection, create=False)
        return await target.search(query, profile=await options.profile_named(platform, target, profile), **arguments)

    result = run(state_of(context), ask)
    if as_json:
        print_json(result.as_dict())
    else:
        print_result(console(), result, explain=explain)


COMPLETE_EXAMPLES = (
    'retrieval complete tickets "connection ti"',
    "retrieval complete tickets datab --where priority=High --limit 3",
)


def complete(
    context: typer.Context,
    *,
    collection: CollectionName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text typed so far.")],
    where: options.Where = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Queries, and titles, 1 to 100.")] = 10,
    as_json: Json = False,
) -> None:
    """Complete a text that is being typed, from the words and titles of a collection."""

    def present(result: Completions) -> Iterator[str | Text]:
        yield from result.queries
        for title in result.titles:
            yield Text.assemble((plain(title.id), "green"), "  ", plain(title.title))

    conditions = options.where_of(where or ())
    work = of_collection(collection, lambda target: target.complete(text, where=conditions, limit=limit))
    answer(context, work, present, as_json=as_json)


PASSAGES_EXAMPLES = (
    'retrieval passages docs "how long are backups kept?"',
    'retrieval passages docs "how long are backups kept?" --max-tokens 800 --where team=ops',
)


def passages(
    context: typer.Context,
    *,
    collection: CollectionName,
    query: Annotated[str, typer.Argument(help="The question.")],
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-t", metavar="N", help="The maximum number of printed tokens, at least 100.")
    ] = 2000,
    around: Annotated[int, typer.Option(metavar="N", help="Chunks added on each side of a hit; 0 to 10.")] = 1,
    limit: options.Limit = 10,
    where: options.Where = None,
    min_score: options.MinScore = None,
    min_relevance: options.MinRelevance = None,
    domain: Domain = "",
    complexity: Complexity = None,
    actor: Actor = "",
    session: Session = "",
    as_json: Json = False,
) -> None:
    """Print the passages about a question, as text for a prompt.

    The hits are included in order while they fit; the first that does not
    fit is cut around the words of the query. The remaining room is filled
    with the chunks next to the hits; consecutive chunks of a document become
    one passage.
    """
    search_context = situation(
        domain=domain, complexity=complexity, actor=actor, session=session, backtracks=0, generated=False
    )
    condition = options.where_of(where or ())

    async def ask(target: Collection) -> Passages:
        return await target.passages(
            query,
            max_tokens=max_tokens,
            around=around,
            limit=limit,
            where=condition,
            min_score=min_score,
            min_relevance=min_relevance,
            context=search_context,
        )

    result = run(state_of(context), of_collection(collection, ask))
    if as_json:
        print_json(result.as_dict())
        return
    if result.text:
        console().print(result.text, soft_wrap=True)
    left_out = f"{several(result.left_out, 'hit')} did not fit into {max_tokens:,} tokens" if result.left_out else ""
    empty = "" if result.text else "no passage"
    for note in filter(None, (empty, left_out, *result.notes)):
        tell(f"note: {note}")
