"""``retrieval memories``: remember messages, show a memory and its history, and forget."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval.domain.checks import JSONTextError, json_of
from retrieval.domain.errors import InvalidRequestError, UnknownCollectionError
from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import Yes, argument, command, confirm, flag, group, option
from retrieval.surfaces.cli.output import field_rows, print_answer, table, tell
from retrieval.surfaces.cli.run import Wait, opened
from retrieval.surfaces.since import moment_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from retrieval.apps.memories import MemoryStore, RememberReport
    from retrieval.platform import Platform


app = typer.Typer()
memories = group(
    app,
    "memories",
    "Remember messages, show memories, and forget them.",
    "retrieval memories remember chat.jsonl --project ops --session 2026-05-01",
    "retrieval memories forget --user ann --yes",
)

Collection = Annotated[str, option("NAME", "The collection of the memories.", "--collection")]
MemoryId = Annotated[str, argument("ID", "The memory's id.")]


@command(memories, "retrieval memories show 01a20206-45aa-77ad-9d9a-229001806734")
def show(*, memory_id: MemoryId, collection: Collection = "memories") -> None:
    """Show a memory with its links, its access count and the memory that superseded it."""
    with _opened_store(collection) as (store, wait):
        memory = wait(store.get_memory(memory_id))
    print_answer(memory, table(["", ""], field_rows(memory.as_dict())))


@command(
    memories,
    "retrieval memories forget 01a20206-45aa-77ad-9d9a-229001806734",
    "retrieval memories forget --user ann --yes",
)
def forget(
    *,
    memory_id: Annotated[str | None, argument("[ID]", "The memory's id.")] = None,
    user: Annotated[str | None, option("NAME", "All memories of this user.")] = None,
    project: Annotated[str | None, option("ID", "All of this project.")] = None,
    collection: Collection = "memories",
    yes: Yes = False,
) -> None:
    """Forget a memory, or all of a user or of a project, permanently.

    Records of them then have a pseudonym.
    """
    if [memory_id, user, project].count(None) != 2:
        raise InvalidRequestError("say what to forget, one of: ID, --user NAME, --project ID")

    forgotten = 1
    with _opened_store(collection) as (store, wait):
        if memory_id is None:
            owner = f"project {project:.80}" if user is None else f"user {user:.80}"
            confirm(f"Forget all memories of {owner} in {collection:.80}?", yes=yes)
        if user is not None:
            forgotten = wait(store.forget_user(user))
        elif project is not None:
            forgotten = wait(store.forget_project(project))
        else:
            wait(store.forget(memory_id or ""))
    print_answer({"forgotten": forgotten}, f"{several(forgotten, 'memory')} forgotten")


@command(memories, "retrieval memories remember chat.jsonl --project ops --session 2026-05-01")
def remember(
    *,
    file: Annotated[str, argument("FILE", "Messages, one JSON object a line; - is standard input.")],
    project: Annotated[str, option("ID", "The project that remembers.")],
    session: Annotated[str, option("NAME", "The session; sources are named by it.")],
    user: Annotated[str | None, option("NAME", "The user that the memories belong to.")] = None,
    first_turn: Annotated[int, option("N", "The number of the first message.")] = 1,
    interaction_type: Annotated[str, option("NAME", "The interaction type of the memories.", "--type")] = "fact",
    at: Annotated[str | None, option("TIME", "The time of the messages: 2026-03-01T12:00:00+00:00; else now.")] = None,
    again: Annotated[
        bool, flag("Read messages again that were remembered before, as by another model.", "--again")
    ] = False,
    collection: Collection = "memories",
    yes: Annotated[bool, flag("Do not ask before texts are sent to a service.", "--yes", "-y")] = False,
) -> None:
    """Store the facts that a language model finds in messages.

    Each message has role and content, and optionally name. A fact that
    contradicts a memory supersedes it. Repeated messages change nothing.
    """
    occurred_at = moment_of("--at", at)
    messages = messages_of(file)

    from retrieval.apps.memories.store import MemoryStore, existing_store

    with opened(when_interrupted="interrupted; run the same command again") as (platform, wait):
        try:
            store = wait(existing_store(platform, collection))
        except UnknownCollectionError:  # it is created with the first memory
            store = MemoryStore(platform, collection)
        wait(_announce_destinations(platform, collection, messages, yes=yes))
        report = wait(
            store.remember(
                messages, project, session=session, user_id=user, first_turn=first_turn,
                interaction_type=interaction_type, occurred_at=occurred_at, again=again,
            )
        )  # fmt: skip
    print_answer(report, _report(report))


@command(memories, "retrieval memories history 01a20206-45aa-77ad-9d9a-229001806734")
def history(*, memory_id: MemoryId, collection: Collection = "memories") -> None:
    """Show the versions of a memory, newest first, with their sources."""
    with _opened_store(collection) as (store, wait):
        versions = wait(store.history(memory_id))
    rows = (
        (each.occurred_at, each.text, ", ".join(each.sources), each.metadata.get("reason", ""), each.memory_id)
        for each in versions
    )
    print_answer(versions, table(["said", "memory", "sources", "reason", "id"], rows))


def _report(report: RememberReport) -> list[str | Table]:
    """The report as lines and a table."""
    messages = several(report.messages, "message")
    if report.remembered_at is not None:
        return [f"{messages} remembered before, at {report.remembered_at:%Y-%m-%d %H:%M}; nothing was changed"]
    if not report.facts:
        return [f"{messages} read; nothing in them to remember", *report.notes]
    rows = [
        (fact.outcome, fact.fact, ", ".join(fact.sources), fact.memory_id or "", fact.superseded_id or "", fact.reason)
        for fact in report.facts
    ]
    return [f"{messages} read", table(["", "fact", "sources", "id", "superseded", "reason"], rows), *report.notes]


@contextmanager
def _opened_store(name: str) -> Iterator[tuple[MemoryStore, Wait]]:
    from retrieval.apps.memories.store import existing_store

    with opened() as (platform, wait):
        yield wait(existing_store(platform, name)), wait


async def _announce_destinations(platform: Platform, collection: str, messages: Sequence[Any], *, yes: bool) -> None:
    """Say where messages and facts are sent, if they leave this machine; see ``announce_destination``."""
    from retrieval.adapters.endpoints import OPENAI_URL
    from retrieval.surfaces.cli.commands.ingest import announce_destination

    llm = platform.llm
    if llm is not None and llm.name.startswith("openai/"):
        url = platform.settings.llm_base_url or OPENAI_URL
        line = f"messages, and memories that resemble their facts, are sent to {url}, to be read by {llm.name[7:]}"
        tell(f"note: {line}")
    await announce_destination(platform, collection, len(json.dumps(messages)), yes=yes)


def messages_of(file: str) -> list[Any]:
    """The messages of a file: one JSON object a line, or a JSON list of them. Raises ``InvalidRequestError``."""
    from retrieval.adapters.readers.lines import decoded, read_lines

    lines = [(line.number, *decoded(line.data.rstrip(b"\r\n"))) for line in read_lines(file)]
    whole = "\n".join(text for _, text, _ in lines)
    if whole.lstrip().startswith("[") and not any(fault for _, _, fault in lines):
        lines = [(1, whole, None)]  # a list may take several lines
    messages: list[Any] = []
    for number, text, fault in lines:
        if fault is not None:
            raise InvalidRequestError(f"{file}:{number}: {fault}")
        if not text.strip():
            continue
        try:
            value = json_of(text)
        except JSONTextError as error:
            raise InvalidRequestError(
                f'{file}:{number}: {error}; give {{"role": "user", "content": "..."}}, one a line, or a list of them'
            ) from None
        messages += value if isinstance(value, list) else [value]
    return messages
