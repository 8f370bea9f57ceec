"""``retrieval search``, ``complete`` and ``passages``: searches of a collection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from retrieval.domain.learning.context import Context
from retrieval.domain.search.hit import Explanation, Path, SearchResult
from retrieval.domain.search.snippet import Snippet
from retrieval.domain.wording import several
from retrieval.surfaces.cli import options
from retrieval.surfaces.cli.output import console, plain, print_answer, print_json, table, tell
from retrieval.surfaces.cli.run import opened_collection
from retrieval.surfaces.since import moment_of

BODY_LINES = 2
_BODY_CHARACTERS = 1000
_INDENT = 4
_DIGITS = 6


def print_result(out: Console, result: SearchResult, *, explain: bool = False) -> None:
    """Print the hits in order, each with the start of its body, or with the parts of its score; then the footer."""
    for hit in result:
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
    for note in footer(result, explain=explain):
        out.print(Text(plain(note), style="dim"), soft_wrap=True)


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
    line, position = Text(), 0
    for start, end in snippet.highlights:
        line.append(plain(snippet.text[position:start])).append(plain(snippet.text[start:end]), style="bold")
        position = end
    return line.append(plain(snippet.text[position:]))


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


app = typer.Typer()


@options.command(
    app,
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
    *,
    collection: options.CollectionName,
    query: Annotated[
        str | None,
        options.argument(
            "QUERY",
            'The words to search for: "a phrase", -excluded, begin*. Put -- before a query that starts with a '
            "minus. Optional with --vector, or if the legs need no words.",
        ),
    ] = None,
    vector: Annotated[str | None, options.option("FILE", "A vector to search with: a JSON list of numbers.")] = None,
    limit: options.Limit = 10,
    where: options.Where = None,
    legs: Annotated[
        str | None,
        options.option("LEGS", "The legs to use, such as dense,lexical; else the profile's.", "--legs", "-l"),
    ] = None,
    profile: options.ProfileName = None,
    plain: options.Plain = False,
    group_by: Annotated[
        str | None, options.option("FIELD", "Only the best hit of each value of the field.", "--group-by", "-g")
    ] = None,
    rewrites: Annotated[
        list[str] | None, options.option("WORDS", "Another wording. Repeated: several.", "--rewrite")
    ] = None,
    prefer: Annotated[
        list[str] | None, options.option("COND", "As --where, but matching items rank higher, and none is left out.")
    ] = None,
    entities: Annotated[
        list[str] | None,
        options.option("TYPE:ID", "What the question is about: questions:q1. Repeated: several.", "--entity"),
    ] = None,
    tags: Annotated[
        list[str] | None, options.option("TAG", "What the question is about, by tag. Repeated: several.", "--tag")
    ] = None,
    as_of: Annotated[str | None, options.option("TIME", "Signals' reference time: 2026-03-01T12:00:00+00:00.")] = None,
    about: Annotated[
        str | None, options.option("FILE", "A vector, as --vector, only for the question's cluster.")
    ] = None,
    min_score: options.MinScore = None,
    min_relevance: options.MinRelevance = None,
    after: Annotated[
        str | None, options.option("CURSOR", "Page by page: '' for the first, then the last page's cursor.")
    ] = None,
    after_write: Annotated[
        str | None, options.option("TOKEN", "Read at least the state after this write, also on a replica.")
    ] = None,
    facets: Annotated[
        list[str] | None,
        options.option("FIELD", "Count the values of the field among all items that pass --where.", "--facet"),
    ] = None,
    typos: options.Typos = False,
    snippet: Annotated[
        int | None, options.option("N", "Show N characters of each hit around the query's words.", min=20, max=2000)
    ] = None,
    domain: options.Domain = "",
    complexity: options.Complexity = None,
    actor: options.Actor = "",
    session: options.Session = "",
    backtracks: options.Backtracks = 0,
    generated: options.Generated = False,
    explain: Annotated[bool, options.flag("Show the parts of each score.", "--explain", "-x")] = False,
) -> None:
    """Search a collection by meaning and by words."""
    arguments: dict[str, Any] = {
        "vector": options.vector_file("--vector", vector), "where": options.where_of(where), "limit": limit,
        "legs": options.legs_of(legs), "group_by": group_by, "syntax": not plain,
        "rewrites": rewrites or (), "prefer": options.where_of(prefer), "entities": options.entities_of(entities or ()),
        "tags": tags or (), "as_of": moment_of("--as-of", as_of), "about": options.vector_file("--about", about),
        "typos": typos, "snippet": snippet, "facets": facets or (), "after": after, "after_write": after_write,
        "min_score": min_score, "min_relevance": min_relevance,
    }  # fmt: skip
    arguments["context"] = Context(
        domain=domain, complexity=complexity, actor=actor, session=session, backtracks=backtracks, generated=generated
    )

    with opened_collection(collection) as (target, wait):
        named = None if profile is None else wait(options.profile_named(target, profile))
        result = wait(target.search(query, profile=named, **arguments))
    if options.wants_json():
        print_json(result.as_dict())
    else:
        print_result(console(), result, explain=explain)


@options.command(
    app,
    'retrieval complete tickets "connection ti"',
    "retrieval complete tickets datab --where priority=High --limit 3",
)
def complete(
    *,
    collection: options.CollectionName,
    text: Annotated[str, options.argument("TEXT", "The text typed so far.")],
    where: options.Where = None,
    limit: Annotated[int, options.option("N", "Queries, and titles, 1 to 100.", "--limit", "-n")] = 10,
) -> None:
    """Complete a text that is being typed, from the words and titles of a collection."""
    conditions = options.where_of(where)
    with opened_collection(collection) as (target, wait):
        result = wait(target.complete(text, where=conditions, limit=limit))
    titles = (Text.assemble((plain(title.id), "green"), "  ", plain(title.title)) for title in result.titles)
    print_answer(result, [*result.queries, *titles])


@options.command(
    app,
    'retrieval passages docs "how long are backups kept?"',
    'retrieval passages docs "how long are backups kept?" --max-tokens 800 --where team=ops',
)
def passages(
    *,
    collection: options.CollectionName,
    query: Annotated[str, typer.Argument(help="The question.")],
    max_tokens: Annotated[
        int, options.option("N", "The maximum number of printed tokens, at least 100.", "--max-tokens", "-t")
    ] = 2000,
    around: Annotated[int, options.option("N", "Chunks added on each side of a hit; 0 to 10.")] = 1,
    limit: options.Limit = 10,
    where: options.Where = None,
    min_score: options.MinScore = None,
    min_relevance: options.MinRelevance = None,
    domain: options.Domain = "",
    complexity: options.Complexity = None,
    actor: options.Actor = "",
    session: options.Session = "",
) -> None:
    """Print the passages about a question, as text for a prompt.

    The hits are included in order while they fit; the remaining room is
    filled with the chunks next to them. Consecutive chunks become one passage.
    """
    conditions = options.where_of(where)
    search_context = Context(domain=domain, complexity=complexity, actor=actor, session=session)
    with opened_collection(collection) as (target, wait):
        result = wait(
            target.passages(
                query, max_tokens=max_tokens, around=around, limit=limit, where=conditions, min_score=min_score,
                min_relevance=min_relevance, context=search_context,
            )
        )  # fmt: skip
    if options.wants_json():
        print_json(result.as_dict())
        return
    if result.text:
        console().print(result.text, soft_wrap=True)
    left_out = f"{several(result.left_out, 'hit')} did not fit into {max_tokens:,} tokens" if result.left_out else ""
    empty = "" if result.text else "no passage"
    for note in filter(None, (empty, left_out, *result.notes)):
        tell(f"note: {note}")
