"""``retrieval actors``: pseudonyms for actors, and the quarantine of their feedback."""

from __future__ import annotations

from typing import Annotated

import typer

from retrieval.domain.wording import several
from retrieval.surfaces.cli.options import Json, Yes, argument, command, confirm, group, option
from retrieval.surfaces.cli.output import print_answer
from retrieval.surfaces.cli.run import opened

Actor = Annotated[str, argument("ACTOR", "The actor's name, as recorded.")]

app = typer.Typer()
actors = group(
    app,
    "actors",
    "Replace actors' names by pseudonyms, or exclude their feedback.",
    "retrieval actors pseudonymise ann@example.com --yes",
)


@command(actors, "retrieval actors pseudonymise ann@example.com --yes")
def pseudonymise(*, actor: Actor, yes: Yes = False, as_json: Json = False) -> None:
    """Replace an actor's name by a pseudonym in recorded searches and feedback.

    The pseudonym is random: nothing leads back to the name. Names of
    sessions are removed; the words of queries, and notes, stay as they are.
    """
    confirm(f"Replace {actor:.80} permanently in all records?", yes=yes, as_json=as_json)
    with opened() as (platform, wait):
        report = wait(platform.pseudonymise(actor))
    searches, events = several(report.retrievals, "search"), several(report.feedback, "event")
    print_answer(report, f"{searches} and {events} of feedback now bear {report.pseudonym}", as_json=as_json)


@command(actors, "retrieval actors quarantine bot-7 --reason spam")
def quarantine(
    *,
    actor: Actor,
    reason: Annotated[str, option("TEXT", "The reason, for later reference.")] = "",
    as_json: Json = False,
) -> None:
    """Exclude an actor's past and future feedback.

    The events are kept, with their weights.
    """
    with opened() as (platform, wait):
        _print(wait(platform.quarantine(actor, reason=reason)), "no longer", as_json=as_json)


@command(actors, "retrieval actors release bot-7")
def release(*, actor: Actor, as_json: Json = False) -> None:
    """Let an actor's feedback count again."""
    with opened() as (platform, wait):
        _print(wait(platform.release(actor)), "again", as_json=as_json)


def _print(events: int, how: str, *, as_json: bool) -> None:
    verb = "counts" if events == 1 else "count"
    print_answer({"events": events}, f"{several(events, 'event')} of feedback {how} {verb}", as_json=as_json)
