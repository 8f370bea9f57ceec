"""A tour of some 600 real tickets: open the platform, load the tickets, run five searches of different kinds.

Run it with ``make demo``. Nothing needs to be configured. A second run finds the tickets already stored.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from retrieval import Collection, Hit, RetrievalError, SearchResult, connect, read_items
from retrieval.adapters.store.installation.opening import described_server

CORPUS = Path(__file__).parent / "data" / "tickets" / "corpus.jsonl.gz"
COLLECTION = "demo"


@dataclass(frozen=True)
class Question:
    """One search of the tour, and its subject."""

    shows: str
    query: str
    options: dict[str, Any] = field(default_factory=dict)


QUESTIONS = (
    Question("plain words", "connection timeout"),
    Question("a question, as you would ask a colleague", "Why does my program crash when I read a compressed file?"),
    Question(
        "with a filter: only serious tickets",
        "crash with a null pointer",
        {"where": {"priority": ["Blocker", "Critical"]}},
    ),
    Question(
        "by time: only tickets reported in 2023",
        "security vulnerability in a dependency",
        {"where": {"occurred_at": {"gte": "2023-01-01", "lt": "2024-01-01"}}},
    ),
    Question("a name, by words alone (BM25)", "S3A", {"legs": ["lexical"]}),
)


async def main(console: Console) -> None:
    """Run the tour."""
    started = time.perf_counter()
    console.print("Starting PostgreSQL; the first start takes a few seconds ...")
    async with connect() as platform:
        pgvector, seconds = platform.database.facts.pgvector, time.perf_counter() - started
        console.print(f"PostgreSQL with pgvector {pgvector} is ready ({seconds:.1f} s).")
        place, tenant = described_server(platform.settings), platform.settings.tenant
        console.print(
            f"The tickets are stored in {place}, collection {COLLECTION!r} of the tenant {tenant!r}.", soft_wrap=True
        )
        tickets = await platform.collection(COLLECTION)
        await load(tickets, console)
        for number, question in enumerate(QUESTIONS, 1):
            hits = await tickets.search(question.query, limit=3, **question.options)
            show(number, question, hits, console)
    say_what_next(console, time.perf_counter() - started)


async def load(tickets: Collection, console: Console) -> None:
    """Ingest the tickets with a progress line; a second run changes and embeds nothing."""
    started = time.perf_counter()
    space = (await tickets.info()).space
    task = "indexing and embedding the tickets" if space else "indexing the tickets"
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        line = progress.add_task(f"{task} (the first time: half a minute)")
        report = await tickets.ingest(
            read_items(CORPUS),
            progress=lambda so_far, _: progress.update(line, description=f"{task}: {so_far.read} so far"),
        )
    items = report.items
    console.print(
        f"{report.read} tickets: {items.added} new, {items.changed} changed, {items.unchanged} unchanged; "
        f"{items.embedded} embedded ({time.perf_counter() - started:.1f} s)."
    )
    console.print(f"Embedding space: {space or 'none, so the dense leg cannot run'}.")
    for note in items.notes:
        console.print(f"[yellow]Note: {escape(note)}[/]")


def show(number: int, question: Question, result: SearchResult, console: Console) -> None:
    """Print the hits, how each got its score, and how they were found."""
    console.print()
    console.rule(f"[bold]{number}. {escape(question.shows)}", align="left")
    arguments = [repr(question.query), *(f"{name}={value!r}" for name, value in question.options.items())]
    console.print(f"[cyan]search({escape(', '.join(arguments))})")
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="bold")
    table.add_column(style="green")
    table.add_column(overflow="fold")
    for hit in result:
        table.add_row(f"{hit.rank}", f"{hit.score:.5f}", f"[bold]{escape(hit.title)}[/]\n{escape(about(hit))}")
    console.print(table)
    timings = ", ".join(f"{stage} {value:.1f}" for stage, value in result.timings_ms.items())
    console.print(f"[dim]{result.path.value}: {escape(result.why)}; milliseconds: {timings}")
    for note in result.notes:
        console.print(f"[yellow]Note: {escape(note)}[/]")


def about(hit: Hit) -> str:
    """Describe a hit in two lines: the ticket, and the parts that add up to its score."""
    reported = f"{hit.occurred_at:%Y-%m-%d}" if hit.occurred_at else "at an unknown time"
    parts = " + ".join(
        f"{part.value:.5f} {part.leg} (rank {part.rank}, score {part.raw_score:.2f})"
        for part in hit.explanation.contributions
    )
    return f"{hit.id}, {hit.metadata.get('priority')}, {hit.status}, reported {reported}\n= {parts}"


def say_what_next(console: Console, seconds: float) -> None:
    """Print commands to try next."""
    program = Path(sys.executable).with_name("retrieval")
    command = str(program.relative_to(Path.cwd())) if program.is_relative_to(Path.cwd()) else "retrieval"
    console.print()
    console.rule("[bold]What next", align="left")
    console.print(f"The tour took {seconds:.1f} s. The tickets stay stored; search on:")
    for arguments in (
        f'search {COLLECTION} "token expired" --explain',
        f'search {COLLECTION} "upgrade the library" --where priority=Major --where "occurred_at>=2024-01-01"',
        f"ingest mine {os.path.relpath(CORPUS.with_name('tickets.csv'))}",
        "--help",
    ):
        console.print(f"  {command} {arguments}", highlight=False, markup=False, soft_wrap=True)
    console.print("In a browser, see why each hit has its rank, and move the weights:")
    console.print("  make serve", highlight=False)
    console.print(f"  then open http://127.0.0.1:8000/console/search?collection={COLLECTION}", soft_wrap=True)
    console.print("README.md shows searches from Python and over HTTP; docs/ has a page for each task.")


if __name__ == "__main__":
    terminal = Console(highlight=False)
    try:
        asyncio.run(main(terminal))
    except RetrievalError as error:
        terminal.print(f"[red]error:[/] {escape(str(error))}")
        sys.exit(1)
    except KeyboardInterrupt:
        terminal.print("Interrupted; the next run continues.")
        sys.exit(130)
